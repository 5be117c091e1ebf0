"""Whole numbers on a command line: all fit 64 bits, as those of Delta, DuckDB and Kafka do."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

NUMBER_MAX = 2**63 - 1


class BoundedNumbers(TyperCommand):
    """A command that refuses larger numbers, where another program would raise an error of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line. Raises a usage error for a number that is too large."""
        words_left = super().parse_args(ctx, args)
        params: list[Any] = self.params
        for param in params:
            value = ctx.params.get(param.name)
            if isinstance(value, int) and value > NUMBER_MAX:
                raise typer.BadParameter(f"{value} is too large; expected at most {NUMBER_MAX}.", ctx, param)
        return words_left
