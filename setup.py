"""The wheel takes along what runs outside of the package: Airflow's DAGs and plugins, their jobs, and the demo.

Everything else about the build is in pyproject.toml.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("dags", "plugins", "spark_jobs", "examples/year_of_flights")
NOT_TAKEN = shutil.ignore_patterns("__pycache__")


class WithProject(build_py):
    """Copies them to ``lakehouse/project``, where ``lakehouse.setup.places`` looks outside of a checkout."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "lakehouse" / "project"
        shutil.rmtree(target, ignore_errors=True)
        for folder in FOLDERS:
            shutil.copytree(folder, target / folder, ignore=NOT_TAKEN)


setup(cmdclass={"build_py": WithProject})
