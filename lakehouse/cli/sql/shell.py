"""The shell of `lakehouse sql`: statements over several lines, a history, and words completed by the Tab key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.cli.sql.answer import run_statements
from lakehouse.cli.terminal import show
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.file_faults import expand_home
from lakehouse.ksql.syntax.split_text import ends_statement
from lakehouse.plan.names.field import quoted_name

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from lakehouse.run.sql.session import SqlSession

HISTORY = ".lakehouse_sql_history"
HELP = """Statements end with a semicolon, and may go over several lines.
  SELECT * FROM t WHERE k = 'x';               a table's rows now; AT '2026-01-31T12:00:00Z', AT VERSION 3: at a moment
  SELECT * FROM t EMIT CHANGES LIMIT 10;       rows as they come; Ctrl-C ends it
  PRINT 'topic' FROM BEGINNING LIMIT 3;        a topic's records as they come, until LIMIT or Ctrl-C
  SHOW STREAMS; SHOW TABLES; SHOW FUNCTIONS; DESCRIBE t EXTENDED; EXPLAIN SELECT ...;
  \\d                                           the tables; \\d t: the columns of one, as in psql; \\q ends
  save FILE                                    writes what was declared here into a file, for `lakehouse run --app FILE`
  exit                                         so does Ctrl-D"""


# Commands of psql, which many people type first, as statements; NAME is what is typed behind them.
PSQL_COMMANDS = {
    "\\d": "SHOW TABLES;",
    "\\dt": "SHOW TABLES;",
    "\\df": "SHOW FUNCTIONS;",
    "\\d NAME": "DESCRIBE NAME;",
    "\\d+ NAME": "DESCRIBE NAME EXTENDED;",
}
SHELL_COMMANDS = ("exit", "quit", "help", "save")


def run_shell(session: SqlSession) -> None:
    """Read and run statements until the end."""
    show.say("ksqlDB's SQL over the lake. `help` has examples, `exit` ends.")
    ask_for_text = make_prompt(session)
    while (text := read_statements(ask_for_text)) is not None:
        if not run_typed_text(session, text):
            return


def run_typed_text(session: SqlSession, text: str) -> bool:
    """Run typed text; return False for the end. It shows an error, and the shell goes on."""
    words = text.strip().removesuffix(";").split()
    try:
        match [word.lower() for word in words[:1]]:
            case ["exit" | "quit" | "\\q"]:
                return False
            case ["help" | "\\?"]:
                show.say(HELP)
            case ["save"]:
                _save_statements(session, words[1:])
            case [command] if command.startswith("\\"):
                run_statements(session, statement_of_psql(words))
            case _:
                run_statements(session, text)
    except LakehouseError as error:
        show.say(str(error), stderr=True)
    except KeyboardInterrupt:
        show.say("")
    return True


def statement_of_psql(words: list[str]) -> str:
    """Return the statement that a command of psql means. words: the command, and a name. Raises ConfigError."""
    command = words[0].lower() + " NAME" * (len(words) > 1)
    if len(words) > 2 or command not in PSQL_COMMANDS:
        raise ConfigError(
            f"{' '.join(words)}: expected {', '.join(PSQL_COMMANDS)} or \\q; `help` has the statements of ksqlDB."
        )
    return PSQL_COMMANDS[command].replace("NAME", words[-1])


def _save_statements(session: SqlSession, file_names: list[str]) -> None:
    if len(file_names) != 1 or not file_names[0].endswith(".sql"):
        raise ConfigError("save: expected the name of one file, such as save app.sql")
    session.save(Path(file_names[0]))
    show.say(f"{len(session.declared)} statements were written to {file_names[0]}.")


def read_statements(prompt: Callable[[], str]) -> str | None:
    """Return the next statements; None at the end. Ctrl-C drops the typed text."""
    while True:
        try:
            return prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return None


def is_done(text: str) -> bool:
    """Say whether the Enter key runs a text: a complete statement, or a command of the shell."""
    first_word = text.split()[0].lower() if text.split() else ""
    return ends_statement(text) or first_word in SHELL_COMMANDS or first_word.startswith("\\")


def completion_words(session: SqlSession) -> list[str]:
    """Return the words to complete: keywords, functions, and declared names."""
    from lakehouse.ksql.function.aggregate import AGGREGATES
    from lakehouse.ksql.function.table import FUNCTIONS, TABLE_FUNCTIONS
    from lakehouse.ksql.syntax.parser import grammar_keywords

    declared_sources = session.script.catalog.entries.values()
    declared_names: Iterable[str] = (
        quoted_name(name)
        for declared_source in declared_sources
        for name in (declared_source.name, *(column.name for column in declared_source.columns))
    )
    return sorted({*grammar_keywords(), *FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS, *declared_names})


def make_prompt(session: SqlSession) -> Callable[[], str]:
    """Return the function that asks for the next statements at the terminal."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory

    history_file = expand_home("~") / HISTORY
    # The history may have secrets: create it with that mode, since prompt_toolkit would take the default.
    os.close(os.open(history_file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    prompt_session: PromptSession[str] = PromptSession(
        history=FileHistory(str(history_file)),
        completer=WordCompleter(lambda: completion_words(session), ignore_case=True),
        multiline=Condition(lambda: not is_done(get_app().current_buffer.text)),
        complete_while_typing=False,
    )
    return lambda: prompt_session.prompt("sql> ", prompt_continuation="...> ")
