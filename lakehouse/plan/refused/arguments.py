"""Checks of what a declaration gets beside names and expressions: switches, and functions."""

from __future__ import annotations

from lakehouse.errors import PlanError
from lakehouse.plan.refused.steps import value_in_message


def check_flag(value: object, subject: str) -> None:
    """Raise PlanError for a switch that is neither True nor False: a text such as "no" would count as True."""
    if not isinstance(value, bool):
        raise PlanError(f"{subject}={value_in_message(value)}: expected True or False.")


def check_function(value: object, subject: str) -> None:
    """Raise PlanError for what can't be called."""
    if not callable(value):
        raise PlanError(f"{subject}={value_in_message(value)}: expected a Python function.")
