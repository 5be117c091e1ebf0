"""Shows the stages of a repair's plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.cli.terminal import show

if TYPE_CHECKING:
    from lakehouse.run.repair.stages import RepairPlan


def say_stages(repair_plan: RepairPlan[Any]) -> None:
    """Print what would be done, in order; nothing if no table would change."""
    if repair_plan.has_intervention:
        show.say("The repair would, in this order:")
        for number, text in enumerate(repair_plan.describe(), 1):
            show.say(f"  {number}. {text}")
