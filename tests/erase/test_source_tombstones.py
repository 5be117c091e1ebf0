"""Tombstones in the topics that the lake reads: only keys of the person get one, by the bytes of their own records."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, NotFound, PlanError
from lakehouse.lake.erasure.erasure_log import Erasure
from lakehouse.lake.erasure.subject import ErasureSubject
from lakehouse.lake.record.fixed_records import FixedBytes
from lakehouse.run.erase import source_tombstones
from lakehouse.run.erase.erasure import plan_erasure
from lakehouse.run.repair.replay import replay
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.record import Record
from tests.spark.test_backfill import Bench, bench

__all__ = ["bench"]

CUSTOMERS = lh.stream("customers", key="id string", schema="name string")
APP = lh.app(CUSTOMERS.latest("known"))
GOOD = b'{"name": "Anna Berg"}'


def records_of(*pairs: tuple[bytes | None, bytes]) -> list[Record]:
    return [Record("customers", "c", 0, n, 1_000 * n, key, value, 1, 1_000 * n) for n, (key, value) in enumerate(pairs)]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """The keys of the records that were produced, without a broker."""
    keys: list[bytes | None] = []

    class KnownCluster:
        def __init__(self, *_: Any) -> None:
            pass

        def topics(self, names: list[str]) -> dict[str, Any]:
            return {name: SimpleNamespace(id="c") for name in names}

    def keep(_servers: str, _options: Any, _topic: str, records: Any) -> int:
        made = list(records)
        keys.extend(record.key for record in made)
        return len(made)

    monkeypatch.setattr(source_tombstones, "Cluster", KnownCluster)
    monkeypatch.setattr(source_tombstones, "produce", keep)
    return keys


@pytest.mark.rotated
def test_only_a_key_of_the_person_gets_a_tombstone(bench: Bench, written: list[bytes | None]) -> None:
    """A fix gave the person's key to a record of somebody else's, and to one without a key."""
    write_bronze(
        bench.lake, APP, records_of((b"anna", GOOD), (b"bo", b"not JSON"), (None, b"no JSON"), (b'"anna"', b"nor this"))
    )
    bench.catch_up(APP)
    fixes = [FixedBytes("c", 0, offset, b"anna", json.dumps({"name": "A"}).encode()) for offset in (1, 2)]
    replay(bench.lake, APP, CUSTOMERS.source, fixes)
    source_tombstones.write_tombstones(bench.lake, APP, ErasureSubject({"customers": "anna"}), "", {})
    assert written == [b'"anna"', b"anna"]
    nobodys = ErasureSubject({"customers": "dora"})
    with pytest.raises(NotFound, match="bronze has no record of stream 'customers' with this key"):
        source_tombstones.write_tombstones(bench.lake, APP, nobodys, "", {})
    assert source_tombstones.write_tombstones(bench.lake, APP, nobodys, "", {}, has_written_before=True) == {}
    hers = ErasureSubject({"customers": "anna"})
    plan = plan_erasure(bench.lake, APP, hers, source=True)
    assert (plan.sources, plan.stages[1:]) == (("customers",), plan_erasure(bench.lake, APP, hers).stages)


def test_tombstones_are_written_once_and_never_in_silence_not() -> None:
    hers = ErasureSubject({"customers": "anna"})
    begun = Erasure.begin(hers, "", "")
    for erasures in ([], [begun], [replace(begun, progress="purged")]):
        assert source_tombstones.needs_tombstones(erasures, hers)
    interrupted = replace(begun, progress="deleted")
    assert not source_tombstones.needs_tombstones([replace(interrupted, source=True)], hers)
    with pytest.raises(PlanError, match="was interrupted and began without it"):
        source_tombstones.needs_tombstones([interrupted], hers)
    with pytest.raises(ConfigError, match="found --source without a key"):
        source_tombstones.needs_tombstones([], ErasureSubject({}, ("customers.name=Anna",)))
