"""Earlier spellings of command lines, understood and not listed: one grammar is shown.

| earlier                             | now                                     |
|-------------------------------------|-----------------------------------------|
| lakehouse repair backfill APP TABLE | lakehouse repair backfill TABLE --app APP |
| --dry-run                           | --plan                                  |
| --reason TEXT                       | --why TEXT                              |
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

OPTIONS = {"--dry-run": "--plan", "--reason": "--why"}
APPLICATION = re.compile(r".*[.:/].*")  # a table's name has none of these


class Command(TyperCommand):
    """A command that understands earlier names of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line, written as it is now or as it was."""
        return super().parse_args(ctx, self.present(ctx, args))

    def present(self, ctx: Any, args: list[str]) -> list[str]:
        """Return a command line in the present spelling."""
        own = {name for param in self.params for name in param.opts}
        end = args.index("--") if "--" in args else len(args)
        return [*(_renamed(word, own) for word in args[:end]), *args[end:]]


class ApplicationFirst(Command):
    """A command whose application came first, in front of its tables."""

    def present(self, ctx: Any, args: list[str]) -> list[str]:
        """Return a command line in the present spelling: the application that comes first is an option."""
        args = super().present(ctx, args)
        read = self._read(ctx, args)
        if read is None or not read[0] or read[2].get("app"):
            return args
        words, too_many, options = read
        if not too_many and not APPLICATION.fullmatch(words[0]):
            return args
        for place, word in enumerate(args):
            # The word at a place is the application, and not an option's value, if without it the rest stays the same.
            rest = [*args[:place], *args[place + 1 :]]
            if word == words[0] and (again := self._read(ctx, rest)) and again == (words[1:], 0, options):
                return [f"--app={word}", *rest]
        return args

    def _read(self, ctx: Any, args: list[str]) -> tuple[list[str], int, dict[str, Any]] | None:
        """Return a line's words that are no options, how many of them are too many, and the options; None if wrong."""
        try:
            found, left, _ = self.make_parser(ctx).parse_args(list(args))
        except Exception:  # it is parsed again, and the error shown, by the caller
            return None
        names = [param.name for param in self.params if param.param_type_name == "argument"]
        words = [found.pop(name, None) for name in names]
        return [*(word for word in words if isinstance(word, str)), *left], len(left), found


def _renamed(word: str, own: set[str]) -> str:
    name, equals, value = word.partition("=")
    new = OPTIONS.get(name, name)
    return f"{new}{equals}{value}" if name not in own and new in own else word
