"""Access to the page: for Airflow's own users, by Airflow's own rules.

The page, and each of its files, is for everybody who may read assets, as tables are assets. The content of an
application's lake is for those who may read its DAGs.
"""

from pathlib import Path
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_asset, requires_access_dag
from fastapi import Depends, HTTPException, Request

from lakehouse.errors import NotFound
from lakehouse.lake import store
from lakehouse.page import applications
from lakehouse.page.applications import Application
from lakehouse.settings.config import load
from lakehouse_page import settings

SIGNED_IN = [Depends(requires_access_asset(method="GET"))]


def may_read(name: str, request: Request, user: BaseUser) -> bool:
    """Say whether a user may read an application's DAGs; the DAG that every application has decides for all."""
    try:
        requires_access_dag(method="GET", param_dag_id=f"{name}__catch_up")(request, user)
    except HTTPException:
        return False
    return True


def find_visible(app: str, request: Request, user: GetUserDep) -> Application:
    """Return the application of a path. Raises NotFound for users who may not see it, as if it did not exist."""
    if applications.NAME.fullmatch(app) is not None and not may_read(app, request, user):
        raise NotFound(f"there is no application {app!r} that you may see.")
    visible_application = applications.read_application(settings.applications_folder(), app)
    _reach_store(visible_application)
    return visible_application


def _reach_store(app: Application) -> None:
    """Set how the store of an application's lake is reached: by its settings, read each time since keys are renewed.

    Raises ConfigError if they are invalid.
    """
    if store.is_remote(app.lake):
        config = Path(app.config) if app.config is not None else None
        store.use_store(app.layout.root, load(config, start=Path(app.app).parent).lake.options)


VisibleApplication = Annotated[Application, Depends(find_visible)]
