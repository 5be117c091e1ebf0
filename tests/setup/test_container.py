"""The image's Dockerfile and what stands beside it: only what exists, and what the code reads. No Docker is needed.

Its steps, its entrypoint and its manifest are run by tests/cluster/test_kubernetes.py.
"""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from lakehouse.settings.config import load
from tests.setup.elsewhere import LOCK, PROJECT, needs, plain

CONTAINER = PROJECT / "infra" / "container"
SCRIPTS = ("build-layers.sh", "entrypoint.sh")
# Names of variables in which a secret would be baked into the image.
SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|OPTIONS", re.IGNORECASE)


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions: their name, and the rest of the line."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", (CONTAINER / "Dockerfile").read_text(), flags=re.MULTILINE))
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
    copied = [name for kind, rest in instructions() if kind == "COPY" for name in rest.split()[:-1]]
    assert copied
    assert not [name for name in copied if not fnmatch.filter(files, name)]
    assert sorted(files) == sorted(["Dockerfile", *(file for name in copied for file in fnmatch.filter(files, name))])


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
