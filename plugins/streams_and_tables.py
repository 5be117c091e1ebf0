"""Airflow's plugin "Streams & Tables": the page about an application's lake, in the navigation and beside its runs.

Every process of Airflow loads this file, so nothing heavy is imported here: the page's server (`lakehouse_page`) is
imported only by the api-server, the only process that asks for `fastapi_apps`.
"""

import logging
from functools import cached_property
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

PREFIX = "/lakehouse"
NAME = "Streams & Tables"
HREF = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX + "/"

log = logging.getLogger(__name__)


class StreamsAndTables(AirflowPlugin):
    """The page, and where Airflow's own UI shows it: in a frame, signed in as the user who looks at it."""

    name = "streams_and_tables"
    external_views = [  # noqa: RUF012, Airflow's own attribute
        {"name": NAME, "href": HREF, "destination": "nav", "category": "browse", "url_route": "lakehouse"},
        {"name": NAME, "href": f"{HREF}?dag={{DAG_ID}}", "destination": "dag", "url_route": "lakehouse_dag"},
        {
            "name": NAME,
            "href": f"{HREF}?dag={{DAG_ID}}&run={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "lakehouse_dag_run",
        },
    ]

    @cached_property
    def fastapi_apps(self):
        """The page's server; none, and a line in the log, if the libraries that read a lake are missing."""
        try:
            from lakehouse_page.server import app
        except ImportError as error:
            log.error(
                "Streams & Tables can't be shown: found %s; expected the project and what "
                "infra/airflow/requirements.in lists. `lakehouse setup --airflow` makes one that has it; docs/page.md.",
                error,
            )
            return []
        return [{"app": app, "url_prefix": PREFIX, "name": NAME}]
