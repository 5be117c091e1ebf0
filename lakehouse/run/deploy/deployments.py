"""Deployments of changed applications; part of `lakehouse.run.lake.Lake`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.errors import NotFound
from lakehouse.lake.layout import NEXT
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.run.repair.repairs import Repairs

if TYPE_CHECKING:
    from lakehouse.run.deploy.declared import TableEffect
    from lakehouse.run.deploy.deployment import Deployed
    from lakehouse.run.repair.backfill import ShowProgress
    from lakehouse.run.repair.stages import RepairPlan
    from lakehouse.semantics.difference import Difference


class Deployments(Repairs):
    """Deployments: the tables that a change of logic touches, built beside the live ones and swapped in at one tick."""

    def deployment_effects(self, app: App) -> list[TableEffect]:
        """Return what a deployment of an application would do with each table; without Spark."""
        from lakehouse.run.deploy.declared import table_effects

        return table_effects(self._layout, app)

    @phase("staging the deployment")
    def plan_deployment(
        self, app: App, name: str = NEXT, *, back: bool = False, examples: int = 0, listen: ShowProgress | None = None
    ) -> RepairPlan[Deployed]:
        """Build all tables that an application's new logic touches beside the live ones; return how they differ.

        The live job goes on. `carry_out` swaps them in. name: of the deployment, of which there may be several. back:
        the application is the one from before the last deployment. examples: how many of the differing rows of each
        table to return. Call it again to take in the records that came meanwhile. Raises PlanError for declarations
        that the tables can't take, NotFound without a lake, LeaseHeld while one of the tables is repaired.
        """
        self._check_bronze(app)
        from lakehouse.run.deploy import declared, deployment
        from lakehouse.run.repair.backfill import ignore_progress

        declared.refuse_unfinished_swaps(self._layout, app)
        if back:
            deployment.check_way_back(self._lake, app)
        return deployment.plan_deployment(self._lake, app, name, examples=examples, listen=listen or ignore_progress)

    @phase("deployment")
    def deploy(
        self,
        app: App,
        name: str = NEXT,
        *,
        back: bool = False,
        expected_digest: str | None = None,
        reason: str = "",
        by: str | None = None,
        examples: int = 0,
        listen: ShowProgress | None = None,
    ) -> Deployed:
        """Swap in all tables that an application's new logic touches, at one tick; what is not built yet is built.

        A swap that was decided on before a kill is finished first. expected_digest: of the declarations that were
        approved, see `declarations_digest`; raises PlanError for others. See `plan_deployment`; also raises LeaseHeld
        while a job keeps one of the tables: it has the old logic.
        """
        self._check_bronze(app)
        from lakehouse.run.deploy import declared, deployment
        from lakehouse.run.repair.backfill import ignore_progress
        from lakehouse.run.repair.carry_out import carry_out
        from lakehouse.run.repair.intervene import Why

        if expected_digest is not None:
            declared.refuse_other_declarations(app, expected_digest)
        declared.refuse_unfinished_swaps(self._layout, app)
        finished_tick = deployment.finish_decided_swaps(self._lake, app)
        if back and finished_tick is None:
            deployment.check_way_back(self._lake, app)
        plan = deployment.plan_deployment(
            self._lake, app, name, promotes=True, examples=examples, listen=listen or ignore_progress
        )
        if finished_tick is not None and not plan.stages:
            deployment.discard_deployment(self._lake, app, name)
            return deployment.Deployed({}, finished_tick, before=finished_tick - 1)
        return carry_out(self._lake, app, plan, Why(reason, by))

    @phase("comparing the deployment")
    def compare_deployment(self, app: App, name: str = NEXT, *, examples: int = 10) -> dict[str, Difference]:
        """Compare what `plan_deployment` built last with the live tables, by table; nothing is built.

        Raises NotFound if nothing is built for these declarations.
        """
        self._check_bronze(app)
        from lakehouse.run.deploy import deployment

        return deployment.compare_deployment(self._lake, app, name, examples)

    def discard_deployment(self, app: App, name: str = NEXT) -> bool:
        """Remove what a deployment built beside the live tables; return whether there was something.

        Raises LeaseHeld while one of the application's tables is repaired, or a deployment of it is built.
        """
        from lakehouse.lake import store
        from lakehouse.run.deploy import deployment

        if not store.file_exists(f"{self._layout.root}/beside/{deployment.set_name(name)}"):
            return False
        return deployment.discard_deployment(self._lake, app, name)

    def _check_bronze(self, app: App) -> None:
        """Raise NotFound without a lake, PlanError if a topic's records lie elsewhere in it than declared."""
        from lakehouse.lake.store import is_table

        if not is_table(self._layout.records):
            raise NotFound(f"{self._layout.root}: found no lake; expected one that an application has run in.")
        self._refuse_misplaced(app)
