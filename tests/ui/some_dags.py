"""Runs in Airflow's Python: the whole api-server in this process, for a user who may read only some DAGs.

Called as: some_dags.py OUT PATH... with the answers' status and text written to OUT, by path. The user is `reader`, who
may read the DAGs of the application `shop` and no others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class SomeDags(SimpleAuthManager):
    """Airflow's simple users; none of them may read a DAG other than shop's."""

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        return details is not None and str(details.id).startswith("shop__")


def main(out: str, *paths: str) -> None:
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    with TestClient(create_app(apps="core")) as client:
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="reader", role="viewer"))
        answers = {path: client.get(path, headers={"Authorization": f"Bearer {token}"}) for path in paths}
    result = {path: {"status": answer.status_code, "text": answer.text} for path, answer in answers.items()}
    Path(out).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
