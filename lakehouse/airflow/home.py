"""Airflow's home: its folder on disk, its keys, its users' passwords and the airflow.cfg made from our settings.

    <home>/airflow.cfg       Airflow's settings, rewritten at each start; holds the keys, so only its owner can read it
          /keys.json         created once: the keys that encrypt connections, and sign tokens and sessions
          /passwords.json    user to password, created once for each user, for Airflow's SimpleAuthManager
          /airflow.db        the database, unless another one is configured
          /applications/     a manifest for each application that was added
          /logs/             a log for each process, and the tasks'
          /supervisor.json, state.json    the supervisor's spec, and its state
          /address.json      the address where it answers; the port stays from start to start

Everything is private to its owner. `airflow` run by hand with AIRFLOW_HOME set to this folder has the same settings.
"""

from __future__ import annotations

import base64
import configparser
import io
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from lakehouse.airflow.private import write_private
from lakehouse.errors import AirflowError, reason_of_error
from lakehouse.settings import config
from lakehouse.setup import places

# A port that nothing listens on: no process of ours serves logs, and on the default port a stranger's might.
NO_PORT = "1"
TALKATIVE = (
    "airflow.dag_processing.manager", "airflow.models.dag", "airflow.serialization.definitions.dag", "http.access",
)  # fmt: skip


@dataclass(frozen=True)
class Home:
    """The folder, and the files in it."""

    folder: Path

    @property
    def applications(self) -> Path:
        return self.folder / "applications"

    @property
    def passwords(self) -> Path:
        return self.folder / "passwords.json"

    @property
    def database(self) -> Path:
        return self.folder / "airflow.db"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def make_folders(self) -> None:
        """Make the folders, private to their owner. Raises AirflowError if that fails."""
        try:
            for folder in (self.folder, self.applications, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise AirflowError(
                f"Airflow's home {self.folder} can't be made: {reason_of_error(error)}. Give it another folder: "
                "setting airflow.home."
            ) from None

    def load_keys(self) -> dict[str, str]:
        """Return the keys; generate them if there are none yet. Raises AirflowError for a file that has no keys."""
        keys_file = self.folder / "keys.json"
        if not keys_file.exists():
            fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
            new_keys = {"fernet": fernet, "jwt": secrets.token_urlsafe(64), "session": secrets.token_urlsafe(64)}
            write_private(keys_file, json.dumps(new_keys) + "\n")
        return _read_json_texts(keys_file, ("fernet", "jwt", "session"))

    def make_passwords(self, users: tuple[str, ...]) -> dict[str, str]:
        """Give a password to every user without one, and forget those of other users. Return them all."""
        known_passwords = _read_json_texts(self.passwords, ()) if self.passwords.exists() else {}
        wanted_passwords = {user: known_passwords.get(user) or secrets.token_urlsafe(15) for user in users}
        if wanted_passwords != known_passwords:
            write_private(self.passwords, json.dumps(wanted_passwords) + "\n")
        self.passwords.chmod(0o600)
        return wanted_passwords

    def password(self, user: str) -> str | None:
        """Return a user's password; None before Airflow was set up."""
        return _read_json_texts(self.passwords, ()).get(user) if self.passwords.exists() else None

    def write_settings(self, settings: config.Airflow, port: int) -> None:
        """Write airflow.cfg."""
        write_private(self.folder / "airflow.cfg", self.settings_text(settings, port))

    def has_settings(self, settings: config.Airflow, port: int) -> bool:
        """Say whether airflow.cfg has these settings."""
        settings_file = self.folder / "airflow.cfg"
        return settings_file.is_file() and settings_file.read_text() == self.settings_text(settings, port)

    def settings_text(self, settings: config.Airflow, port: int) -> str:
        """Return the text of airflow.cfg."""
        setting_values = _airflow_settings(self, settings, port) | {
            name: value.replace("\n", " ") for name, value in settings.options.items()
        }
        # Airflow reads a % as the start of a reference to another setting.
        config_parser = configparser.ConfigParser(interpolation=None)
        for name, value in setting_values.items():
            section, _, key = name.partition(".")
            if not config_parser.has_section(section):
                config_parser.add_section(section)
            config_parser.set(section, key, value.replace("%", "%%"))
        text_buffer = io.StringIO(
            "# Written by `lakehouse airflow up`, and written over at each start: docs/airflow.md.\n"
        )
        text_buffer.seek(0, io.SEEK_END)
        config_parser.write(text_buffer)
        return text_buffer.getvalue()


def _airflow_settings(home: Home, settings: config.Airflow, port: int) -> dict[str, str]:
    """Return Airflow's settings, "section.name" to value, overridden by airflow.options."""
    keys, url = home.load_keys(), airflow_url(settings.host, port)
    project = places.project_folder()
    return {
        "core.dags_folder": str(project / "dags"),
        "core.plugins_folder": str(project / "plugins"),
        "core.load_examples": "False",
        "core.executor": "LocalExecutor",
        "core.parallelism": str(settings.workers),
        # A run requested by hand starts at once. A DAG whose schedule should wait says so itself.
        "core.dags_are_paused_at_creation": "False",
        "core.fernet_key": keys["fernet"],
        "core.auth_manager": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
        "core.simple_auth_manager_users": ",".join(f"{user}:{role}" for user, role in settings.users.items()),
        "core.simple_auth_manager_passwords_file": str(home.passwords),
        "core.execution_api_server_url": f"{url}/execution/",
        "database.sql_alchemy_conn": _without_variables(settings.database)
        if settings.database
        else f"sqlite:///{home.database}",
        "api.host": settings.host,
        "api.port": str(port),
        "api.base_url": url,
        "api.workers": "1",
        "api.instance_name": "Lakehouse",
        "api.secret_key": keys["session"],
        "api_auth.jwt_secret": keys["jwt"],
        # The scheduler may be up, and start tasks, before the api-server answers, or while that is restarted.
        "workers.execution_api_retries": "12",
        "workers.execution_api_retry_wait_max": "10",
        "workers.execution_api_timeout": "30",
        "scheduler.enable_health_check": "False",  # another server, which would listen on every address
        # A new application is a new DAG of an unchanged file, so Airflow reads the files every few seconds.
        "dag_processor.parsing_processes": "1",
        "dag_processor.min_file_process_interval": "5",
        "dag_processor.refresh_interval": "5",
        "dag_processor.bundle_refresh_check_interval": "5",
        "logging.base_log_folder": str(home.logs),
        "logging.dag_processor_child_process_log_directory": str(home.logs / "dag_processor"),
        "logging.colored_console_log": "False",
        # No log lines for each read of a file, and for each request of a browser that refreshes itself.
        "logging.namespace_levels": " ".join(f"{name}=WARNING" for name in TALKATIVE),
        "logging.worker_log_server_port": NO_PORT,
        "logging.trigger_log_server_port": NO_PORT,
    }


def _without_variables(database: str) -> str:
    """Return a database's URL in which nothing looks like a variable to Airflow, which would substitute it."""
    return re.sub(r"(?<=://)[^@/]*@", lambda user_part: user_part[0].replace("$", "%24"), database)


def airflow_url(host: str, port: int) -> str:
    """Return the URL at which Airflow answers: on loopback if it listens on every address."""
    reachable_host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  nothing is bound here
    return f"http://[{reachable_host}]:{port}" if ":" in reachable_host else f"http://{reachable_host}:{port}"


def _read_json_texts(json_file: Path, expected_names: tuple[str, ...]) -> dict[str, str]:
    """Return a file's JSON object of texts. Messages show nothing of it: it has secrets."""
    try:
        json_object = json.loads(json_file.read_text())
    except (OSError, ValueError):
        json_object = None
    if not isinstance(json_object, dict) or not all(
        isinstance(json_object.get(name), str) for name in (*expected_names, *json_object)
    ):
        raise AirflowError(
            f"{json_file} is not what `lakehouse airflow up` wrote: expected a JSON object of texts"
            f"{' with ' + ', '.join(expected_names) if expected_names else ''}. Put a copy of it back; or remove it: "
            "a new one is made, and what was encrypted or signed with the old one can't be read."
        )
    return json_object
