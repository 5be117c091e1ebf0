"""The cheap checks before a run, in the order of their cost: each fails before a broker or Spark starts."""

from __future__ import annotations

from lakehouse.formats.values.json_validation import check_can_validate
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.older_bronze import refuse_older_bronze
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.plan.names.record_format import parse_format
from lakehouse.run.start import declared_changes, folders, leases
from lakehouse.settings.config import Settings


@phase("checking the application and the lake")
def check_before_run(settings: Settings, app: App, parts: tuple[str, ...] | None) -> None:
    """Raise the error that would end a run. parts: None for all.

    PlanError, ConfigError for its folders, LeaseHeld, StorageError for a bronze that is older than its tables.
    """
    if any(parse_format(name).traits.validates for s in app.sources for name in (s.key_format, s.value_format)):
        check_can_validate()
    declared_changes.check_declarations(settings, app, parts)
    folders.make_writable(settings)
    leases.check_leases(settings, app, parts)
    refuse_older_bronze(Layout(settings.lake.path))
