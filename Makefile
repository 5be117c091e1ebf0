# make help lists the targets. Everything lands in .venv and .jars; nothing outside this folder is changed.
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LOCK := infra/python/requirements.lock
.DELETE_ON_ERROR:
.PHONY: help setup lint format test test-slow test-all test-ui faults demo bench bench-peers lock airflow-setup clean test-airflow airflow jars lock-jars wheel image-context docs docs-packages ui-packages classes components audit

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

setup: .venv/.installed jars classes ## the Python environment and the jars (needs Python 3.11+ and Java 17+)

.venv/.checked:
	@command -v $(PYTHON) >/dev/null || { echo "error: found no $(PYTHON); expected Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else f"error: found Python {v} as $(PYTHON); expected 3.11 or newer. Name a newer one: make PYTHON=/path/to/python3")'
	@$(PYTHON) lakehouse/setup/jars.py --check-java
	@$(PYTHON) -m venv .venv || { echo "error: $(PYTHON) can't make a virtual environment; on Debian and Ubuntu install python3-venv." >&2; exit 1; }
	@touch $@

# --no-compile: Python compiles a module when it first imports it; compiling all of them doubles the time.
.venv/.installed: .venv/.checked $(LOCK) pyproject.toml
	@echo "python: installing $(LOCK) into .venv"
	@$(BIN)/python lakehouse/setup/packages.py python $(LOCK) -- $(BIN)/python -m pip --disable-pip-version-check \
		install --progress-bar=off --root-user-action=ignore --no-compile --require-hashes --requirement $(LOCK)
	@$(PIP) install --root-user-action=ignore --no-deps --no-build-isolation --editable .
	@touch $@

# Every time: a jar that is not the one of lakehouse/setup/checksums.txt is refused. Reading all of them takes 0.2 s.
jars: .venv/.installed
	@$(BIN)/python lakehouse/setup/jars.py

# Spark runs once, and Java keeps its classes: it starts in half of the time then. Anew only when the jars are new.
classes: jars
	@test .jars/classes.jsa -nt .jars/stamp.json || $(BIN)/lakehouse setup

# From a copy of what git knows: nothing that lies about gets in, and nothing of the build stays here. Times and modes of
# files are the commit's and fixed ones, so that two builds of one commit have the same bytes.
wheel: .venv/.installed ## the wheel, into build/wheel: pip installs it anywhere
	@rm -rf build/wheel build/sources && mkdir -p build/wheel build/sources
	@umask 022 && git ls-files -z | tar --create --mode=u=rwX,go=rX --null --files-from - \
		| tar --extract --directory build/sources
	@umask 022 && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		$(PIP) wheel --no-deps --no-build-isolation --wheel-dir build/wheel build/sources
	@rm -rf build/sources && ls build/wheel

# What the image is made from, and nothing else of this checkout. Docker is not started here.
image-context: wheel ## the folder build/image, for docker build: images for containers and Kubernetes
	@rm -rf build/image && mkdir -p build/image
	@cp infra/container/Dockerfile infra/container/build-layers.sh infra/container/entrypoint.sh build/wheel/*.whl build/image
	@cp infra/container/Dockerfile.airflow infra/container/airflow.sh infra/container/healthcheck.sh build/image
	@$(BIN)/python infra/container/runtime_lock.py > build/image/requirements.lock
	@ls build/image

# In a folder of their own: the environment that the tests run in does not grow. A copy of the lock is the stamp.
docs-packages: .venv/.installed
	@cmp -s infra/docs/requirements.lock .docs/installed.lock || { \
		echo "docs: installing infra/docs/requirements.lock into .docs (150 MB)"; \
		rm -rf .docs && $(PIP) install --root-user-action=ignore --no-compile --require-hashes --target .docs \
			--requirement infra/docs/requirements.lock && cp infra/docs/requirements.lock .docs/installed.lock; }

docs: docs-packages ## the docs as a site, build/docs/html; a warning is an error
	@PYTHONPATH=.docs $(BIN)/python infra/docs/build.py

lock-jars: .venv/.installed ## rewrite lakehouse/setup/checksums.txt, after ivy.xml beside it has changed
	$(BIN)/python lakehouse/setup/jars.py --lock

lint: setup ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## let ruff rewrite the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Two processes, each with a Spark session and a broker of its own: one alone keeps one core busy
# (docs/decisions/tests-run-each-rule-once-on-spark.md).
# A file's tests stay together and in order. A single file is run without: .venv/bin/python -m pytest tests/...
IN_TWO := --numprocesses 2 --dist loadfile --no-loadscope-reorder

test: lint airflow-setup ## lint and the core tests
	$(BIN)/python -m pytest $(IN_TWO)

# The slow ones take hours: each run draws other files, by the seed that it prints.
test-slow: airflow-setup docs-packages ## a sixth of the files with slow tests, others in each run
	$(BIN)/python -m pytest -m "(slow or airflow) and not ui" --one-file-in 6 $(IN_TWO)

# It takes hours. One that was ended goes on where it was, on the same commit; rm -r build/test-all begins anew.
test-all: lint airflow-setup docs-packages ## lint and every test but the browser's (make test-ui), the slow ones too
	$(BIN)/python -m pytest -m "not ui" --resume=build/test-all $(IN_TWO)

# SEEDS="1-50", "7,9": each world takes two minutes. One that is not right is kept, and printed with what happened in it.
faults: setup ## random worlds with kills and other faults, checked by an oracle of their own (SEEDS=1-3)
	$(BIN)/python -m tests.faults.worlds.run --seeds $(or $(SEEDS),1-3)

ui-packages: .venv/.installed
	@cmp -s infra/ui/requirements.lock .ui/installed.lock || { \
		echo "test-ui: installing infra/ui/requirements.lock into .ui"; \
		rm -rf .ui && $(PIP) install --root-user-action=ignore --no-compile --no-deps --require-hashes --target .ui \
			--requirement infra/ui/requirements.lock && cp infra/ui/requirements.lock .ui/installed.lock; }

# Debian's own browser and its driver.
test-ui: setup airflow-setup ui-packages ## the page Streams & Tables in a real browser (chromium)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { echo "error: found no chromium and chromedriver; expected both. Install them: apt-get install chromium chromium-driver" >&2; exit 1; }; \
		echo "test-ui: installing chromium"; apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium chromium-driver >/dev/null; }
	$(BIN)/python -m pytest -m ui tests/ui

test-airflow: setup airflow-setup ## the DAGs on a real Airflow, with Kafka and Spark (a quarter of an hour)
	$(BIN)/python -m pytest -m airflow

demo: setup ## the guided demonstration
	$(BIN)/lakehouse demo

bench: setup ## the benchmarks
	$(BIN)/python benchmarks/catch_up.py
	$(BIN)/python benchmarks/freshness.py
	$(BIN)/python benchmarks/operators.py
	$(BIN)/python benchmarks/upkeep.py --drill
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/time_travel.py
	$(BIN)/python benchmarks/rebuild.py
	$(BIN)/python benchmarks/airflow_start.py

# ARGS="--full", or "--records 1000000 --rounds 3 --parts start growth"; plots are drawn from what a run left.
bench-peers: setup ## lakehouse beside what people would pick instead, in one run of 5 minutes (ARGS=--full: hours; needs a JDK)
	@$(BIN)/python benchmarks/peers/run.py $(or $(ARGS),--quick); found=$$?; \
	$(BIN)/python benchmarks/peers/plots.py --to build/peers/plots; exit $$found

components: .venv/.installed ## write infra/components.json (CycloneDX) anew from the locks
	@$(BIN)/python infra/components.py list

audit: .venv/.installed ## is anything known against a component? Fails where it could not ask
	@$(BIN)/python infra/components.py audit

# UPGRADE=--upgrade takes newer versions; without it only what pyproject.toml asks for changes.
lock: ## write infra/python/requirements.lock anew from pyproject.toml, and infra/docs/requirements.lock
	@test -x .venv-lock/bin/pip-compile || { $(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet pip-tools; }
	@CUSTOM_COMPILE_COMMAND="make lock" .venv-lock/bin/pip-compile --quiet $(UPGRADE) --generate-hashes --allow-unsafe \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --strip-extras \
		--constraint infra/python/constraints.txt --extra demo --extra dev --output-file $(LOCK) pyproject.toml
	@mkdir -p build && grep -oE '^[A-Za-z0-9._-]+==[^ ]+' $(LOCK) > build/pins.txt
	@CUSTOM_COMPILE_COMMAND="make lock" .venv-lock/bin/pip-compile --quiet $(UPGRADE) --generate-hashes --allow-unsafe \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --strip-extras --constraint build/pins.txt \
		--output-file infra/docs/requirements.lock infra/docs/requirements.in

airflow-setup: setup ## an Airflow environment of its own
	@$(BIN)/python -m lakehouse.setup.airflow

airflow: setup airflow-setup ## Airflow and its UI on this machine; lakehouse airflow down stops it
	$(BIN)/lakehouse airflow up

clean: ## remove what make made
	rm -rf .venv .venv-lock .venv-airflow .docs .jars .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
