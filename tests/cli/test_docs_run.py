"""The command lines of the docs, one after the other, on a Kafka, a lake and Spark: each ends as its page says.

your-own-topic.md from an empty folder; then the pages about a table that exists, over the shop of time-travel.md, whose
three runs ingested three ticks; avro.md in a folder of its own. The README's: tests/setup/test_wheel.py,
flights-joined.md: tests/demo; clickstream.md and sql.md: tests/ksql; what `airflow` does: tests/airflow.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.cli.main import main
from tests.cli.test_docs_lines import CODE, PROJECT, lines

pytestmark = pytest.mark.slow
PAGES = (
    # operations.md runs the application, so it comes before changelog.md, where another lake takes its topic over.
    "time-travel", "operations", "audit", "explain", "changelog", "partitions", "testing", "backfill", "rebuild",
    "expectations", "bad-records", "rehydrate", "upkeep",
)  # fmt: skip
TICKS = (
    '7\t{"customer": "cem", "item": "tea", "amount": 21.00}\t2026-02-01T12:10:00Z\n'
    '8\t{"customer": "ann", "item": "jam", "amount": 4.50}\t2026-02-01T12:20:00Z\n',
    '9\t{"customer": "bob", "item": "tea", "amount": -8.25}\t2026-02-01T11:59:00Z\n'
    '10\t{"customer": "dan", "item": "tea", "amount": "3.00 EUR"}\t2026-02-01T12:00:00Z\n',  # for bad-records.md
)
MORE = """
import dataclasses

window = lh.tumbling("1 hour", grace="10 minutes")
hourly = orders.group_by("customer").window(window).agg(n=lh.count()).table("hourly")
app = lh.app(current, totals, hourly, totals.changes().to_topic("totals-changelog"))


def repair(record):
    return dataclasses.replace(record, value=record.value.replace(b" EUR", b""))
"""
# What a page says of lakes of its own, as it is in this one.
HERE = {
    r"--at 2013\S+ --clock commit": "--at {now} --clock commit",
    r"2013-\d\d-\d\dT[\d:]+Z": "2026-02-01T12:30Z",
    r"--from 2013-07-04 --to 2013-07-05": "--from 2026-01-31 --to 2026-02-01",
    r"flights/0=1200|orders/0=3(?!,)": "orders/0=1,orders/1=1",
    r"flights/0=120\.\.180": "orders/0=0..1",
    r"\bflights\b": "orders",
    r"--tick 41": "--tick 2",
    r"audit current\b": "audit current_orders",
    r"--position orders/1/11": "--position orders/{bad}",
}
# They need what this lake has not, or go on until Ctrl-C; where they are run instead.
ELSEWHERE = {
    "lakehouse query \"SELECT ... FROM visits\" --at 2013-06-01T00:00Z": "a form",
    "lakehouse kafka up": "ran before", "lakehouse kafka down": "runs at the end",
    "lakehouse run --app app.py": "goes on", "lakehouse run --app app.py --only ingest": "goes on",
    "lakehouse run --app app.py --only silver": "goes on",
    "lakehouse run --app app.py --only silver --part 1/2": "tests/kafka/test_several_processes.py",
    "lakehouse run --app app.py --only silver --part 2/2": "tests/kafka/test_several_processes.py",
    "lakehouse run --app planes_app.py": "tests/kafka/test_upstream_application.py",
    "lakehouse run --app flights_app.py --only silver": "tests/kafka/test_upstream_application.py",
    "lakehouse past changes totals --follow": "tests/cli/test_follow.py",
    "lakehouse test backtest hourly --app app.py --with longer_grace.py --to 41": "tests/cli/test_past_on_spark.py",
    "lakehouse test run scenario.json": "your-own-topic.md has it",
    'lakehouse repair replay orders --app app.py --reason "ahead of the record" --plan': "tests/spark/test_replay.py",
    'lakehouse repair replay orders --app app.py --position orders/0/12 --why "a booking for next year"':
        "tests/spark/test_replay.py",
}  # fmt: skip


def commented(line: str) -> str:
    """A line without its comment."""
    return re.sub(r"\s+#\s.*$", "", line)


def check_shown(lines: list[str], output: str) -> None:
    """Fail if a line of a page is not in the output. Widths may differ; … stands for what the page leaves out."""
    squeezed = " ".join(output.replace("┃", "│").split())
    for line in lines:
        pattern = re.escape(" ".join(line.split())).replace("…", ".*")
        assert re.search(pattern, squeezed), f"{line}\n{output}"


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = main(shlex.split(line)[1:])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Path:
    """An empty folder; Spark is there."""
    return tmp_path_factory.mktemp("docs")


def test_a_topic_of_one_s_own_from_an_empty_folder(shop, monkeypatch, capsys):
    page = (PROJECT / "docs" / "your-own-topic.md").read_text().split("## 5.")[0]
    monkeypatch.chdir(shop)
    written = [line.strip() for block in CODE.findall(page) for line in block.splitlines()]
    wanted = [commented(line) for line in written if re.match("lakehouse |printf |cd |python -m pytest", line)]
    assert len(wanted) == 18
    for line in wanted:
        if line.startswith("cd "):
            monkeypatch.chdir(line.removeprefix("cd "))
        elif line.startswith("lakehouse "):
            code, said = run(line, capsys)
            assert code == 0, f"{line}\n{said}"
            shown = re.findall(r"^    (│ .*)$", page.split(line)[1].split("    lakehouse ")[0], re.MULTILINE)
            assert not line.startswith("lakehouse query") or all(row in said for row in shown), f"{line}\n{said}"
        else:
            path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
            subprocess.run(["sh", "-c", line], env={"PATH": path}, check=True, capture_output=True)
    main(["kafka", "down"])


def test_the_tutorial(tmp_path, spark, monkeypatch, capfd):
    """Each block of code where the page puts it, each line in its turn, and what it shows."""
    page = (PROJECT / "docs" / "tutorial.md").read_text().split("## 6.")[0]
    for file in (PROJECT / "examples" / "tutorial").glob("*.jsonl"):
        shutil.copyfile(file, tmp_path / file.name)
    monkeypatch.chdir(tmp_path)
    app = Path("app.py")
    parts = re.findall(r"```python\n([^`]*)```|^    (lakehouse .*(?:\n    (?!lakehouse ).+)*)", page, re.MULTILINE)
    assert len(parts) >= 25
    try:
        for code, command in parts:
            if "def minutes" in code:
                Path("fixes.py").write_text(code)
            elif code.startswith("import lakehouse"):
                app.write_text(code)
            elif code.startswith("delays = ("):
                app.write_text(re.sub(r"^delays = .*\n", code, app.read_text(), flags=re.MULTILINE))
            elif code:  # in the place of the last line
                app.write_text(f"{app.read_text().rpartition('app = ')[0]}{code}")
            else:
                line, *shown_lines = command.splitlines()
                capfd.readouterr()
                assert main(shlex.split(line)[1:]) == 0, line
                check_shown(shown_lines, capfd.readouterr().out)
            if "seats = manned" in code:
                assert app.read_text() == (PROJECT / "examples" / "tutorial" / "app.py").read_text()
    finally:
        main(["kafka", "down"])


@pytest.mark.parametrize("name", ["alerts", "clickstream", "database"])
def test_an_example_does_what_its_readme_shows(tmp_path, spark, monkeypatch, capfd, name):
    example = PROJECT / "examples" / name
    for file in example.iterdir():
        if file.is_file():
            shutil.copyfile(file, tmp_path / file.name)
    monkeypatch.chdir(tmp_path)
    page = (example / "README.md").read_text()
    wanted = [block.strip() for block in re.findall(r"^    (lakehouse .*)$", page, re.MULTILINE)]
    assert len(wanted) >= 6
    alerts = ["cellar enter", "cellar leave", "cellar enter"] if name == "alerts" else []
    try:
        for line in wanted:
            capfd.readouterr()
            assert main(shlex.split(line)[1:]) == 0, line
            told = capfd.readouterr().out.replace("┃", "│")
            shown = page.split(f"    {line}\n")[1].split("\n\n")[0].split("    lakehouse ")[0]
            rows = re.findall(r"^    (│ .*)$", shown, re.MULTILINE)
            assert all(row in told for row in rows), f"{line}\n{told}"
            if line == "lakehouse run --until caught-up":
                assert re.findall(r"^cellar \w+$", told, re.MULTILINE) == alerts
                alerts = []  # no alert is sent twice
    finally:
        main(["kafka", "down"])


def test_a_topic_in_avro_from_an_empty_folder(tmp_path, spark, monkeypatch, capsys):
    whole = (PROJECT / "docs" / "avro.md").read_text()
    monkeypatch.chdir(tmp_path)
    try:
        for block in re.split(r"(?=Save this as )", whole.split("## Declaring")[0]):
            for name, content in re.findall(r"Save this as `([\w.]+)`:\n\n```\w+\n(.*?)```", block, re.DOTALL):
                Path(name).write_text(content)
            for line in map(commented, lines(block)):
                code, told = run(line, capsys)
                assert code == 0, f"{line}\n{told}"
                shown = block.split(line)[-1].split("    lakehouse ")[0]
                rows = re.findall(r"^    (│ .*|schemas/.*)$", shown, re.MULTILINE)
                assert all(row in told for row in rows), f"{line}\n{told}"
        assert run("lakehouse registry up", capsys)[0] == 0
        for line in ("lakehouse schema pull --app app.py", "lakehouse schema check --app app.py"):
            assert line in whole
            assert run(line, capsys)[0] == 0
    finally:
        main(["kafka", "down"])
        main(["registry", "down"])


@pytest.fixture(scope="module")
def story(shop: Path) -> Iterator[Path]:
    """The shop with three ticks, as time-travel.md tells them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(shop)
        assert main(["init", "story"]) == 0
        patch.chdir(shop / "story")
        app = Path("app.py")
        app.write_text(app.read_text() + MORE)
        Path("fixes.py").write_text(MORE.split("\n\n\n")[1].replace("def", "import dataclasses\n\n\ndef", 1))
        assert main(["kafka", "up"]) == 0
        assert main(["kafka", "produce", "orders", "orders.jsonl", "--partitions", "2"]) == 0
        assert main(["run", "--until", "caught-up"]) == 0
        for records in TICKS:
            Path("more.tsv").write_text(records)
            assert main(["kafka", "produce", "orders", "more.tsv"]) == 0
            assert main(["run", "--until", "caught-up"]) == 0
        yield Path.cwd()
        main(["kafka", "down"])


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_a_page_end_as_it_says(page, story, monkeypatch, capsys):
    monkeypatch.chdir(story)
    text = (PROJECT / "docs" / f"{page}.md").read_text()
    _, where = run("lakehouse query 'SELECT partition, \"offset\" FROM quarantine.orders' --csv", capsys)
    facts = {"bad": where.split()[1].replace(",", "/"), "now": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    failed = []
    for written in map(commented, lines(text)):
        if written in ELSEWHERE:
            continue
        line = written
        for said, here in HERE.items():
            line = re.sub(said, here.format(**facts), line)
        code, told = run(line, capsys)
        # Below a line that is refused its page has the message.
        refused = re.search(rf"{re.escape(written)}\n    error: ", text) is not None
        if (code != 0) != refused:
            failed.append(f"{line}: {code}\n{told}")
    assert not failed, "\n".join(failed)
