"""The image's Dockerfile and what stands beside it: only what exists, and what the code reads. No Docker is needed.

Its steps, its entrypoint and its manifest are run by tests/cluster/test_kubernetes.py.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import socket
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.cli.main import main
from lakehouse.registry.server import API_PATH
from lakehouse.run.watch.metrics import serve_metrics
from lakehouse.settings.config import load
from lakehouse.setup.places import airflow_environment
from tests.setup.elsewhere import LOCK, PROJECT, needs, plain

CONTAINER = PROJECT / "infra" / "container"
COMPOSE = CONTAINER / "compose"
SCRIPTS = ("build-layers.sh", "entrypoint.sh", "healthcheck.sh", "airflow.sh")
DOCKERFILES = ("Dockerfile", "Dockerfile.airflow")
# Names of variables in which a secret would be baked into the image.
SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|OPTIONS", re.IGNORECASE)


def instructions(name: str = "Dockerfile") -> list[tuple[str, str]]:
    """Return a Dockerfile's instructions: their name, and the rest of the line."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", (CONTAINER / name).read_text(), flags=re.MULTILINE))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def context() -> list[str]:
    """Return the names of the files that `make image-context` puts into build/image."""
    recipe = re.search(r"^image-context:.*\n((?:\t.*\n)+)", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    copied = re.findall(r"(infra/container/\S+|build/wheel/\S+)(?= .*build/image$)", recipe[1], re.MULTILINE)
    assert all((PROJECT / file).is_file() for file in copied if file.startswith("infra/"))
    written = re.findall(r"> build/image/(\S+)", recipe[1])
    return [Path(file).name.replace("*.whl", "lakehouse-0.2.0-py3-none-any.whl") for file in copied] + written


def test_the_dockerfile_copies_what_its_context_has() -> None:
    files = context()
    copied = [
        name
        for dockerfile in DOCKERFILES
        for kind, rest in instructions(dockerfile)
        if kind == "COPY"
        for name in rest.split()[:-1]
    ]
    assert copied
    assert not [name for name in copied if not fnmatch.filter(files, name)]
    assert sorted(files) == sorted([*DOCKERFILES, *(file for name in copied for file in fnmatch.filter(files, name))])


def test_each_step_is_one_of_the_script() -> None:
    steps = [rest for kind, rest in instructions() if kind == "RUN"]
    known = re.findall(r"^(\w+)\)$", (CONTAINER / "build-layers.sh").read_text(), re.MULTILINE)
    assert steps == [f"./build-layers.sh {step}" for step in known]
    refused = subprocess.run([CONTAINER / "build-layers.sh", "all"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "error: found step 'all'; expected system, packages, wheel or jars\n"


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_can_be_read_and_run(script: str) -> None:
    assert (CONTAINER / script).stat().st_mode & 0o111
    subprocess.run(["bash", "-n", CONTAINER / script], check=True)


def test_the_image_has_no_secret_and_no_root() -> None:
    """Every variable of lakehouse's is one that the code reads."""
    set_lines = [rest for kind, rest in instructions() if kind in ("ENV", "ARG")]
    variables = [name for rest in set_lines for name in re.findall(r"(\w+)=", rest)]
    assert "LAKEHOUSE_JARS" in variables
    assert not [name for name in variables if SECRET.search(name)]
    code = "\n".join(path.read_text() for path in (PROJECT / "lakehouse").rglob("*.py"))
    assert not [name for name in variables if name.startswith("LAKEHOUSE_") and f'environ.get("{name}")' not in code]
    [user] = [rest for kind, rest in instructions() if kind == "USER"]
    assert int(user) > 0
    assert f"--uid {user} " in (CONTAINER / "build-layers.sh").read_text()
    [base] = [rest for kind, rest in instructions() if kind == "FROM"]
    assert "/" not in base, "a public image, of no registry of our own"


def test_the_image_gets_the_packages_that_lakehouse_needs_each_by_its_hash() -> None:
    lock = subprocess.run(
        [sys.executable, CONTAINER / "runtime_lock.py"], capture_output=True, text=True, check=True
    ).stdout
    entries = re.findall(r"^([\w.-]+)==\S+ \\\n((?:[ ].*\n)+)", lock, re.MULTILINE)
    needed = needs(distribution("lakehouse"))
    needs(distribution("lakehouse"), needed, extra="protobuf")
    needs(distribution("confluent-kafka"), needed, extra="schemaregistry")
    assert {plain(name) for name, _ in entries} == {*needed, "jsonschema-rs"}  # the extra registry's own
    assert all("--hash=sha256:" in text for _, text in entries)
    assert not set(lock.splitlines()) - set(LOCK.read_text().splitlines())


def test_the_settings_of_the_pod_are_settings() -> None:
    """Also the variables that its manifest and docs/kubernetes.md set."""
    manifest = (CONTAINER / "kubernetes.yaml").read_text()
    page = (PROJECT / "docs" / "kubernetes.md").read_text()
    secrets = dict(re.findall(r"^ {4}(LAKEHOUSE_\w+)=(\{.*\})$", page, re.MULTILINE))
    assert secrets
    assert all(isinstance(json.loads(value), dict) for value in secrets.values())
    variables = re.findall(r"name: (LAKEHOUSE_\w+)", manifest)
    assert variables == ["LAKEHOUSE_SPARK_DRIVER_HOST"]
    settings = load(CONTAINER / "lakehouse.toml", environ={**secrets, variables[0]: "192.0.2.7"})
    assert settings.spark.driver_host == "192.0.2.7"
    pod = settings.spark.options["spark.kubernetes.driver.pod.name"]
    [stateful_set] = re.findall(r"kind: StatefulSet\nmetadata:\n  name: (\S+)", manifest)
    assert pod == f"{stateful_set}-0"
    assert f"image: {settings.spark.options['spark.kubernetes.container.image']}\n" in manifest


def test_the_container_is_healthy_while_its_run_answers(tmp_path: Path) -> None:
    def check(port: int | None) -> int:
        proxy = "http://127.0.0.1:1"  # nobody answers there
        environ = {"PATH": os.environ["PATH"], "http_proxy": proxy, "HTTP_PROXY": proxy}
        environ |= {} if port is None else {"LAKEHOUSE_METRICS_PORT": str(port)}
        return subprocess.run([CONTAINER / "healthcheck.sh"], env=environ, capture_output=True, check=False).returncode

    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    assert check(None) == 0
    visits = lh.app(lh.stream("clicks", key="user string", schema="place string").latest("visits"))
    assert check(free) != 0
    with serve_metrics(load(environ={"LAKEHOUSE_LAKE_PATH": str(tmp_path)}, start=tmp_path), visits, free):
        assert check(free) == 0


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """compose.yaml, as Airflow's environment reads YAML: this one has nothing that does."""
    code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"
    python = airflow_environment() / "bin" / "python"
    parsed = subprocess.run([python, "-c", code], input=(COMPOSE / "compose.yaml").read_bytes(), capture_output=True)
    content: dict[str, Any] = json.loads(parsed.stdout)
    return content


def mounts(compose: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return by service the place of each mount, and what is there."""
    return {
        name: {place.removesuffix(":ro"): source for source, _, place in
               (mount.replace("${SHOP:-./shop}", "SHOP").partition(":") for mount in service["volumes"])}
        for name, service in compose["services"].items() if "volumes" in service
    }  # fmt: skip


def test_what_compose_mounts_is_there(compose: dict[str, Any]) -> None:
    volumes = set(compose["volumes"])
    sources = {source for places in mounts(compose).values() for source in places.values()}
    assert volumes < sources
    assert not [name for name in sources - volumes - {"SHOP"} if not (COMPOSE / name).resolve().is_file()]
    job, airflow = mounts(compose)["job"], mounts(compose)["airflow"]
    assert job.items() <= airflow.items(), "the run and Airflow have the same lake, application and settings"
    scrape = (COMPOSE / "prometheus.yml").read_text()
    assert f"job:{compose['services']['job']['environment']['LAKEHOUSE_METRICS_PORT']}" in scrape
    boards = mounts(compose)["grafana"]
    assert "path: /var/lib/grafana/boards" in (COMPOSE / "grafana-boards.yaml").read_text()
    assert "/var/lib/grafana/boards/lakehouse.json" in boards


def test_the_settings_of_compose_are_settings_and_its_commands_commands(compose: dict[str, Any]) -> None:
    services = compose["services"]
    settings = load(COMPOSE / "lakehouse.toml", environ=services["job"]["environment"])
    assert settings.metrics.port == 9108
    assert settings.kafka.bootstrap_servers == services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"][12:]
    assert Path(settings.lake.path).is_relative_to("/srv/lake")
    assert str(settings.airflow.home) == "/srv/airflow"
    assert services["airflow"]["ports"] == [f"127.0.0.1:{settings.airflow.port}:{settings.airflow.port}"]
    assert settings.registry.url == f"http://registry:8080{API_PATH}"
    layers = (CONTAINER / "build-layers.sh").read_text()
    assert "/srv/lake /srv/airflow" in layers
    program, *words = services["job"]["command"]
    assert program == "lakehouse"
    options = ["--config", "/etc/lakehouse/lakehouse.toml"]
    assert words == ["run", "--app", "app.py", *options]
    assert services["airflow"]["command"] == ["--app", "/srv/shop/app.py", *options, "--name", "shop"]
    for line in (words, ["airflow", "up", *services["airflow"]["command"]]):
        assert main([*line, "--help"]) == 0


def test_compose_takes_pinned_public_images_and_opens_ports_to_this_machine_alone(compose: dict[str, Any]) -> None:
    images = {name: service["image"] for name, service in compose["services"].items()}
    assert all(re.fullmatch(r"[a-z-]+(/[a-z-]+)?:v?\d+\.\d+\.\d+", image) for image in images.values()), images
    version = distribution("lakehouse").version
    assert images["job"] == f"lakehouse:{version}"
    assert images["airflow"] == f"lakehouse-airflow:{version}"
    ivy = (PROJECT / "lakehouse" / "setup" / "ivy.xml").read_text()
    assert f'name="kafka_2.13" rev="{images["kafka"].partition(":")[2]}"' in ivy
    assert f'name="apicurio-registry-app" rev="{images["registry"].partition(":")[2]}"' in ivy
    assert instructions("Dockerfile.airflow")[0] == ("FROM", images["job"])
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert not [text for text in (COMPOSE / "compose.yaml").read_text().split() if SECRET.search(text)]
