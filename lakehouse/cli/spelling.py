"""Accepts earlier spellings of command lines, which no help lists: help shows one grammar.

| earlier                             | now                                     |
|-------------------------------------|-----------------------------------------|
| lakehouse repair backfill APP TABLE | lakehouse repair backfill TABLE --app APP |
| --dry-run                           | --plan                                  |
| --reason TEXT                       | --why TEXT                              |
"""

from __future__ import annotations

import re
from typing import Any

from lakehouse.cli.numbers import BoundedNumbers

OPTIONS = {"--dry-run": "--plan", "--reason": "--why"}
APPLICATION = re.compile(r".*[.:/].*")  # a table's name has none of these


class RenamedOptions(BoundedNumbers):
    """A command that accepts earlier names of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line in the present or the earlier spelling."""
        return super().parse_args(ctx, self.respell(ctx, args))

    def respell(self, ctx: Any, args: list[str]) -> list[str]:
        """Return a command line in the present spelling."""
        own_options = {name for param in self.params for name in param.opts}
        end_of_options = args.index("--") if "--" in args else len(args)
        return [*(_rename_option(word, own_options) for word in args[:end_of_options]), *args[end_of_options:]]


class ApplicationFirst(RenamedOptions):
    """A command that accepts the earlier order: the application first, in front of its tables."""

    def respell(self, ctx: Any, args: list[str]) -> list[str]:
        """Return a command line in the present spelling, with an application that comes first as an option."""
        args = super().respell(ctx, args)
        parsed_line = self._read_line(ctx, args)
        if parsed_line is None or not parsed_line[0] or parsed_line[2].get("app"):
            return args
        words, too_many, options = parsed_line
        if not too_many and not APPLICATION.fullmatch(words[0]):
            return args
        for position, word in enumerate(args):
            # The word at a place is the application, and not an option's value, if the rest stays the same without it.
            other_words = [*args[:position], *args[position + 1 :]]
            if (
                word == words[0]
                and (parsed_rest := self._read_line(ctx, other_words))
                and parsed_rest == (words[1:], 0, options)
            ):
                return [f"--app={word}", *other_words]
        return args

    def _read_line(self, ctx: Any, args: list[str]) -> tuple[list[str], int, dict[str, Any]] | None:
        """Return a line's words that are no options, the number of surplus words, and the options; None if wrong."""
        try:
            values_by_name, words_left, _ = self.make_parser(ctx).parse_args(list(args))
        except Exception:  # the caller parses the line again, and shows the error
            return None
        argument_names = [param.name for param in self.params if param.param_type_name == "argument"]
        words = [values_by_name.pop(name, None) for name in argument_names]
        return [*(word for word in words if isinstance(word, str)), *words_left], len(words_left), values_by_name


def _rename_option(word: str, own_options: set[str]) -> str:
    name, equals, value = word.partition("=")
    new_name = OPTIONS.get(name, name)
    return f"{new_name}{equals}{value}" if name not in own_options and new_name in own_options else word
