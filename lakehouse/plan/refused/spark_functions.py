"""Spark's functions: those that an expression may use, and those that it may not.

A function is allowed if it gives the same result for the same record: it uses no clock, no random number and nothing
outside the record, and neither takes nor gives several records. A test compares both lists with the functions of a real
session; a function in neither list does not exist.
"""

from __future__ import annotations

from difflib import get_close_matches


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


ALLOWED = word_set(
    """
    abs acos acosh add_months aes_decrypt aggregate array array_append array_compact array_contains array_distinct
    array_except array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh atan atan2 atanh base64
    bigint bin binary bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count boolean
    bround btrim cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce collate collation
    concat concat_ws contains conv convert_timezone cos cosh cot crc32 csc date date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear decimal decode degrees double e element_at elt encode endswith equal_null exists exp expm1 extract
    factorial filter find_in_set flatten float floor forall format_number format_string from_csv from_json
    from_unixtime from_utc_timestamp from_xml get get_json_object getbit greatest hash hex hour hypot if ifnull ilike
    initcap instr int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull json_array_length
    json_object_keys last_day lcase least left len length levenshtein like ln locate log log10 log1p log2 lower lpad
    ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
    make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter
    map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname
    months_between named_struct nanvl negative next_day nullif nullifzero nvl nvl2 octet_length overlay parse_json
    parse_url pi pmod position positive pow power printf quarter quote radians reduce regexp regexp_count
    regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse
    right rint rlike round rpad rtrim schema_of_variant sec second sentences sequence sha sha1 sha2 shiftleft shiftright
    shiftrightunsigned sign signum sin sinh size slice smallint sort_array soundex space split split_part sqrt
    startswith str_to_map string struct substr substring substring_index tan tanh time time_bucket time_diff
    time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
    timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff tinyint to_binary to_char
    to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp to_varchar to_variant_object to_xml transform transform_keys transform_values translate trim
    trunc try_add try_aes_decrypt try_cast try_divide try_element_at try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_subtract
    try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
    try_variant_get typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper
    url_decode url_encode validate_utf8 variant_get weekday weekofyear width_bucket xpath xpath_boolean xpath_double
    xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 year zeroifnull zip_with
    """
)
# SQL functions that Spark lacks: as in ksqlDB, Java computes them (spark/expression/java_functions.py); on the model,
# Python does (model/function/).
OWN = word_set(
    """
    ksql_find ksql_format_date ksql_format_time ksql_format_timestamp ksql_json_at ksql_json_fields ksql_json_items
    ksql_json_pointer ksql_json_text ksql_length ksql_parse_date ksql_parse_time ksql_reverse ksql_substring
    """
)
# Clocks and random numbers; functions that look outside the record or stop the job on purpose; functions that take
# several records (count, sum and others belong to tables) or give several (explode is a stream's step); functions that
# need their own plan.
REFUSED = word_set(
    """
    aes_encrypt any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine approx_top_k_estimate array_agg assert_true avg bit_and bit_or bit_xor bitmap_and_agg
    bitmap_construct_agg bitmap_or_agg bool_and bool_or collations collect_list collect_set corr count count_if
    count_min_sketch covar_pop covar_samp cume_dist curdate current_catalog current_database current_date current_path
    current_schema current_time current_timestamp current_timezone current_user dense_rank every explode explode_outer
    first first_value from_avro from_protobuf grouping grouping_id histogram_numeric hll_sketch_agg
    hll_sketch_estimate hll_union hll_union_agg inline inline_outer input_file_block_length input_file_block_start
    input_file_name java_method json_tuple kurtosis lag last last_value lead listagg localtimestamp max max_by mean
    measure median min min_by mode monotonically_increasing_id now nth_value ntile percent_rank percentile
    percentile_approx percentile_cont percentile_disc posexplode posexplode_outer python_worker_logs raise_error rand
    randn random randstr range rank reflect regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy row_number schema_of_avro schema_of_csv schema_of_json schema_of_variant_agg
    schema_of_xml session_user session_window shuffle skewness some spark_partition_id sql_keywords stack std stddev
    stddev_pop stddev_samp string_agg sum table_changes table_changes_by_path to_avro to_protobuf
    try_avg try_reflect try_sum uniform user uuid var_pop var_samp variance
    variant_explode variant_explode_outer version window window_time
    """
)
# Families of functions for sketches and geometry; none has been tested.
REFUSED_FAMILIES = ("kll_", "theta_", "tuple_", "st_", "vector_")
# Words that may precede a parenthesis but are not functions, and Spark's operators with names of functions.
WORDS = word_set(
    """
    all and any as between both case dec distinct div else end escape except for from ilike in interval is leading
    like not numeric on or over placing regexp rlike some then trailing varchar when xor
    """
)


def is_refused(name: str) -> bool:
    """Say whether Spark has a function of this name that an expression may not use."""
    return name in REFUSED or (name.startswith(REFUSED_FAMILIES) and name not in ALLOWED)


def suggest_function(name: str) -> str:
    """Return ", did you mean upper?" for a name similar to a function's; else ""."""
    close_names = get_close_matches(name, sorted(ALLOWED), 1)
    return f" Did you mean {close_names[0]}?" if close_names else ""
