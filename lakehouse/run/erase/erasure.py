"""Erases the records of a person's key everywhere in a lake, step by step; after a kill, the same request goes on.

The places of the records are kept, then bronze, quarantines and interventions lose their rows. All tables that read
their topics are built beside the live ones, from what is left, and swapped in at one tick; what differs is published.
Then the files of all older versions go, and the values of rows in the tables' logs. A search through every byte of the
lake ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from lakehouse.errors import ConfigError, NotFound, PlanError, StorageError
from lakehouse.lake import reader, store
from lakehouse.lake.control import note
from lakehouse.lake.control.partial_progress import refuse_partial
from lakehouse.lake.control.writer_leases import erasure_lease, ingest_lease, table_lease
from lakehouse.lake.erasure import erasure_log
from lakehouse.lake.erasure.erasure_log import Erasure
from lakehouse.lake.erasure.scrubbed_log import scrub_log
from lakehouse.lake.erasure.subject import ErasureSubject, split_path, types_of_subject
from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import table_places
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import declaration_digest, declaration_of
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.run.deploy.deployment import Deployed
from lakehouse.run.erase.byte_search import Occurrence, ValuePattern
from lakehouse.run.erase.search import names_one_of, refuse_unsearchable, search_erased
from lakehouse.run.erase.source_tombstones import needs_tombstones
from lakehouse.run.repair.backfill import ShowProgress, build_tables, compare, refuse_restored
from lakehouse.run.repair.carry_out import carry_out
from lakehouse.run.repair.intervene import Why, bring_table
from lakehouse.run.repair.stages import Intervene, RemoveBuild, RepairPlan, RequireStopped, Stage, basis_of, tables_text
from lakehouse.run.repair.unfinished_erasure import refuse_during_erasure
from lakehouse.run.start.leases import repair_leases
from lakehouse.semantics.commit_number import EVER
from lakehouse.semantics.difference import Difference
from lakehouse.spark.bronze import erased, interventions
from lakehouse.spark.bronze.bronze import BronzeState
from lakehouse.spark.bronze.interventions import deciding_person
from lakehouse.spark.history import present_logic
from lakehouse.spark.history.erasable_records import check_subject, erasable_records
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.table import files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOTHING = "erase: bronze has no such record; there is nothing to erase."
VACUUM_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """The plan of an erasure. records: how many, by topic. tables: those that would be built again.

    reverted: those of them in which a revert is in effect: the rows that it took away come back. published: the topics
    that would get tombstones. streams: topics with records of streams, which stay as they are. sources: topics that the
    lake reads and that would get tombstones, too.
    """

    records: Mapping[str, int]
    tables: tuple[str, ...]
    reverted: tuple[str, ...]
    published: tuple[str, ...]
    streams: tuple[str, ...]
    stages: tuple[str, ...]
    sources: tuple[str, ...] = ()

    def with_sources(self, topics: Iterable[str]) -> Self:
        """Return it with tombstones in topics that the lake reads, before everything else."""
        sources = tuple(dict.fromkeys(topics))
        first_stage = (
            f"take in what {', '.join(sources)} has, write a tombstone there for each key, in each partition that has "
            "it, and take these in, too"
        )
        return replace(self, stages=(first_stage, *self.stages), sources=sources)


@dataclass(frozen=True, slots=True)
class Erased:
    """The outcome of an erasure.

    differing: how each table differs from before. occurrences: where values are still found.
    """

    erasure: Erasure
    differing: Mapping[str, Difference] = field(default_factory=dict)
    occurrences: tuple[Occurrence, ...] = ()


def plan_erasure(
    lake: OpenLake,
    app: App,
    subject: ErasureSubject,
    values: Iterable[str] = (),
    reason: str = "",
    *,
    source: bool = False,
) -> ErasurePlan:
    """Say what an erasure would do, or what is left of one that was interrupted; nothing is changed.

    Raises PlanError, ConfigError, NotFound without a record, StorageError while another erasure is not finished.
    """
    check_subject(app, subject)
    _refuse_request(app, subject, tuple(values), reason)
    erasures = erasure_log.read_erasures(lake.layout)
    writes_to_sources = source and needs_tombstones(erasures, subject)
    erasure = erasure_log.find_erasure(erasures, subject)
    if erasure is not None and erasure.is_between_steps:
        return _plan_rest(lake, app, erasure)
    plan = _plan_records(lake, app, erasable_records(lake, app, subject))
    return plan.with_sources(app.source(stream).topic for stream in subject.keys) if writes_to_sources else plan


def _plan_rest(lake: OpenLake, app: App, erasure: Erasure) -> ErasurePlan:
    """Return the plan of what an interrupted erasure has not done yet. Raises PlanError."""
    tables = (
        tuple(table for table in app.tables if table.name in erasure.tables)
        if erasure.has_reached("swapped")
        else touched_tables(lake, app, erasure.records)
    )
    return _plan_of(app, erasure.records, tables, (), erasure.progress)


def _plan_records(lake: OpenLake, app: App, rows: DataFrame) -> ErasurePlan:
    """Return the plan to erase rows of bronze. Raises PlanError, NotFound without a row."""
    counts = {row["topic"]: row["count"] for row in rows.groupBy("topic").count().orderBy("topic").collect()}
    if not counts:
        raise NotFound(NOTHING)
    tables = touched_tables(lake, app, counts)
    refuse_during_erasure(lake.layout, [table.name for table in tables])
    reverted = tuple(table.name for table in tables if _has_revert(lake, table.name))
    return _plan_of(app, counts, tables, reverted)


def _has_revert(lake: OpenLake, name: str) -> bool:
    decisions = interventions_in_effect(interventions.read_interventions(lake, name), EVER)
    return any(decision.kind == "revert" for decision in decisions)


def _plan_of(
    app: App,
    counts: Mapping[str, int],
    tables: Sequence[Table],
    reverted: tuple[str, ...],
    progress: erasure_log.Progress = "begun",
) -> ErasurePlan:
    names = tuple(table.name for table in tables)
    published = tuple(sink.topic for sink in app.sinks if sink.source in tables)
    streams = tuple(
        sink.topic for sink in app.sinks if isinstance(sink.source, Stream) and set(sink.source.topics) & counts.keys()
    )
    record_text = ", ".join(f"{count:,} of topic {topic}" for topic, count in counts.items())
    topics_text = ", ".join(published)
    steps: list[tuple[erasure_log.Progress, str]] = [
        ("chosen", f"keep the places of the records ({record_text}), with a salted hash of their bytes")
    ]
    if published:
        steps.append(("deleted", f"publish what is not published yet to {topics_text}"))
    steps.append(("deleted", "delete them from bronze, from the quarantines, and from what interventions keep"))
    if names:
        again = f"; what was taken away from {tables_text(reverted)} by a revert comes back" if reverted else ""
        built = f"build {tables_text(names)} beside, from what is left, and swap all in at one tick{again}"
        steps.append(("swapped", built))
    if published:
        steps.append(("published", f"publish what differs to {topics_text}"))
    old_files = (
        "remove the files of all older versions of these tables, their anchors, what is staged beside, and the values "
        "of rows in their logs"
    )
    steps.append(("purged", old_files))
    reached = erasure_log.STEPS.index(progress)
    left = [text for step, text in steps if erasure_log.STEPS.index(step) > reached]
    stages = (*left, "search every file of the lake for the key")
    return ErasurePlan(dict(counts), names, reverted, published, streams, stages)


def touched_tables(lake: OpenLake, app: App, topics: Iterable[str]) -> tuple[Table, ...]:
    """Return the tables that read one of these topics, directly or not, each after those that it reads.

    Raises PlanError if the lake has a table that the application does not declare, or not so, or one that was restored.
    """
    read_topics = set(topics)
    _refuse_other_tables(lake.layout, app)
    _refuse_other_topics(lake.layout, app)
    tables = tuple(
        table for table in app.tables if read_topics & set(table.stream.topics) and lake.open(table).table_exists()
    )
    for table in tables:
        open_table = lake.open(table)
        refuse_restored(open_table)
        if present_logic.declaration_change(open_table).kind != "same":
            raise PlanError(
                f"table {table.name!r} is declared otherwise than it was built; expected the same. Deploy the change "
                "first: `lakehouse deploy plan`."
            )
    return tables


def _refuse_other_topics(layout: Layout, app: App) -> None:
    """Raise PlanError if the lake publishes a topic that the application does not declare: it would keep the rows."""
    declared_topics = {sink.topic for sink in app.sinks}
    noted_topics = [name.removesuffix(".json") for name in store.file_names(layout.published_notes)]
    if unknown_topics := sorted(set(noted_topics) - declared_topics):
        raise PlanError(
            f"erase: the lake publishes {', '.join(unknown_topics)}, which the application does not declare; expected "
            "an application with all tables and topics of the lake: its topics get tombstones. Add the declaration; if "
            f"nobody publishes a topic any more, remove its note, such as {layout.published(unknown_topics[0])}."
        )


def _refuse_other_tables(layout: Layout, app: App) -> None:
    declared_names = {table.name for table in app.tables}
    if unknown_names := sorted(set(reader.table_names(layout, "silver")) - declared_names):
        raise PlanError(
            f"erase: the lake has {tables_text(unknown_names)}, which the application does not declare; expected an "
            "application with all tables of the lake, since each of them may hold the records. Add the declaration, "
            "or remove a table that nobody needs: its folders below silver/, state/, late/ and anchors/."
        )


def _refuse_request(app: App, subject: ErasureSubject, values: Sequence[str], reason: str) -> None:
    """Raise ConfigError for texts that can't be searched for, and for a reason that would keep one of them."""
    types = types_of_subject(app, subject)
    refuse_unsearchable(subject, types, values)
    texts = {*subject.searched_texts(types), *values}
    ValuePattern(texts, ())
    if names_one_of(texts, reason):
        raise ConfigError("erase: the reason names what is erased; expected one that can stay, such as a ticket.")


def refuse_reverted(table_names: Sequence[str]) -> None:
    """Raise PlanError if an erasure would build tables in which a revert is in effect."""
    if table_names:
        raise PlanError(
            f"erase: {tables_text(table_names)}: an erasure builds each of them from all records, so what a revert "
            "took away comes back. Expected --rebuild-reverted, if that may be; or fix or erase the records that the "
            "revert was about first. `lakehouse look interventions` lists the reverts."
        )


class Eraser:
    """Carries an erasure out. publish: publishes the changes of the tables; called if one of them has a topic."""

    def __init__(self, lake: OpenLake, app: App, why: Why, publish: Callable[[], None], listen: ShowProgress) -> None:
        self._lake, self._app, self._publish, self._listen = lake, app, publish, listen
        self._layout: Layout = lake.layout
        self._differing: Mapping[str, Difference] = {}
        self._why = why

    def erase(
        self, subject: ErasureSubject, values: Iterable[str], *, source: bool = False, rebuild_reverted: bool = False
    ) -> Erased:
        """Erase a subject's records, or go on with an erasure of it that was interrupted. See `plan_erasure`.

        Records that were erased before, and did not come again, are only searched for again.

        values: what the search at the end looks for, beside the keys. source: whether topics that
        the lake reads have got tombstones, as the note is to say. rebuild_reverted: also build tables in which a
        revert is in effect; else PlanError is raised for them. Raises also LeaseHeld while a job runs, StorageError if
        a killed ingest left a tick half written.
        """
        check_subject(self._app, subject)
        values = tuple(values)
        _refuse_request(self._app, subject, values, self._why.reason)  # now, and not after all is done
        with erasure_lease(self._layout):
            return self._erase_alone(subject, values, source=source, rebuild_reverted=rebuild_reverted)

    def _erase_alone(
        self, subject: ErasureSubject, values: Sequence[str], *, source: bool, rebuild_reverted: bool
    ) -> Erased:
        why = self._why
        erasure = erasure_log.find_erasure(erasure_log.read_erasures(self._layout), subject)
        # One that has been purged is searched again, unless such records have come since.
        if erasure is None or (
            erasure.has_reached("purged") and not erasable_records(self._lake, self._app, subject).isEmpty()
        ):
            types = types_of_subject(self._app, subject)
            erasure = Erasure.begin(subject, why.reason, deciding_person(why.by), types)
        if source and not erasure.has_reached("chosen"):
            erasure = replace(erasure, source=True)
        erasure = erasure.with_values(values)
        steps: list[tuple[erasure_log.Progress, Callable[[Erasure], Erasure]]] = [
            ("chosen", lambda current: self._choose_records(current, subject, rebuild_reverted=rebuild_reverted)),
            ("deleted", self._delete_rows),
            ("swapped", self._swap_tables),
            ("published", self._publish_differences),
            ("purged", self._purge_old_files),
        ]
        for progress, step in steps:
            if not erasure.has_reached(progress):
                with phase("erasing", f"erasing: {progress}"):
                    erasure = replace(step(erasure), progress=progress)
                erasure_log.write_erasure(self._layout, erasure)
        erasure, result = search_erased(self._layout, erasure, subject, values)
        return Erased(erasure, self._differing, result.occurrences)

    def _choose_records(self, erasure: Erasure, subject: ErasureSubject, *, rebuild_reverted: bool) -> Erasure:
        """Keep the places of the records. Before its note is written, an erasure has changed nothing."""
        interventions.check_complete(self._lake, BronzeState(tick=self._lake.progress(self._lake.bronze).tick))
        rows = erasable_records(self._lake, self._app, subject).persist()
        try:
            plan = _plan_records(self._lake, self._app, rows)
            if not rebuild_reverted:
                refuse_reverted(plan.reverted)
            refuse_partial(self._layout, "erase")
            erasure_log.write_erasure(self._layout, erasure)
            erased.keep_places(self._lake.own_session(), erasure.id, rows, erasure.salt)
        finally:
            rows.unpersist()
        columns = {name for key in subject.keys for name in self._key_names(key)}
        columns |= {split_path(self._app, path)[1].rpartition(".")[2] for path in subject.named_by}
        return replace(
            erasure,
            records=plan.records,
            tables=plan.tables,
            columns=tuple(sorted(columns)),
            stages=plan.stages,
        )

    def _key_names(self, stream_name: str) -> Iterator[str]:
        for column in self._app.source(stream_name).key:
            yield column.name
            yield column.in_topic.name

    def _delete_rows(self, erasure: Erasure) -> Erasure:
        """Delete the rows of the records from everything that holds their bytes and is not built again.

        What the tables have changed until then is published before: without the records nobody could derive it.
        """
        lake = self._lake.own_session()
        self._publish_differences(erasure)
        with self._all_stopped(erasure):
            self._require_published(erasure)
            for path in self._record_paths(erasure):
                erased.delete_records(lake, erasure.id, path)
        return erasure

    def _require_published(self, erasure: Erasure) -> None:
        """Raise StorageError if a topic lacks changes of a table that the table has committed."""
        for sink in self._app.sinks:
            note_of_topic = note.read(self._layout.published(sink.topic))
            if note_of_topic is None or not isinstance(sink.source, Table) or sink.source.name not in erasure.tables:
                continue
            table_tick = self._lake.progress(self._lake.open(sink.source).visible).tick
            if note_of_topic["tick"] < table_tick:
                raise StorageError(
                    f"erase: table {sink.source.name!r} is at tick {table_tick}, and topic {sink.topic!r} at tick "
                    f"{note_of_topic['tick']}: a run committed meanwhile, and was ended before it published. Give the "
                    "command again."
                )

    def _record_paths(self, erasure: Erasure) -> list[str]:
        """Return the paths of the tables that have rows of bronze, or their places."""
        layout = self._layout
        paths = [layout.records, layout.intervention_records]
        paths += [layout.own_records(topic) for topic in erasure.records]
        paths += [layout.quarantine(name) for name in reader.table_names(layout, "quarantine")]
        paths += [layout.late(name) for name in reader.table_names(layout, "late")]
        return [path for path in paths if self._lake.exists(path)]

    def _swap_tables(self, erasure: Erasure) -> Erasure:
        """Build the tables again and swap them in at one tick, or finish the swap that was decided on before a kill."""
        beside = f"erase-{erasure.id}"
        decided_ticks = [
            decision.at
            for name in erasure.tables
            for decision in interventions.read_interventions(self._lake, name)
            if decision.details.get("beside") == beside
        ]
        if decided_ticks:
            for table in self._erased_tables(erasure):
                bring_table(self._lake.open(table), self._app, decided_ticks[0])
            folders.remove_folder(self._lake.spark, replace(self._layout, beside=beside).tables)
            return replace(erasure, tick=decided_ticks[0])
        # The application may be another one than before a kill, also before the swap is done.
        tables = touched_tables(self._lake, self._app, erasure.records)
        if not tables:
            return replace(erasure, tables=())
        names = tuple(table.name for table in tables)
        erasure = replace(erasure, tables=names)
        erasure_log.write_erasure(self._layout, erasure)
        beside_lake = self._lake.with_layout(replace(self._layout, beside=beside, members=frozenset(names)))
        basis = basis_of(tables, interventions.last_intervention_tick(self._lake))
        with repair_leases(self._layout, names):
            build_tables(beside_lake, tables, listen=self._listen)
            differing = {table.name: compare(self._lake.open(table), beside_lake.open(table)) for table in tables}
        stages: tuple[Stage, ...] = (
            *map(RequireStopped, names),
            Intervene(
                "swap",
                names,
                {"beside": beside, "members": {table.name: declaration_digest(table) for table in tables},
                 "erasure": erasure.id},
                {table.name: {"declaration": declaration_of(table), "changed": False} for table in tables},
            ),
            RemoveBuild(names, beside),
        )  # fmt: skip
        outcome = carry_out(self._lake, self._app, RepairPlan(stages, Deployed(differing, None), basis), self._why)
        self._differing = differing
        return replace(erasure, tick=outcome.tick)

    def _erased_tables(self, erasure: Erasure) -> tuple[Table, ...]:
        """Return the tables of an erasure. Raises PlanError if the application lacks one."""
        if missing_names := sorted(set(erasure.tables) - {table.name for table in self._app.tables}):
            raise PlanError(
                f"erase: the application does not declare {tables_text(missing_names)}, from which this erasure takes "
                "records; expected the application with which it began."
            )
        return tuple(table for table in self._app.tables if table.name in erasure.tables)

    def _publish_differences(self, erasure: Erasure) -> Erasure:
        if any(sink.source in self._erased_tables(erasure) for sink in self._app.sinks):
            self._publish()
        return erasure

    def _purge_old_files(self, erasure: Erasure) -> Erasure:
        """Remove everything from before: files of older versions, anchors, builds, and values in the tables' logs."""
        spark = self._lake.own_session().spark
        with self._all_stopped(erasure):
            folders.remove_folder(spark, f"{self._layout.root}/beside")
            for name in erasure.tables:
                folders.remove_folder(spark, self._layout.anchors(name))
            keyed_paths = [
                place.path for table in self._erased_tables(erasure) for place in table_places(self._layout, table)
            ]
            paths = [*self._record_paths(erasure), *keyed_paths]
            spark.conf.set(VACUUM_CHECK, "false")
            try:
                for path in dict.fromkeys(path for path in paths if self._lake.exists(path)):
                    files.vacuum_files(spark, path, 0)
                    scrub_log(path)
            finally:
                spark.conf.unset(VACUUM_CHECK)
        return erasure

    @contextmanager
    def _all_stopped(self, erasure: Erasure) -> Iterator[None]:
        """Hold the leases of bronze and of all tables: nobody writes meanwhile. Raises LeaseHeld."""
        with ExitStack() as leases:
            leases.enter_context(repair_leases(self._layout, erasure.tables))
            leases.enter_context(ingest_lease(self._layout))
            for name in sorted(erasure.tables):
                leases.enter_context(table_lease(self._layout, name))
            yield
