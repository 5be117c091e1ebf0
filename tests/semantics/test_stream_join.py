"""Two streams joined within a time, record by record.

A record is written as side, time and name: "l10 A". A row that comes out: "A+b@12", "A+-@10".
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.operators.stream_join import Joinable, JoinSide, JoinWindow, StreamJoiner

BOTH = frozenset(JoinSide)
LEFT = frozenset({JoinSide.LEFT})


def came(within: JoinWindow, kept: frozenset[JoinSide], *records: str, key: str = "k") -> list[str]:
    """What comes out with each record, as one text. A name with ':' has a partition, one that is '-' a null value."""
    meeting: StreamJoiner[str] = StreamJoiner(within, kept)
    made = []
    for text in records:
        place, name = text.split()
        partition = 0
        if ":" in name:
            number, name = name.split(":")
            partition = int(number)
        side = JoinSide.LEFT if place[0] == "l" else JoinSide.RIGHT
        of = None if name.startswith("?") else key
        rows = meeting.apply(Joinable(side, of, name == "-", int(place[1:]), partition, name))
        made.append(" ".join(f"{row.left or '-'}+{row.right or '-'}@{row.time}" for row in rows))
    return made


@pytest.mark.parametrize(("time", "out"), [(7, ""), (8, "A+b@10"), (10, "A+b@10"), (15, "A+b@15"), (16, "")])
def test_both_ends_belong_to_the_window(time: int, out: str) -> None:
    """left at 10      8 |--10-----15|      right"""
    for records in (["l10 A", f"r{time} b"], [f"r{time} b", "l10 A"]):
        assert came(JoinWindow(2, 5, 100), frozenset(), *records)[1] == out


def test_partners_come_in_the_order_of_their_times() -> None:
    assert came(JoinWindow(5, 5, 0), frozenset(), "r6 b", "r5 a", "l7 A") == ["", "", "A+a@7 A+b@7"]


def test_without_a_grace_the_padded_row_comes_at_once_and_the_match_after_it() -> None:
    within = JoinWindow(5, 5, 100, eager=True)
    assert came(within, BOTH, "l1 A", "r3 b", "l4 C") == ["A+-@1", "A+b@3", "C+b@4"]


def test_with_a_grace_the_padded_row_comes_with_the_record_that_closes_the_window() -> None:
    """l1 waits until 1 + 5 + 2: at 8 it is open, at 9 it is not."""
    within = JoinWindow(5, 5, 2)
    assert came(within, LEFT, "l1 A", "l8 B", "l9 C") == ["", "", "A+-@1"]
    assert came(within, LEFT, "l1 A", "r8 b", "r9 c") == ["", "", "A+-@1"], "either stream closes it"
    assert came(within, LEFT, "l1 A", "r9 -") == ["", "A+-@1"], "a null value too"
    assert came(within, LEFT, "l1 A", "r9 ?") == ["", "A+-@1"], "and a null key"
    assert came(within, LEFT, "l1 A", "r6 b", "l99 C") == ["", "A+b@6", ""], "one that met is not padded"


def test_closed_windows_come_by_time_and_the_left_first() -> None:
    assert came(JoinWindow(1, 1, 0), BOTH, "r3 b", "l3 A", "l1 C", "r50 d")[3] == ""
    assert came(JoinWindow(0, 0, 5), BOTH, "r3 b", "l2 A", "l1 C", "r50 d")[3] == "C+-@1 A+-@2 -+b@3"


def test_each_side_waits_as_long_as_its_partners_may_be_late() -> None:
    """The left one waits for 2 + 5, the right one for 2 + 1."""
    assert came(JoinWindow(1, 5, 0), BOTH, "l2 A", "r2 x", "l3 B")[2] == "B+x@3"
    assert came(JoinWindow(1, 5, 0), BOTH, "r2 x", "l9 A") == ["", "-+x@2"]
    assert came(JoinWindow(1, 5, 0), BOTH, "l2 A", "r7 x") == ["", "A+x@7"]
    assert came(JoinWindow(1, 5, 0), BOTH, "l2 A", "r8 x") == ["", "A+-@2"]


def test_a_late_record_meets_what_is_open_and_is_met_by_none() -> None:
    within = JoinWindow(5, 5, 0)
    assert came(within, BOTH, "l10 A", "r5 b", "r6 c") == ["", "A+b@10", "A+c@10"]
    assert came(within, BOTH, "l20 A", "r10 b", "l10 C") == ["", "-+b@10", "C+-@10"], "closed when they came"


def test_null_values_and_keys() -> None:
    within = JoinWindow(5, 5, 100, eager=True)
    assert came(within, BOTH, "l1 -", "r1 b") == ["", "-+b@1"]
    assert came(within, BOTH, "l1 ?A", "r1 ?b") == ["?A+-@1", "-+?b@1"], "a null key meets nothing"
    assert came(within, LEFT, "r1 ?b") == [""]
    assert came(within, frozenset(), "l1 ?A") == [""]
    assert came(JoinWindow(5, 5, 100), LEFT, "l1 ?A") == ["?A+-@1"], "it waits for nobody"


def test_a_record_is_closed_by_its_own_partition() -> None:
    within = JoinWindow(5, 5, 0)
    assert came(within, LEFT, "l1 0:A", "l50 1:B", "r4 1:c", "r7 0:d") == ["", "", "A+c@4", ""]
    assert came(within, LEFT, "l1 0:A", "l50 1:B", "r7 0:d") == ["", "", "A+-@1"]


RECORDS = st.lists(
    st.tuples(st.sampled_from("lr"), st.integers(0, 30), st.sampled_from(["0", "1"]), st.sampled_from(["x", "x", "-"])),
    max_size=14,
)


@given(RECORDS, st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_every_record_comes_out_as_said(
    records: list[tuple[str, int, str, str]], before: int, after: int, grace: int
) -> None:
    """By a definition that looks at all pairs: what closes a record, whom it met before."""
    texts = [f"{s}{t} {p}:{n if n == '-' else f'{n}{number}'}" for number, (s, t, p, n) in enumerate(records)]
    actual = [row for out in came(JoinWindow(before, after, grace), BOTH, *texts) for row in out.split()]
    times: dict[str, int] = {}
    stands: list[dict[str, int]] = []  # the stream times with each record
    for _, time, partition, _ in records:
        times[partition] = max(time, times.get(partition, time))
        stands.append(dict(times))

    def closed(number: int, at: int) -> bool:
        side, time, partition, _ = records[number]
        return stands[at][partition] > time + (after if side == "l" else before) + grace

    pairs, met = [], set()
    meets = [number for number, record in enumerate(records) if record[3] != "-"]
    for later in meets:
        for earlier in meets:
            one, other = (earlier, later) if records[earlier][0] == "l" else (later, earlier)
            apart = records[other][1] - records[one][1]
            near = records[one][0] != records[other][0] and -before <= apart <= after
            if earlier < later and near and not closed(earlier, later):
                if closed(earlier, earlier):
                    continue
                pairs.append(f"x{one}+x{other}@{max(records[one][1], records[other][1])}")
                met |= {one, other}
    last = len(records) - 1
    alone = [n for n in meets if n not in met and closed(n, last)]
    padded = [f"x{n}+-@{records[n][1]}" if records[n][0] == "l" else f"-+x{n}@{records[n][1]}" for n in alone]
    assert sorted(actual) == sorted([*pairs, *padded])
