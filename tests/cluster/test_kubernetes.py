"""What infra/container makes, without Docker and without Kubernetes: its steps, its entrypoint, its manifest.

the wheel -> build-layers.sh -> an environment and jars, used through entrypoint.sh: a run in one process
                             -> kubernetes.yaml's driver, on a stand-in of the API server, and the executors that it
                                asks for; the lake is on an S3 server
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.setup.places import jars_target
from tests.cluster.kubernetes import IP, StandIn
from tests.s3.server import SECRET, ObjectStore
from tests.setup.elsewhere import PROJECT, Elsewhere, built, link_packages

pytestmark = pytest.mark.slow

CONTAINER = PROJECT / "infra" / "container"
ENTRYPOINT = str(CONTAINER / "entrypoint.sh")
SECONDS = 600
APP = """
import lakehouse as lh


def largest(so_far, value):
    return max(so_far, value)


readings = lh.stream({topic!r}, key="sensor string", schema="room string, celsius bigint", name="readings")
rooms = readings.group_by("room").agg(n=lh.count(), best=lh.reduce("celsius", largest)).table("rooms")
app = lh.app(rooms)
"""
MANIFESTS = """
import json, sys
from pyspark.java_gateway import launch_gateway

jvm = launch_gateway().jvm
reader = jvm.io.fabric8.kubernetes.client.utils.Serialization
texts = sys.stdin.read().split("\\n---\\n")
print(json.dumps([json.loads(reader.asJson(reader.unmarshal(text))) for text in texts]))
"""


class Image(Elsewhere):
    """What the steps of the Dockerfile leave, in folders of this machine, and commands as a container runs them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.jars_folder = root / "jars"
        self.environ |= {
            "HOME": str(self.folder), "VIRTUAL_ENV": str(self.environment), "LAKEHOUSE_JARS": str(self.jars_folder),
        }  # fmt: skip

    def build(self, context: Path) -> None:
        """Take the steps but the first two: links to this environment's packages are quicker than what pip writes."""
        shutil.copy(CONTAINER / "build-layers.sh", context)
        link_packages(self)
        if (cache := jars_target() / "ivy-cache").is_dir():  # Ivy asks for the rest
            shutil.copytree(cache, self.jars_folder / "ivy-cache")
        for step in ("wheel", "jars"):
            self.works(f"cd {context} && ./build-layers.sh {step}")

    def files(self) -> set[Path]:
        """Return the files that a container's user can't write. Of the linked packages, not all are compiled."""
        files = [file for root in (self.environment, self.jars_folder) for file in root.rglob("*") if file.is_file()]
        return {file for file in files if file.suffix != ".pyc" or "lakehouse" in file.parts}

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [ENTRYPOINT, *arguments],
            cwd=self.folder, env=self.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def container(self, *arguments: str, **environ: str) -> str:
        process = self.start(*arguments, **environ)
        output = process.communicate(timeout=SECONDS)[0]
        assert process.returncode == 0, output
        return output


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    context = tmp_path_factory.mktemp("context")
    built(context)
    image = Image(tmp_path_factory.mktemp("image"))
    image.build(context)
    return image


class Shop:
    """An application in a folder that looks like a mounted ConfigMap, and its topic."""

    def __init__(self, image: Image, broker: Broker, folder: Path) -> None:
        self.image, self.topic, self.folder = image, f"readings-{uuid.uuid4().hex[:8]}", folder
        (folder / "..data").mkdir(parents=True)
        for name in ("app.py", "lakehouse.toml"):
            (folder / name).symlink_to(Path("..data") / name)
        (folder / "app.py").write_text(APP.format(topic=self.topic))
        shutil.copy(CONTAINER / "lakehouse.toml", folder / "..data")
        self.environ = {"LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "LAKEHOUSE_SPARK_MEMORY": "1g"}
        self.rows: dict[str, tuple[int, int]] = {}

    def produce(self, count: int) -> None:
        lines = []
        for number in range(count):
            room, celsius = f"r{number % 3}", number * 7 % 31
            n, best = self.rows.get(room, (0, celsius))
            self.rows[room] = (n + 1, max(best, celsius))
            lines.append(json.dumps({"key": f"s{number % 5}", "value": {"room": room, "celsius": celsius}}))
        records = self.image.folder / "records.jsonl"
        records.write_text("\n".join([*lines, ""]))
        self.image.container(
            "lakehouse", "kafka", "produce", self.topic, str(records), "--partitions", "2", **self.environ
        )

    def read(self) -> dict[str, tuple[int, int]]:
        config = ("--config", f"{self.folder}/lakehouse.toml")
        process = self.image.start("lakehouse", "query", "SELECT * FROM rooms", "--json", *config, **self.environ)
        output = process.communicate(timeout=SECONDS)[0]
        if process.returncode != 0:
            return {}  # there is no table yet
        rows = [json.loads(line) for line in output.splitlines()]
        return {row["room"]: (row["n"], row["best"]) for row in rows}


def test_a_run_in_the_image_makes_the_tables_and_writes_nothing_beside_them(
    image: Image, broker: Broker, tmp_path: Path
) -> None:
    shop = Shop(image, broker, tmp_path / "etc")
    shop.environ |= {"LAKEHOUSE_LAKE_PATH": str(tmp_path / "lake"), "LAKEHOUSE_SPARK_MASTER": "local[2]"}
    shop.environ |= {"LAKEHOUSE_SPARK_OPTIONS": "{}"}
    before = image.files()
    shop.produce(30)
    where = ("--config", str(shop.folder / "lakehouse.toml"), "--app", str(shop.folder / "app.py"))
    image.container("lakehouse", "run", *where, "--until", "caught-up", **shop.environ)
    assert shop.read() == shop.rows
    assert image.files() == before, "the image's user could not write them"


class Pod:
    """The driver of kubernetes.yaml, and the API server that it talks to."""

    def __init__(self, shop: Shop, folder: Path, lake: str, lake_options: dict[str, Any]) -> None:
        python = shop.image.environment / "bin" / "python"
        text = (CONTAINER / "kubernetes.yaml").read_text()
        parsed = subprocess.run([python, "-c", MANIFESTS], input=text, capture_output=True, text=True, check=True)
        by_kind = {item["kind"]: item for item in json.loads(parsed.stdout)}
        self.rights = {
            (verb, resource)
            for rule in by_kind["Role"]["rules"]
            for verb in rule["verbs"]
            for resource in rule["resources"]
        }
        spec = by_kind["StatefulSet"]["spec"]["template"]["spec"]
        [container] = spec["containers"]
        [mount] = container["volumeMounts"]
        self.arguments = [text.replace(mount["mountPath"], str(shop.folder)) for text in container["args"]]
        (folder / "executors").mkdir()
        executor_environ = {name: shop.image.environ[name] for name in ("PATH", "LAKEHOUSE_JARS", "HOME")}
        self.api = StandIn(folder / "executors", [ENTRYPOINT], executor_environ)
        self.driver = self.api.create("pods", {"metadata": {"name": f"{by_kind['StatefulSet']['metadata']['name']}-0"}})
        self.token = folder / "token"
        self.token.write_text(self.api.token)
        options = tomllib.loads((CONTAINER / "lakehouse.toml").read_text())["spark"]["options"] | {
            "spark.executor.memory": "700m", "spark.executor.memoryOverhead": "300m", "spark.executor.cores": "1",
            # The stand-in is asked again and again; it tells nothing by itself.
            "spark.kubernetes.executor.enableApiWatcher": "false",
            "spark.kubernetes.executor.apiPollingInterval": "1s",
        }  # fmt: skip
        [variable] = container["env"]
        assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
        shop.environ |= {
            variable["name"]: IP,
            "LAKEHOUSE_SPARK_MASTER": f"k8s://{self.api.url}", "LAKEHOUSE_SPARK_OPTIONS": json.dumps(options),
            "LAKEHOUSE_LAKE_PATH": lake, "LAKEHOUSE_LAKE_OPTIONS": json.dumps(lake_options),
            # The account of a pod, and no other that this machine may have.
            "KUBECONFIG": "/dev/null", "KUBERNETES_AUTH_TRYKUBECONFIG": "false",
            "KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN": str(self.token),
        }  # fmt: skip

    def turn_token(self) -> None:
        """Give the account another token, as a node does every hour; the old one counts no more."""
        self.api.token = uuid.uuid4().hex
        self.token.write_text(self.api.token)


@pytest.fixture
def pod(image: Image, broker: Broker, object_store: ObjectStore, tmp_path: Path) -> Iterator[tuple[Shop, Pod]]:
    shop = Shop(image, broker, tmp_path / "etc")
    lake_options = tomllib.loads(f"options = {object_store.options()}")["options"]
    started = Pod(shop, tmp_path, object_store.new_lake(), lake_options)
    yield shop, started
    started.api.close()


def test_a_driver_in_a_pod_gets_executors_and_ends_at_sigterm(pod: tuple[Shop, Pod], tmp_path: Path) -> None:
    """An executor is killed, and the account's token changes, as it does on a node."""
    shop, driver_pod = pod
    api = driver_pod.api
    shop.produce(60)
    with (tmp_path / "driver.log").open("w") as log:
        driver = subprocess.Popen(
            [ENTRYPOINT, *driver_pod.arguments],
            cwd=shop.image.folder, env=shop.image.environ | shop.environ, stdout=log, stderr=log,
        )  # fmt: skip

    def wait_for_rows() -> None:
        end = time.monotonic() + SECONDS
        while shop.read() != shop.rows:
            logs = (tmp_path / "driver.log").read_text() + api.log()[-4000:]
            assert driver.poll() is None, logs
            assert time.monotonic() < end, logs
            time.sleep(1)

    try:
        wait_for_rows()
        assert len(api.pods) == 2
        driver_pod.turn_token()
        api.processes[api.pods[0]["metadata"]["name"]].kill()
        shop.produce(60)
        wait_for_rows()
        end = time.monotonic() + SECONDS
        while len(api.pods) < 3:
            assert time.monotonic() < end, (tmp_path / "driver.log").read_text()
            time.sleep(1)
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(SECONDS) == 0, (tmp_path / "driver.log").read_text()
    finally:
        driver.kill()
        driver.wait()
    assert not [name for _, name in api.objects if name != "shop-0"], "the driver removes what it made"
    assert api.asked <= driver_pod.rights
    assert not [body for body in api.bodies if SECRET in body], "no key in what Kubernetes keeps"
    for pod_item in api.pods:
        assert pod_item["metadata"]["ownerReferences"][0]["uid"] == driver_pod.driver["metadata"]["uid"]
        assert pod_item["spec"]["containers"][0]["image"] == "lakehouse:0.2.0"
