"""The checks of single settings, for lakehouse.settings.config: from the given value to the used one, or WrongValue."""

from __future__ import annotations

import re

from lakehouse.duration import duration_ms
from lakehouse.errors import ConfigError, PlanError
from lakehouse.file_faults import describe_misread_path, expand_home
from lakehouse.passed_on import NEVER_PASSED_ON, PATTERN
from lakehouse.settings import registry
from lakehouse.settings.check_value import Check, WrongValue, check_text

HINT_TOML = 'A setting is a line key = value under a [section]; text is written in "quotes".'
# Properties that lakehouse sets itself, and what the user can do instead.
OWN_KAFKA_OPTIONS = {
    "bootstrap.servers": "use kafka.bootstrap_servers",
    "isolation.level": "leave it out: lakehouse always reads committed records only",
    "group.id": "leave it out: lakehouse keeps its progress in the lake, not in a consumer group",
    "enable.auto.commit": "leave it out: lakehouse keeps its progress in the lake, not in a consumer group",
    "auto.offset.reset": "leave it out: lakehouse starts where the lake ends",
}
PORT_MAX = 65535
BITS_MAX = 1_024  # Python writes no number of more than 4,300 digits
LONG_MAX = 2**63 - 1  # Spark reads numbers of records and bytes as Java's long
SECONDS_MAX = 1_000_000_000  # 31 years: Spark and Python take no timeout that is far longer
SURROGATE = re.compile(r"[\ud800-\udfff]")  # no program takes one; JSON can write it
STORE_OPTIONS = ("endpoint", "region", "path_style", "access_key", "secret_key", "session_token")
ROLES = ("admin", "op", "user", "viewer")
OWN_AIRFLOW_OPTIONS = {
    "api.base_url": "use airflow.host and airflow.port",
    "api.host": "use airflow.host",
    "api.port": "use airflow.port",
    "api.secret_key": "leave it out: it is created once, in keys.json of Airflow's home",
    "api_auth.jwt_secret": "leave it out: it is created once, in keys.json of Airflow's home",
    "core.auth_manager": "leave it out: users are those of airflow.users",
    "core.dags_folder": "leave it out: it is the project's dags/",
    "core.executor": "leave it out: tasks run on this machine; for a cluster, see docs/airflow.md",
    "core.fernet_key": "leave it out: it is created once, in keys.json of Airflow's home",
    "core.plugins_folder": "leave it out: it is the project's plugins/",
    "core.parallelism": "use airflow.workers",
    "core.simple_auth_manager_all_admins": "leave it out: everyone signs in",
    "core.simple_auth_manager_users": "use airflow.users",
    "database.sql_alchemy_conn": "use airflow.database",
}


def check_writable(value: object) -> None:
    """Refuse what no program takes, also inside of a list or a table: a character NUL, a number too long to write."""
    if isinstance(value, str) and "\0" in value:
        raise WrongValue("found a character NUL (\\u0000); expected text without one")
    if isinstance(value, int) and value.bit_length() > BITS_MAX:
        raise WrongValue(f"found a number of {value.bit_length():,} bits; expected one of at most 64")
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        check_writable(part)


def check_local_path(value: object) -> str:
    """Accept a file or a folder of this machine, also below somebody's home folder."""
    path_text = check_text(value)
    try:
        expand_home(path_text)
    except ConfigError as error:
        raise WrongValue(str(error)) from None
    return path_text


def check_lake_path(value: object) -> str:
    """Accept a folder, or a Hadoop URI; a URI without slashes that Hadoop leaves out.

    Hadoop has no file system for s3:// and s3n://, nor for schemes in capitals.
    """
    path_text = check_text(value)
    if (match := re.match(r"s3[an]?://", path_text, re.IGNORECASE)) and match[0] != "s3a://":
        raise WrongValue(f"found {match[0]}...; expected s3a://, as Hadoop calls S3")
    if message := describe_misread_path(path_text):
        raise WrongValue(message)
    scheme, is_uri, place = path_text.partition("://")
    if not is_uri:
        return check_local_path(path_text)
    store_name, *folder_names = place.split("/")
    if scheme == "s3a" and not store_name:
        raise WrongValue(f"found no bucket in {path_text!r}; expected one before the folder, such as s3a://bucket/lake")
    if {".", ".."} & {*folder_names}:
        raise WrongValue(f"found a folder . or .. in {path_text!r}; expected the path without them")
    return "/".join([f"{scheme}://{store_name}", *filter(None, folder_names)])


def check_servers(value: object) -> str:
    """Accept ``host:port``, or several separated by commas."""
    server_texts = [server_text.strip() for server_text in check_text(value).split(",")]
    for server_text in server_texts:
        match = re.fullmatch(r"(?:\[[0-9a-fA-F:]+\]|[\w.-]+):([0-9]{1,5})", server_text)
        if match is None or not 1 <= int(match[1]) <= PORT_MAX:
            raise WrongValue(
                f'found {server_text!r}; expected host:port, several with commas between, such as "one:9092,two:9092"'
            )
    return ",".join(server_texts)


def check_machine(value: object) -> str:
    """Accept the name or the address of a machine."""
    if not re.fullmatch(r"[A-Za-z0-9.:_-]+", machine_name := check_text(value)):
        raise WrongValue(f"found {value!r}; expected the name or the address of a machine, such as 192.0.2.1")
    return machine_name


def make_integer_check(least_number: int, most_number: int = LONG_MAX) -> Check:
    """Return a check for a whole number from ``least_number`` to ``most_number``, both included."""
    expected_text = (
        f"a whole number from {least_number} to {most_number}"
        if most_number < LONG_MAX
        else f"a whole number, {least_number} or more, of at most 64 bits"
    )

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least_number <= value <= most_number:
            raise WrongValue(f"found {value!r}; expected {expected_text}")
        return value

    return check


def check_seconds(value: object) -> float:
    """Accept a number of seconds, 0 or more; what is less than a millisecond is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= SECONDS_MAX:
        raise WrongValue(f"found {value!r}; expected a number of seconds, 0 or more, at most {SECONDS_MAX}")
    return round(float(value), 3)  # Spark does not read 1e-05


def check_memory(value: object) -> str:
    """Accept a JVM memory size such as 3g or 512m."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-9]\d*[mMgG]", value.strip()):
        raise WrongValue(f'found {value!r}; expected a size in megabytes or gigabytes, such as "512m" or "3g"')
    return value.strip().lower()


def make_word_check(*allowed_words: str) -> Check:
    """Return a check for one of these words."""

    def check(value: object) -> str:
        if value not in allowed_words:
            raise WrongValue(f"found {value!r}; expected one of: {', '.join(allowed_words)}")
        return str(value)

    return check


def check_options(value: object) -> dict[str, str]:
    """Accept a table of properties; return them as texts. Messages never show a value: it may be a secret."""
    if not isinstance(value, dict):
        raise WrongValue(
            f"found {type(value).__name__}; expected a table of names and values, in the file "
            '{ "name" = "value" }, in the environment the JSON object {"name": "value"}'
        )
    option_texts = {}
    for name, option_value in value.items():
        if isinstance(option_value, dict):
            raise WrongValue(
                f'found a table for {name}; a name with dots needs quotes: "{name}.{next(iter(option_value), "...")}" '
                "= ...",
                name,
            )
        if not isinstance(option_value, str | int | float):
            raise WrongValue(
                f"found {type(option_value).__name__} for {name}; expected text, a number or true/false", name
            )
        option_texts[name] = str(option_value).lower() if isinstance(option_value, bool) else str(option_value)
        if SURROGATE.search(name + option_texts[name]):
            raise WrongValue(f"found half of a surrogate pair (\\ud800 to \\udfff) for {name!a}; expected text")
    return option_texts


def check_store_options(value: object) -> dict[str, str]:
    """Accept how an S3 store is reached. Messages never show a value: it may be a secret."""
    store_options = check_options(value)
    for name in store_options:
        if name not in STORE_OPTIONS:
            raise WrongValue(f"found {name}; expected one of: {', '.join(STORE_OPTIONS)}", name)
    if "endpoint" in store_options and not re.fullmatch(r"https?://[^\s/@]+/?", store_options["endpoint"]):
        raise WrongValue('expected an address without user and path, such as "https://minio.example:9000"', "endpoint")
    if store_options.get("path_style", "true") not in ("true", "false"):
        raise WrongValue("expected true or false", "path_style")
    if ("access_key" in store_options) != ("secret_key" in store_options):
        raise WrongValue(
            "found one of access_key and secret_key; expected both, or none for the environment's own keys"
        )
    if "session_token" in store_options and "access_key" not in store_options:
        raise WrongValue(
            "found a token without the keys that it belongs to; expected access_key and secret_key", "session_token"
        )
    return store_options


def check_kafka_options(value: object) -> dict[str, str]:
    """Accept Kafka client properties, except those that lakehouse sets itself."""
    kafka_properties = check_options(value)
    for name in kafka_properties:
        property_name = name.removeprefix("kafka.")
        if property_name in OWN_KAFKA_OPTIONS:
            raise WrongValue(f"found {name}, which lakehouse sets itself; {OWN_KAFKA_OPTIONS[property_name]}", name)
        if property_name != name:
            raise WrongValue(f"found {name}; expected the property's own name: {property_name}", name)
    return kafka_properties


def check_airflow_options(value: object) -> dict[str, str]:
    """Accept settings of Airflow by "section.name", except those that lakehouse sets itself."""
    airflow_settings = check_options(value)
    for name, setting_text in airflow_settings.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", name):
            raise WrongValue(
                f'found {name}; expected Airflow\'s section and name, such as "core.max_active_runs_per_dag"', name
            )
        if name in OWN_AIRFLOW_OPTIONS:
            raise WrongValue(f"found {name}, which lakehouse sets itself; {OWN_AIRFLOW_OPTIONS[name]}", name)
        if "\n" in setting_text or "\r" in setting_text:
            raise WrongValue(f"found more than one line for {name}; expected one", name)
    return airflow_settings


def check_users(value: object) -> dict[str, str]:
    """Accept users of Airflow and their roles; one must be an admin."""
    role_by_user = check_options(value)
    for name, role in role_by_user.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,40}", name):
            raise WrongValue(f"found the user {name!r}; expected letters, digits, _ . and -, a letter first", name)
        if role not in ROLES:
            raise WrongValue(f"found the role {role!r} of {name}; expected one of: {', '.join(ROLES)}", name)
    if "admin" not in role_by_user.values():
        raise WrongValue('found no admin; expected at least one, such as { admin = "admin", vera = "viewer" }')
    return role_by_user


def check_database(value: object) -> str:
    """Accept Airflow's database as a SQLAlchemy URL. Messages never show the value: it contains a password."""
    if not isinstance(value, str) or not re.fullmatch(
        r"(postgresql(\+psycopg2)?://[^\s/]|sqlite:////)\S+", value.strip()
    ):
        raise WrongValue(
            'this is not a database URL for Airflow; expected "postgresql+psycopg2://user:password@host/name", '
            'or "sqlite:////absolute/path.db"'
        )
    # Without a driver, SQLAlchemy takes another one than Airflow's environment has.
    return re.sub(r"^postgresql:", "postgresql+psycopg2:", value.strip())


def check_url(value: object) -> str:
    """Accept the address of a catalog."""
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", url_text := check_text(value)):
        raise WrongValue(
            'expected an address without user and password, such as "http://localhost:5000/api/v1/lineage"'
        )
    return url_text


def check_secret(value: object) -> str:
    """Accept a secret in one line. Messages never show the value."""
    if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]+", value.strip()):
        raise WrongValue("expected one word of printable ASCII characters")
    return value.strip()


def check_host(value: object) -> str:
    """Accept an address to listen on."""
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", host_text := check_text(value)):
        raise WrongValue(f'found {value!r}; expected an address of this machine, such as "127.0.0.1"')
    return host_text


def check_topics(value: object) -> tuple[str, ...]:
    """Accept a list of topic names; in the environment, separated by commas."""
    topic_names = value.split(",") if isinstance(value, str) else value
    if not isinstance(topic_names, list) or not all(
        isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name.strip()) for name in topic_names
    ):
        raise WrongValue(f'found {value!r}; expected a list of topic names, such as ["orders", "clicks"]')
    return tuple(name.strip() for name in topic_names)


def check_pass_on(value: object) -> tuple[str, ...]:
    """Accept a list of names of environment variables, which may end with a star; in the environment, with commas."""
    names = value.split(",") if isinstance(value, str) else value
    example = (
        'expected a list of names of variables, or of their beginnings with a star, such as ["MY_TOKEN", "CORP_*"]'
    )
    if not isinstance(names, list) or not all(
        isinstance(name, str) and PATTERN.fullmatch(name.strip()) for name in names
    ):
        raise WrongValue(f"found {value!r}; {example}")
    names = [name.strip() for name in names]
    if forbidden := [name for name in names if NEVER_PASSED_ON.match(name)]:
        raise WrongValue(
            f"found {', '.join(forbidden)}; {example}. Airflow's own variables hold its secrets, lakehouse's settings "
            "are passed on anyhow, and those of Python's and the loader's paths would change what runs"
        )
    return tuple(names)


def check_pattern(value: object) -> str:
    """Accept a regular expression that matches whole topic names."""
    pattern_text = check_text(value)
    try:
        re.compile(pattern_text)
    except re.error as error:
        raise WrongValue(f"found {value!r}, which is not a regular expression: {error}") from None
    return pattern_text


def check_boolean(value: object) -> bool:
    """Accept true or false."""
    if value not in (True, False, "true", "false") or (value in (0, 1) and not isinstance(value, bool)):
        raise WrongValue(f"found {value!r}; expected true or false")
    return value in (True, "true")


def make_duration_check(*allowed_words: str, shortest: str, short_effect: str = "") -> Check:
    """Return a check for one of the words or a duration, at least `shortest`. short_effect: of a shorter duration."""
    expected_text = " or ".join(
        ['a duration such as "7 days"', *[f'"{allowed_word}"' for allowed_word in allowed_words]]
    )

    def check(value: object) -> str:
        if value in allowed_words:
            return str(value)
        try:
            found_ms = duration_ms(check_text(value), "")
        except PlanError:
            raise WrongValue(f"found {value!r}; expected {expected_text}") from None
        if found_ms < duration_ms(shortest, ""):
            raise WrongValue(
                f"found {value!r}; expected at least {shortest}{f': {short_effect}' if short_effect else ''}"
            )
        return check_text(value)

    return check


def check_keep(value: object) -> str:
    """Accept for how long an engine is kept: a duration, "auto", or "off", which 0 and false are, too."""
    if value in (0, "0", "false", "off"):
        return "off"
    return str(make_duration_check("auto", "off", shortest="1 second")(value))


# Of these a variable's text is the value, also where it looks like a number.
TAKE_RAW_TEXT = (
    check_text, check_local_path, check_lake_path, check_servers, check_machine, check_host, check_topics,
    check_pattern, check_url, check_secret, registry.check_urls, registry.check_user, registry.check_password,
)  # fmt: skip

# The check of each setting, by section.
CHECKS: dict[str, dict[str, Check]] = {
    "lake": {
        "path": check_lake_path,
        "app": check_local_path,
        "options": check_store_options,
        "single_writer": check_boolean,
    },
    "kafka": {
        "bootstrap_servers": check_servers,
        "options": check_kafka_options,
        "port": make_integer_check(1, PORT_MAX),
        "folder": check_local_path,
        "topics": check_topics,
        "topic_pattern": check_pattern,
    },
    "registry": {
        "url": registry.check_urls,
        "user": registry.check_user,
        "password": registry.check_password,
        "token": check_secret,
        "ca_file": check_local_path,
        "certificate_file": check_local_path,
        "key_file": check_local_path,
        "key_password": registry.check_password,
        "port": make_integer_check(1, PORT_MAX),
        "folder": check_local_path,
        "timeout_seconds": registry.check_timeout,
        "auto_register": check_boolean,
        "subject_strategy": make_word_check(*registry.SUBJECT_STRATEGIES),
    },
    "spark": {
        "master": check_text,
        "memory": check_memory,
        "internals": check_boolean,
        "python": check_text,
        "driver_host": check_machine,
        "executor_wait_seconds": check_seconds,
        "keep": check_keep,
        "options": check_options,
    },
    "run": {
        "trigger_seconds": check_seconds,
        "max_records_per_tick": make_integer_check(1),
        "max_bytes_per_tick": make_integer_check(1024),
        "max_record_bytes": make_integer_check(1024, 1_000_000_000),
        "on_data_loss": make_word_check("fail", "record"),
    },
    "upkeep": {
        "enabled": check_boolean,
        "every_ticks": make_integer_check(1),
        "every_seconds": check_seconds,
        "optimize_files": make_integer_check(2),
        "keep_versions": make_duration_check(
            shortest="1 hour", short_effect="a read in progress needs the files that it started with"
        ),
        "anchors_every": make_duration_check(shortest="1 second"),
        "keep_anchors": make_duration_check("forever", shortest="1 second"),
    },
    "log": {
        "level": make_word_check("debug", "info", "warning", "error"),
        "format": make_word_check("auto", "text", "json"),
        "lag_seconds": check_seconds,
    },
    "metrics": {"port": make_integer_check(1, PORT_MAX), "host": check_host},
    "lineage": {"url": check_url, "namespace": check_text, "api_key": check_secret},
    "airflow": {
        "home": check_local_path,
        "host": check_host,
        "port": make_integer_check(1, PORT_MAX),
        "database": check_database,
        "workers": make_integer_check(1, 64),
        "users": check_users,
        "options": check_airflow_options,
        "pass_on": check_pass_on,
    },
}
