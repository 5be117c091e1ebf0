"""Builds the docs' site: the Markdown as it is, a reference of Python from docstrings, one of the commands from help.

    python infra/docs/build.py [FOLDER]      default: build/docs; the site is FOLDER/html/index.html

Sphinx reads a copy, FOLDER/source, in which the two references are written; nothing of it is kept in git. A warning
is an error: a link or an anchor that leads nowhere, a page that README.md does not lead to, a docstring that can't be
read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import reference

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
INDEX = """\
# lakehouse

Kafka topics, kept as Delta tables that follow Kafka's own rules. Begin with [the overview](README.md).
"""
TREE = """
```{{toctree}}
:caption: {}

{}
```
"""
DECISIONS = "docs/decisions"
HIDDEN_TREE = """
```{{toctree}}
:hidden:

{}
```
"""


def pages() -> list[str]:
    """Return the Markdown files that git knows, and those that it would take, from the project's folder."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


def linked(page: str) -> Iterator[str]:
    """The files and folders of the project that a page links to."""
    for target in LINK.findall((ROOT / page).read_text()):
        place = (ROOT / page).parent.joinpath(target).resolve()
        if place.exists() and ROOT in place.parents:
            yield place.relative_to(ROOT).as_posix()


def copied(source: Path) -> None:
    """Copy the pages, and what they link to, to the same places below a folder."""
    for page in pages():
        for name in (page, *linked(page)):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                shutil.copyfile(ROOT / name, source / name)


def index() -> str:
    """Return the first page: every page in a list at the side, in the groups and the order of README's "Where next"."""
    _, *parts = re.split(r"^\*\*(.+)\*\*$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    trees = {"Overview": ["README"]}
    for group, text in zip(parts[::2], parts[1::2], strict=True):
        named = [name.removesuffix(".md") for name in LINK.findall(text) if name.endswith(".md")]
        trees[group] = [name for name in named if not any(name in tree for tree in trees.values())]
    project = trees.pop("The project")  # last, behind what is written here
    project += [name.removesuffix(".md") for name in pages() if PurePosixPath(name).parts[0] in ("infra", "benchmarks")]
    trees |= {"Reference": ["reference/python", "reference/commands"], "The project": project}
    return INDEX + "".join(TREE.format(group, "\n".join(tree)) for group, tree in trees.items())


def list_decisions(source: Path) -> None:
    """Put the pages of the decisions below their index: it lists them in a table, in which Sphinx sees no tree."""
    index_page = source / DECISIONS / "README.md"
    names = [name for name in LINK.findall(index_page.read_text()) if re.fullmatch(r"[\w-]+\.md", name)]
    tree = "\n".join(dict.fromkeys(name.removesuffix(".md") for name in names))
    index_page.write_text(index_page.read_text() + HIDDEN_TREE.format(tree))


def main(arguments: list[str]) -> int:
    """The command line; returns Sphinx's exit code."""
    folder = Path(arguments[0]).resolve() if arguments else ROOT / "build" / "docs"
    source, site = folder / "source", folder / "html"
    shutil.rmtree(source, ignore_errors=True)
    copied(source)
    list_decisions(source)
    (source / "reference").mkdir(parents=True)
    (source / "reference" / "commands.md").write_text(reference.commands())
    (source / "reference" / "python.md").write_text(reference.python())
    (source / "index.md").write_text(index())
    argv = [sys.executable, "-m", "sphinx", "-q", "--fail-on-warning", "-c", str(HERE), str(source), str(site)]
    code = subprocess.run(argv, check=False).returncode
    if code == 0:
        print(f"docs: {site / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
