"""Declarations of windows: sizes as text, and the default grace (rule 16)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakehouse.duration import duration_ms
from lakehouse.errors import PlanError
from lakehouse.plan.expression.expression import Json
from lakehouse.semantics.time.window import Hopping, Session, Sliding, Window, default_grace

WINDOWS_MAX = 100_000  # room for a day of windows, one a second


@dataclass(frozen=True, slots=True)
class DeclaredWindow:
    """A window as declared. The default grace is 24 hours less the size, and 0 for final results."""

    window: Window
    has_grace: bool

    def resolve_window(self, *, final: bool) -> Window:
        """Return the window with its grace."""
        return replace(self.window, grace=0) if final and not self.has_grace else self.window


def tumbling(size: str, *, grace: str | None = None) -> DeclaredWindow:
    """Windows of `size`, side by side: [0, size), [size, 2 size), aligned to the epoch. tumbling("1 hour")."""
    size_ms = duration_ms(size, "tumbling: size", least=1)
    return DeclaredWindow(Hopping(size_ms, size_ms, _grace_ms(grace, size_ms)), grace is not None)


def hopping(size: str, advance: str, *, grace: str | None = None) -> DeclaredWindow:
    """Windows of `size` that begin every `advance`: a record counts in several. hopping("1 hour", "10 minutes")."""
    size_ms, advance_ms = duration_ms(size, "hopping: size", least=1), duration_ms(advance, "hopping: advance", least=1)
    if advance_ms > size_ms:
        raise PlanError(
            f"hopping({size!r}, {advance!r}): windows further apart than they are long would lose records between "
            "them. Expected an advance no longer than the size."
        )
    if (window_count := -(-size_ms // advance_ms)) > WINDOWS_MAX:
        raise PlanError(
            f"hopping({size!r}, {advance!r}): a record would count in {window_count:,} windows, a row each; expected "
            f"at most {WINDOWS_MAX:,}. Choose a longer advance, or lh.sliding."
        )
    return DeclaredWindow(Hopping(size_ms, advance_ms, _grace_ms(grace, size_ms)), grace is not None)


def sliding(difference: str, *, grace: str | None = None) -> DeclaredWindow:
    """Windows of records that are at most `difference` apart; both ends belong to them."""
    difference_ms = duration_ms(difference, "sliding: difference", least=1)
    return DeclaredWindow(Sliding(difference_ms, _grace_ms(grace, difference_ms)), grace is not None)


def session(gap: str, *, grace: str | None = None) -> DeclaredWindow:
    """Windows of records with pauses of at most `gap` between them: session("30 minutes")."""
    gap_ms = duration_ms(gap, "session: gap", least=0)
    return DeclaredWindow(Session(gap_ms, _grace_ms(grace, gap_ms)), grace is not None)


def _grace_ms(grace_text: str | None, size_ms: int) -> int:
    return default_grace(size_ms) if grace_text is None else duration_ms(grace_text, "grace")


def window_fingerprint(window: Window | None) -> Json | None:
    """Return a window's part of a fingerprint; None for no window."""
    match window:
        case None:
            return None
        case Hopping():
            return {"kind": "hopping", "size": window.size, "advance": window.advance, "grace": window.grace}
        case Session():
            return {"kind": "session", "gap": window.gap, "grace": window.grace}
    return {"kind": "sliding", "difference": window.difference, "grace": window.grace}
