"""The number of a commit: epoch * 2**40 + tick, never reused and never smaller than an older writer's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.commit_number import EPOCH_MAX, NO_TICK, TICK_MAX, Progress, progress_of_version

PROGRESS = st.builds(Progress, st.integers(0, EPOCH_MAX), st.integers(NO_TICK, TICK_MAX))


@given(PROGRESS)
def test_a_version_carries_its_progress(made: Progress) -> None:
    assert progress_of_version(made.version) == made
    assert 0 <= made.version < 2**63  # a BIGINT


@given(PROGRESS, PROGRESS)
def test_versions_compare_as_epoch_then_tick(a: Progress, b: Progress) -> None:
    assert (a.version < b.version) == (a < b)


def test_the_first_tick_of_an_epoch_is_past_every_tick_of_the_epoch_before() -> None:
    assert Progress(1, NO_TICK).version == Progress(0, TICK_MAX).version + 1


@pytest.mark.parametrize(
    "made", [Progress(-1, 0), Progress(0, -1), Progress(EPOCH_MAX + 1, 0), Progress(0, TICK_MAX + 1)]
)
def test_what_does_not_fit_is_refused(made: Progress) -> None:
    with pytest.raises(ValueError, match="expected 0 to"):
        _ = made.version
