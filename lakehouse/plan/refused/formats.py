"""Names of formats in a declaration."""

from __future__ import annotations

from lakehouse.errors import PlanError
from lakehouse.plan.names.format_traits import FORMAT_ALIASES
from lakehouse.plan.refused.near import suggest_near


def check_format_name(name: str, known_formats: tuple[str, ...], subject: str) -> str:
    """Return the name of a known format, for an alias the format's own. Raises PlanError for another."""
    lowered_name = FORMAT_ALIASES.get(str(name).lower(), str(name).lower())
    if lowered_name not in known_formats:
        raise PlanError(
            f"{subject}={name!r}: expected one of "
            f"{', '.join((*known_formats, *FORMAT_ALIASES))}.{suggest_near(str(name), known_formats)}"
        )
    return lowered_name
