"""Which files the generic catch-up runs: a file that a run's conf names is judged by its folder."""

import os

import pytest

import lakehouse_places as places
from lakehouse_jobs import JobRefused


def test_the_generic_catch_up_accepts_files_in_its_folders_and_nothing_else(tmp_path, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for folder in ("apps", "apps/deep", "conf", "spark_jobs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "apps" / "link.py").symlink_to(tmp_path / "spark_jobs" / "ingest.py")
    allowed = {places.FOLDERS: os.pathsep.join(["apps", str(other), ""])}
    places.check_places(tmp_path, "apps/deep/f.py:app", "apps/l.toml", allowed)
    places.check_places(tmp_path, "apps/f.py", str(other / "l.toml"), allowed)
    places.check_places(tmp_path, "apps/f.py", None, allowed)
    for app, config, said in (
        ("spark_jobs/ingest.py", None, "app is 'spark_jobs/ingest.py', which lies in none of"),
        ("apps/link.py", None, "lies in none of"),
        ("apps2/f.py", None, "lies in none of"),
        ("apps", None, "expected a file that ends with .py"),
        ("apps/module:app", None, "expected a file that ends with .py"),
        ("apps/f.py", "/etc/l.toml", "config is '/etc/l.toml', which lies in none of"),
        ("apps/f.py", "conf/l.toml", "lies in none of"),
    ):
        with pytest.raises(JobRefused, match=said):
            places.check_places(tmp_path, app, config, allowed)
    with pytest.raises(JobRefused, match="no folder is named"):
        places.check_places(tmp_path, "apps/f.py", None, {})
