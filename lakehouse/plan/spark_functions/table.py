"""The table of Spark's functions: each has one record (`lakehouse.plan.spark_functions.record`).

A function is allowed if it gives the same result for the same record: it uses no clock, no random number and nothing
outside the record, and neither takes nor gives several records. A test compares the names with the functions of a real
session; a function that is missing here does not exist, and is refused.
"""

from __future__ import annotations

from difflib import get_close_matches
from itertools import chain

from lakehouse.plan.spark_functions import guards
from lakehouse.plan.spark_functions.record import SparkFunction, make_records, word_set

_GROUPS = (
    # They may raise, make nothing large of small values, and need Spark.
    make_records(
        """
        acosh aes_decrypt array_append array_compact array_prepend arrays_overlap arrays_zip ascii asinh atanh bin
        binary bit_count bit_length bitmap_bit_position bitmap_bucket_number bitmap_count collate collation crc32 csc
        date date_sub dateadd dayname dayofmonth dayofweek dayofyear e expm1 factorial find_in_set from_unixtime hash
        hypot is_valid_utf8 is_valid_variant is_variant_null isnan last_day levenshtein log log10 log1p log2
        luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
        make_timestamp_ntz make_valid_utf8 make_ym_interval monthname nanvl next_day nullifzero octet_length overlay
        parse_json positive quarter quote regexp_substr rint sec sentences sha/sha1 sha2 shiftleft shiftright
        shiftrightunsigned soundex split_part substring_index time time_bucket time_diff time_from_micros
        time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp_micros
        timestamp_seconds timestampadd to_binary to_char/to_varchar to_csv to_number to_time to_unix_timestamp
        to_variant_object to_xml translate try_add try_aes_decrypt try_make_interval try_make_timestamp
        try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_subtract try_to_binary try_to_date
        try_to_number try_to_time try_validate_utf8 try_variant_get typeof url_decode validate_utf8 variant_get weekday
        width_bucket xpath xpath_boolean xpath_float xpath_int xpath_long xpath_double/xpath_number xpath_short
        xpath_string xxhash64 zeroifnull
        """
    ),
    make_records("unix_timestamp", refused_empty=True),
    # The same, and the model computes them.
    make_records(
        """
        acos array_distinct array_except array_intersect array_max array_min array_remove array_sort array_union asin
        atan atan2 base64 btrim cbrt chr/char conv cos cosh cot degrees encode exp filter flatten get_json_object hex
        json_array_length json_object_keys left ln map_concat map_contains_key map_entries map_filter map_keys
        map_values md5 parse_url power/pow radians reverse right schema_of_variant sin sinh slice sort_array sqrt tan
        tanh to_date try_parse_json try_parse_url try_url_decode unbase64 unhex url_encode
        """,
        model="strict",
    ),
    make_records("decode elt mask pi", model="nulls"),
    make_records("cast mod equal_null try_cast", model="tree"),
    make_records("negative", type="widest", model="tree"),
    make_records("add_months date_add date_from_unix_date timestamp_millis", leaves_years=True, model="strict"),
    make_records("unix_date", type="int", model="strict"),
    make_records("get initcap to_json", size="linear", model="strict"),
    make_records("element_at", least=1, size="linear"),
    make_records("try_element_at", least=1, model="strict"),
    # Values of a few bytes.
    make_records("boolean double float", size="small"),
    make_records(
        "array_contains array_size ceil/ceiling exists floor forall instr sign/signum", size="small", model="strict"
    ),
    make_records("abs pmod", size="small", type="widest", model="strict"),
    make_records("locate/position", size="small", model="nulls"),
    make_records("month", size="small", type="int", model="strict"),
    make_records("year", size="small", type="int", mistyped=True, model="strict"),
    make_records("contains endswith startswith", raises=False, size="small"),
    make_records("isnotnull isnull", raises=False, size="small", model="nulls"),
    make_records("length/char_length/character_length/len", raises=False, size="small", type="int", model="strict"),
    make_records("size/cardinality", raises=False, size="small", type="int", model="nulls"),
    # sqlglot gives another type than Spark.
    make_records("array_position", size="small", type="bigint", mistyped=True),
    make_records("datediff/date_diff day", size="small", type="int", mistyped=True),
    make_records("round", raises=False, size="small", mistyped=True),
    make_records("weekofyear", type="int", mistyped=True),
    make_records("bit_get/getbit", type="tinyint", mistyped=True),
    make_records("bround try_divide", mistyped=True),
    make_records("trunc", type="date", mistyped=True),
    make_records("timestampdiff", type="bigint", mistyped=True),
    # They put their arguments together, or give one of them, and do not raise.
    make_records("concat lower/lcase upper/ucase", raises=False, size="linear", model="strict"),
    make_records("if named_struct struct substring/substr trim", raises=False, size="linear", model="tree"),
    make_records("ltrim nvl2 rtrim", raises=False, size="linear"),
    make_records("nullif", raises=False, size="linear", model="nulls"),
    make_records("array", raises=False, size="linear", chooses=True, model="tree"),
    make_records("coalesce/ifnull/nvl", raises=False, size="linear", type="widest", chooses=True, model="tree"),
    make_records("greatest least", raises=False, size="linear", type="widest", chooses=True, model="nulls"),
    # Casts, which wrap around unless they are guarded.
    make_records("bigint int smallint tinyint", casts=True, size="small"),
    make_records("string", casts=True, size="linear"),
    make_records("decimal", casts=True),
    make_records("timestamp", casts=True, moments=(0,)),
    # They read texts as timestamps: not to_timestamp and its like with a format.
    make_records("date_part/datepart/extract date_trunc", moments=(1,)),
    make_records("hour minute second", size="small", moments=(0,)),
    make_records("unix_micros unix_seconds", type="bigint", moments=(0,)),
    make_records("unix_millis", type="bigint", moments=(0,), model="strict"),
    make_records("to_timestamp_ltz to_timestamp_ntz try_to_timestamp", moments=(0,)),
    make_records("date_format from_utc_timestamp to_timestamp to_utc_timestamp", moments=(0,), model="strict"),
    make_records("months_between", moments=(0, 1)),
    make_records("convert_timezone", moments=(-1,)),
    # The record says how large the value is.
    make_records("repeat", least=2, length=guards.REPEATED_LENGTH, model="strict"),
    make_records("array_repeat", least=2, length=guards.REPEATED_LENGTH),
    make_records("lpad rpad", least=2, length="cast(`1` AS double)", model="strict"),
    make_records("array_insert", least=2, length="abs(cast(`1` AS double))"),
    make_records("space", least=1, length="cast(`0` AS double)"),
    make_records("sequence", least=2, length=guards.length_of_sequence, model="strict"),
    make_records("format_number", least=2, length=guards.digits_of_number),
    make_records("replace", least=2, length=guards.added_by_replace, model="strict"),
    make_records("array_join", least=2, length=guards.added_by_array_join, model="strict"),
    make_records("concat_ws", least=1, length=guards.added_by_concat_ws, model="nulls"),
    make_records("format_string/printf", least=1, length=guards.added_by_format),
    # Patterns.
    make_records("rlike/regexp/regexp_like", least=2, size="small", patterns=(1,), model="strict"),
    make_records("regexp_count", least=2, size="small", patterns=(1,)),
    make_records("regexp_instr", least=2, patterns=(1,)),
    make_records("regexp_extract split", least=2, patterns=(1,), model="strict"),
    make_records("regexp_extract_all", least=2, patterns=(1,), length=guards.length_of_groups, model="strict"),
    make_records("regexp_replace", least=3, patterns=(1,), length=guards.added_by_regexp_replace, model="strict"),
    make_records("str_to_map", least=1, patterns=(1, 2)),
    make_records("like ilike", least=2, size="small", like=True),
    # A null among the keys of a map.
    make_records("map", size="linear", null_key=guards.null_key_of_map, model="nulls"),
    make_records("map_from_arrays", least=2, null_key="exists(`0`, x -> x IS NULL)", mistyped=True),
    make_records("map_from_entries", least=1, null_key=guards.NULL_KEY_OF_ENTRY, model="strict"),
    # Lambdas, whose values together are measured one by one.
    make_records("aggregate/reduce", least=3, folds=True, model="nulls"),
    make_records(
        "transform", least=2, lambda_calls="transform(`0`, (x, i) -> named_struct('v0', x, 'v1', i))", model="strict"
    ),
    make_records("transform_values", least=2, lambda_calls=guards.CALLS_OF_ENTRIES, model="strict"),
    make_records("transform_keys", least=2, lambda_calls=guards.CALLS_OF_ENTRIES, null_key=guards.NULL_KEY_OF_LAMBDA),
    make_records(
        "zip_with", least=3, lambda_calls="zip_with(`0`, `1`, (x, y) -> named_struct('v0', x, 'v1', y))", model="strict"
    ),
    make_records(
        "map_zip_with", least=3,
        lambda_calls="map_values(map_zip_with(`0`, `1`, (k, x, y) -> named_struct('v0', k, 'v1', x, 'v2', y)))",
    ),
    # They read texts by the types of a schema.
    make_records("from_csv from_xml", least=2, parses=True),
    make_records("from_json", least=2, parses=True, model="strict"),
    # SQL functions that Spark lacks: as in ksqlDB, Java computes them (spark/expression/java_functions.py); on the
    # model, Python does (model/function/).
    make_records(
        "ksql_json_fields ksql_json_items ksql_json_pointer ksql_json_text ksql_reverse ksql_unescape", own=True,
        least=1, model="strict",
    ),
    make_records(
        "ksql_format_date ksql_format_time ksql_json_at ksql_parse_date ksql_parse_time", own=True, least=2,
        model="strict",
    ),
    # SQL calls the two of patterns where a function of Spark has matched, which bounds how far Java recurses.
    make_records(
        "ksql_format_timestamp ksql_regexp_group ksql_regexp_groups ksql_substring", own=True, least=3, model="strict"
    ),
    make_records("ksql_length", own=True, least=1, type="int", model="strict"),
    make_records("ksql_find", own=True, least=4, type="int", model="strict"),
    # Refused functions, and why.
    make_records("curdate current_date current_time current_timestamp localtimestamp now", refused="it reads a clock"),
    make_records(
        """
        aes_encrypt monotonically_increasing_id rand randn random randstr shuffle spark_partition_id uniform uuid
        """,
        refused="it gives another value each time",
    ),
    make_records(
        """
        collations current_catalog current_database current_path current_schema current_timezone current_user
        input_file_block_length input_file_block_start input_file_name java_method python_worker_logs reflect
        session_user sql_keywords table_changes table_changes_by_path try_reflect user version
        """,
        refused="it looks outside the record",
    ),
    make_records("assert_true raise_error", refused="it stops the job on purpose"),
    make_records(
        """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
        array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
        collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp cume_dist dense_rank every
        first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kurtosis lag last
        last_value lead listagg max max_by mean measure median min min_by mode nth_value ntile percent_rank percentile
        percentile_approx percentile_cont percentile_disc rank regr_avgx regr_avgy regr_count regr_intercept regr_r2
        regr_slope regr_sxx regr_sxy regr_syy row_number schema_of_variant_agg skewness some std stddev stddev_pop
        stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance
        """,
        refused="it takes several records",
    ),
    make_records(
        """
        explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range stack variant_explode
        variant_explode_outer
        """,
        refused="it gives several records",
    ),
    make_records(
        """
        from_avro from_protobuf schema_of_avro schema_of_csv schema_of_json schema_of_xml session_window to_avro
        to_protobuf window window_time
        """,
        refused="it needs its own plan",
    ),
    make_records("approx_top_k_estimate hll_sketch_estimate hll_union", refused="it has not been tested"),
)  # fmt: skip
RECORDS = tuple(chain.from_iterable(_GROUPS))
ALLOWED = frozenset(record.name for record in RECORDS if not record.refused and not record.own)
_FUNCTIONS = {record.name: record for record in RECORDS}
# Families of functions for sketches and geometry.
_FAMILIES = ("kll_", "theta_", "tuple_", "st_", "vector_")
_OF_FAMILY = SparkFunction(name="", refused="it has not been tested")
NO_FUNCTION = SparkFunction(name="", refused="Spark has no such function")
# Words that may precede a parenthesis but are not functions, and Spark's operators with names of functions.
WORDS = word_set(
    """
    all and any as between both case dec distinct div else end escape except for from ilike in interval is leading
    like not numeric on or over placing regexp rlike some then trailing varchar when xor
    """
)


def function_named(name: str) -> SparkFunction:
    """Return the record of a function; NO_FUNCTION, which is refused, for a name in lower case that has none."""
    return _FUNCTIONS.get(name) or (_OF_FAMILY if name.startswith(_FAMILIES) else NO_FUNCTION)


def suggest_function(name: str) -> str:
    """Return " Did you mean upper?" for a name similar to a function's; else ""."""
    close_names = get_close_matches(name, sorted(ALLOWED), 1)
    return f" Did you mean {close_names[0]}?" if close_names else ""
