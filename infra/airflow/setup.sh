#!/bin/sh
# Makes .venv-airflow at the root of the repository from requirements.lock. Run again, it does nothing until the
# lock changes. PYTHON chooses the interpreter (default: python3).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
venv=$root/.venv-airflow
lock=$here/requirements.lock
# A copy of the lock is the stamp. It is written last, so that an interrupted setup starts over.
stamp=$venv/installed.lock

if cmp -s "$lock" "$stamp" && [ -x "$venv/bin/airflow" ]; then
    exit 0
fi

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "airflow-setup: found $("$python" --version 2>&1) as $python, expected 3.11 or newer." >&2
    echo "airflow-setup: name another: PYTHON=python3.11 sh infra/airflow/setup.sh" >&2
    exit 2
fi

echo "airflow-setup: installing Airflow into .venv-airflow (about a minute)" >&2
# --clear: what an older lock installed must not stay behind.
"$python" -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --require-hashes --requirement "$lock"
# The page "Streams & Tables" (plugins/) reads the lake by the project's own readers. A path, not an installed package:
# that would put a `lakehouse` command here, which lacks Spark and Kafka, before the project's own on Airflow's PATH.
"$venv/bin/python" -c 'import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "lakehouse-checkout.pth").write_text(sys.argv[1] + "\n")' "$root"
cp "$lock" "$stamp"
echo "airflow-setup: $("$venv/bin/airflow" version) is ready" >&2
