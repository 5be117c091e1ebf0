"""The meaning of each kind of error, its causes, and the ways out: `lakehouse explain-error`, docs/errors.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from textwrap import fill

from lakehouse import errors
from lakehouse.cli.terminal.failure import exit_code
from lakehouse.errors import LakehouseError, NotFound

TITLE = "# Errors\n"
ABOUT = """
An error says what was found, what was expected and what to do. Each is of a kind, which is also the class that Python
raises (`lakehouse.errors`; all are `LakehouseError`). `lakehouse explain-error DataLoss` prints a kind's part of this
page, and at a terminal an error ends with that line.

The exit code is 2 if what you gave can't be used, 3 if another process writes the table, and 1 for everything else;
130 after Ctrl-C, and 143 after SIGTERM, if it stops a run before it has caught up; a continuous run ends with 0.
An error that is none of these ends with Python's trace: it is a defect of lakehouse. Please report it, with what
`lakehouse doctor --report` prints.
"""


@dataclass(frozen=True)
class ErrorPage:
    """A kind of error. cases: what its message says, and what to do then. more: pages below docs/."""

    meaning: str
    cases: tuple[tuple[str, str], ...]
    more: tuple[str, ...] = ()


PAGES: Mapping[type[LakehouseError], ErrorPage] = {
    errors.ConfigError: ErrorPage(
        "A setting, an option, an environment variable or a file that you named can't be used. Nothing was changed.",
        (
            ("`is not a setting`, with the nearest name", "correct it, in the file or the variable that is named"),
            (
                "`expected` a duration, a number, a time",
                "write it as the message shows: `10 minutes`, `2026-01-31T12:00Z`",
            ),
            ("a lake, a cluster or a store that does not fit", "`lakehouse doctor` tries each part and says which"),
        ),
        ("configuration.md", "commands.md"),
    ),
    errors.PlanError: ErrorPage(
        "A declaration is impossible: it is refused where it is declared, before anything runs. Also: a table "
        "exists, and "
        "can't go on under what is declared now.",
        (
            (
                "it has no such column, or a column twice",
                "the message lists the columns there; rename one by `with_columns`",
            ),
            ("an option that belongs to something else", "leave it out, or declare what the message names"),
            (
                "the logic of a table has changed",
                "`lakehouse plan` shows what; a backfill, or a deployment, builds it anew",
            ),
        ),
        ("streams-and-tables.md", "changing.md", "deploy.md"),
    ),
    errors.ExpressionError: ErrorPage(
        "An expression of a declaration can't be read, names no column, or could give another result when it is "
        "computed "
        "again (`current_timestamp()`, `rand()`).",
        (
            ("it names no column", "correct the name; a name with other characters stands in backticks"),
            (
                "it is not deterministic",
                "use the record's own time, `rowtime`, and its place: `rowpartition`, `rowoffset`",
            ),
            ("a function that is not allowed", "the message names the one that fits, if there is one"),
        ),
        ("streams-and-tables.md",),
    ),
    errors.NoSuchStep: ErrorPage(
        "A stream, a table or another declaration has no method of this name.",
        (("the name of another library's step", "the message says what it is called here"),),
        ("streams-and-tables.md",),
    ),
    errors.NeedsSpark: ErrorPage(
        "The model, which runs scenarios without Spark, has no Python form of an expression. Spark has one, and is "
        "right.",
        (("in `lakehouse test run`", "run the scenario on Spark: `lakehouse test run --engine spark`"),),
        ("testing.md",),
    ),
    errors.SqlError: ErrorPage(
        "A statement in ksqlDB's SQL can't be read, or means nothing here. The message points at the place.",
        (
            ("a word is misspelt", "the message names the likely one"),
            ("a statement that ksqlDB has and this has not", "the message names what there is instead"),
        ),
        ("sql.md", "sql-functions.md"),
    ),
    errors.NotFound: ErrorPage(
        "A table, a topic, a record, a version or a tick does not exist, or no longer: its files were vacuumed.",
        (
            ("no such table, with the nearest names", "`lakehouse look tables` lists those of the lake"),
            (
                "a moment from before the lake, or one whose files are gone",
                "`lakehouse past log TABLE` lists what there is",
            ),
        ),
        ("time-travel.md",),
    ),
    errors.NoLake: ErrorPage(
        "The folder is no lake: it is not there, is empty, or holds something else. A command that reads makes none.",
        (("it is another folder than you meant", "name the lake by `--lake`, or by `path` under `[lake]`"),),
        ("configuration.md",),
    ),
    errors.LeaseHeld: ErrorPage(
        "Another process writes this table, or declares its stream otherwise. A table has one writer.",
        (
            ("a process of this machine, with its id", "wait for it, or stop it: `kill PID`, `lakehouse airflow down`"),
            (
                "a process of another machine, on an object store",
                "a lease of one that was killed ends by itself, as the message says",
            ),
            ("a stream is declared otherwise in a process that runs", "give one of the two streams another name"),
        ),
        ("processes.md", "object-store.md"),
    ),
    errors.Fenced: ErrorPage(
        "Another writer has taken the table over, and this one stopped at once. Nothing was written twice, nothing "
        "is lost.",
        (
            (
                "two jobs run for one table",
                "stop one of them; `--tables` and `--part` divide the tables among processes",
            ),
        ),
        ("processes.md",),
    ),
    errors.DataLoss: ErrorPage(
        "Kafka no longer has records that bronze expects next, or a record is larger than the lake takes. The "
        "run stopped "
        "before it wrote anything; nothing was skipped.",
        (
            ("`expired before it was ingested`", 'accept the gap: `on_data_loss = "record"` under `[run]`'),
            ("`the topic was deleted and recreated`", "the same; the new topic is read from its first record"),
            ("`behind what bronze has`", "the topic was cut: see the page"),
            ("`is too large to be taken in`", "raise `max_record_bytes` under `[run]`, or accept the gap"),
        ),
        ("data-loss.md", "operations.md"),
    ),
    errors.KafkaUnavailable: ErrorPage(
        "Kafka does not answer, or refuses what was asked. What is in the lake stays as it is.",
        (
            ("`did not answer within`", "check `bootstrap_servers` under `[kafka]`; `lakehouse doctor` tries it"),
            (
                "it refuses the request: not authorized",
                "`lakehouse kafka acls` prints the rights that an application needs",
            ),
            (
                "the record has more bytes than the topic takes",
                "raise the topic's `max.message.bytes`, as the message says",
            ),
            ("changes were not published", "they stay in the lake: run again, and they are published"),
        ),
        ("production.md",),
    ),
    errors.RegistryUnavailable: ErrorPage(
        "A schema registry gives no answer that can be used. That may pass: no record is at fault, bronze has all "
        "of them.",
        (
            ("no registry is configured, and none runs", "`lakehouse registry up`, or `url` under `[registry]`"),
            ("a table waits at a tick", "run it again when the registry answers"),
        ),
        ("registry.md",),
    ),
    errors.SchemaRefused: ErrorPage(
        "A registry refuses the schema of a sink: it is not valid, or not compatible with those before it.",
        (("not compatible", "`lakehouse schema check` shows the two; give new fields a default, or use a new topic"),),
        ("avro.md", "registry.md"),
    ),
    errors.RegistryError: ErrorPage(
        "The schema registry of this machine can't be fetched, started or stopped.",
        (("a folder that its database can't have", "another folder: `folder` under `[registry]`"),),
        ("registry.md",),
    ),
    errors.BrokerError: ErrorPage(
        "The Kafka of this machine can't be started, found or stopped.",
        (
            ("no java, or an older one", "Java 17 or newer; `JAVA_HOME` names its folder"),
            ("a port is in use", "the message names who uses it; any free one is taken if none is set"),
            ("a folder that Kafka can't use", "another folder: `folder` under `[kafka]`"),
        ),
        ("install.md",),
    ),
    errors.AirflowError: ErrorPage(
        "The Airflow that `lakehouse airflow` runs can't be set up, started, asked or ended.",
        (
            ("a part ended too often, and was given up", "its log has the cause; `lakehouse airflow down`, then `up`"),
            ("a port is in use", "another one: `port` under `[airflow]`"),
            ("it was not healthy after some time", "try again when the machine is less busy"),
        ),
        ("airflow.md",),
    ),
    errors.ExpectationFailed: ErrorPage(
        "A record, or a row, does not meet an expectation that stops the run. No table has taken in its tick.",
        (
            ("a record", "fix it at its place: `lakehouse repair replay STREAM --position ...`; or change the rule"),
            ("a row", "`lakehouse past explain TABLE --key KEY` shows its records; send one that corrects it"),
        ),
        ("expectations.md", "bad-records.md"),
    ),
    errors.StorageError: ErrorPage(
        "A table in the lake contradicts its own log or its plan: somebody else wrote into it, files are gone, "
        "or another "
        "release made it.",
        (
            (
                "metadata of a commit that is damaged",
                "put the commit's file back from a copy; silver can be built again",
            ),
            ("a format of another version", "read it with the release that wrote it, or ingest into a new lake"),
            ("rows that can't be read", "`lakehouse test audit TABLE --deep` says what differs from bronze"),
        ),
        ("commits.md", "rebuild.md", "upgrade.md"),
    ),
    errors.JobFailed: ErrorPage(
        "A job ended by an error of Spark, of Java or of your own function. What was committed stays; the next run "
        "goes on.",
        (
            ("your function failed on a record", "mend it, and run again: it goes on with this record"),
            (
                "Java was ended: out of memory, or killed",
                "`memory` under `[spark]`; `lakehouse doctor` compares it with the machine",
            ),
            ("the disk is full", "free some; nothing was half written"),
        ),
        ("operations.md", "sizing.md"),
    ),
    errors.TimedOut: ErrorPage(
        "An answer took longer than its reader waits, so the work for it was ended. Nothing was changed.",
        (
            (
                "on the page, or in a plugin of Airflow",
                "ask by the command that the message names: a terminal has no limit",
            ),
        ),
        ("page.md",),
    ),
}


def page_of(name: str) -> str:
    """Return the page about a kind of error, as text. Raises NotFound with the nearest name."""
    pages_by_name = {error_class.__name__.lower(): error_class for error_class in PAGES}
    error_class = pages_by_name.get(name.replace("-", "").replace("_", "").lower())
    if error_class is None:
        near_names = get_close_matches(name.lower(), pages_by_name, 1)
        hint = f"Did you mean {pages_by_name[near_names[0]].__name__}? " if near_names else ""
        all_names = ", ".join(sorted(other_name.__name__ for other_name in PAGES))
        raise NotFound(f"Found no kind of error {name[:80]!r}. {hint}Expected one of: {all_names}.")
    return _text_of(error_class, PAGES[error_class])


def whole_page() -> str:
    """Return docs/errors.md."""
    return TITLE + ABOUT + "".join(f"\n{_text_of(error_class, page)}" for error_class, page in PAGES.items())


def _text_of(error_class: type[LakehouseError], page: ErrorPage) -> str:
    code = exit_code(error_class("x"))
    links = ", ".join(f"[{name}]({name})" for name in page.more)
    rows = "\n".join(f"| {sign} | {way_out} |" for sign, way_out in page.cases)
    return (
        f"## {error_class.__name__}\n\n{fill(f'{page.meaning} The exit code is {code}.', 120)}\n\n"
        f"| it says | what to do |\n|---|---|\n{rows}\n\nMore: {links}\n"
    )
