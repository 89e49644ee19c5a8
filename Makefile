# Everything a developer runs. `make test` is enough on a fresh machine: Python 3.11 or newer and PyPI are all it needs.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help setup lock sbom audit demo demo-quick docs lint format test test-all test-lowest test-newest unit fuzz chaos bench sync proto clean

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
BROKER := $(VENV)/.broker
SPARK := $(VENV)/.spark
JAVA := $(VENV)/.java
OLDER := .venv-spark42
TOOLS := .venv-tools
DOCS := .venv-docs
PYTEST := $(PY) -m pytest
# What pip does is seen on a terminal, and not in a log.
PIP_INSTALL = -m pip install --disable-pip-version-check $$([ -t 2 ] || echo --quiet)
PIP = $(PY) $(PIP_INSTALL)
# Every package has its version and hashes in a lock file. The project itself is built by the locked backend.
LOCKED := --no-build-isolation --require-hashes -r
PROJECT := --no-build-isolation --no-deps --no-index -e .
PYTHON_CHECK = $(PYTHON) -c 'import sys; sys.exit("Magnetar needs Python 3.11 or newer, this is %d.%d: run make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'

# The first need processors and nothing else. The others start brokers of their own and mostly wait for them, so three at
# a time keep two cores busy; the longest come first.
PARALLEL := tests/tidy tests/unit tests/tools tests/contract
WITH_BROKERS := tests/model tests/sim tests/fuzz tests/process tests/compat tests/client tests/cli tests/testing tests/examples
FUZZ := tests/fuzz
# Of the slow tests some compute alone, on virtual clocks; some kill brokers of their own, and wait; two of each at a
# time. All others run one after the other, and so does what a new directory brings: JVMs want the machine to themselves.
COMPUTING := $(PARALLEL) tests/model tests/sim
KILLING := tests/process
CODE := src tests simulation benchmarks examples release tools

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## the virtual environment with everything that tests need

$(STAMP): pyproject.toml requirements/build.txt requirements/dev.txt
	@$(PYTHON_CHECK)
	[ -x $(PY) ] || $(PYTHON) -m venv $(VENV)
	echo "installing the broker and the tools of developers into $(VENV): about 950 MB"
	$(PIP) $(LOCKED) requirements/build.txt -r requirements/dev.txt
	$(PIP) $(PROJECT)
	touch $(STAMP)

# A demo needs the broker alone.
$(BROKER): pyproject.toml requirements/build.txt requirements/broker.txt
	@$(PYTHON_CHECK)
	[ -x $(PY) ] || $(PYTHON) -m venv $(VENV)
	echo "installing the broker into $(VENV): about 100 MB"
	$(PIP) $(LOCKED) requirements/build.txt -r requirements/broker.txt
	$(PIP) $(PROJECT)
	touch $(BROKER)

# PySpark is 450 MB: only what needs it waits for it. The tests of Spark run on the newest one and once more on 4.2.
$(SPARK): $(BROKER) requirements/spark.txt Makefile
	@echo "installing PySpark into $(VENV): about 700 MB"
	$(PIP) $(LOCKED) requirements/spark.txt
	touch $(SPARK)

$(OLDER)/.spark: pyproject.toml requirements/build.txt requirements/spark42.txt Makefile
	@[ -x $(OLDER)/bin/python ] || $(PYTHON) -m venv $(OLDER)
	$(OLDER)/bin/python $(PIP_INSTALL) $(LOCKED) requirements/build.txt
	$(OLDER)/bin/python $(PIP_INSTALL) $(LOCKED) requirements/spark42.txt
	$(OLDER)/bin/python $(PIP_INSTALL) $(PROJECT)
	touch $(OLDER)/.spark

# Where there is no Java 17 or newer, pip brings one.
$(JAVA): $(SPARK) requirements/java.txt
	@$(PY) -c 'import asyncio, os, pathlib, sys; from magnetar.spark.environment import java_home; sys.exit(asyncio.run(java_home(os.environ, pathlib.Path("$(VENV)"))) is None)' || { echo "installing Java into $(VENV): about 150 MB"; $(PIP) $(LOCKED) requirements/java.txt; }
	touch $(JAVA)

$(TOOLS)/.installed: requirements/release.txt
	@$(PYTHON_CHECK)
	[ -x $(TOOLS)/bin/python ] || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python $(PIP_INSTALL) $(LOCKED) requirements/release.txt
	touch $(TOOLS)/.installed

$(DOCS)/.installed: requirements/docs.txt
	@$(PYTHON_CHECK)
	[ -x $(DOCS)/bin/python ] || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PIP_INSTALL) $(LOCKED) requirements/docs.txt
	touch $(DOCS)/.installed

# All extras are resolved together first, so that the lock files agree: they are installed into one environment. Pins
# that still fit pyproject.toml stay.
lock: $(TOOLS)/.installed  ## requirements/*.txt from pyproject.toml, with hashes; all newest: UPGRADE=--upgrade, one: UPGRADE="--upgrade-package rich"
	@lock() { $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --no-python-downloads --no-annotate --custom-compile-command "make lock" "$$@"; }
	hashed() { lock --generate-hashes --output-file "requirements/$$1.txt" "$${@:2}"; }
	all=$(TOOLS)/all.txt
	sed -nE 's/^([a-z0-9].*==[^\\]*[^ \\]) *\\?$$/\1/p' requirements/{build,broker,dev,spark,java}.txt | sort -u > $$all
	lock $(UPGRADE) pyproject.toml --all-extras --group build --output-file $$all
	hashed build --constraints $$all --group build
	hashed broker --constraints $$all pyproject.toml --extra broker
	hashed dev --constraints $$all pyproject.toml --extra broker --extra avro --extra dev
	hashed spark --constraints $$all pyproject.toml --extra spark --extra pipelines
	hashed java --constraints $$all pyproject.toml --extra java
	sed '/^pyspark==/d' $$all > $(TOOLS)/spark42.txt
	hashed spark42 $(UPGRADE) --constraints $(TOOLS)/spark42.txt pyproject.toml --extra broker --extra spark --extra pipelines --group spark42
	hashed release $(UPGRADE) --group release
	hashed docs $(UPGRADE) --group docs

sbom: $(STAMP) $(TOOLS)/.installed  ## requirements/broker.cdx.json from the lock, as CycloneDX: the wheel carries it
	@$(PY) -m release.sbom > $(TOOLS)/sbom.json
	$(TOOLS)/bin/python -c 'import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import JsonStrictValidator; wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()); sys.exit(wrong and f"the bill of materials is not CycloneDX 1.6: {wrong}")' < $(TOOLS)/sbom.json
	mv $(TOOLS)/sbom.json requirements/broker.cdx.json

audit: $(TOOLS)/.installed  ## known vulnerabilities of locked packages, by pip-audit; needs the advisories of pypi.org
	@failed=0
	for file in requirements/*.txt; do
		echo "$$file"
		{ $(TOOLS)/bin/pip-audit --require-hashes --disable-pip --progress-spinner off --format json -r "$$file" 2> >(grep -v "^No known" >&2) || true; } | $(TOOLS)/bin/python -m release.audit || failed=1
	done
	exit $$failed

demo: $(JAVA)  ## the main job in two minutes: a live topic, splits and merges, PySpark, a kill -9 of the query and of the broker, a verdict from the data
	@$(VENV)/bin/magnetar demo --spark $(DEMO)

demo-quick: $(BROKER)  ## the same without Spark, in seconds: every type of subscription: DEMO="--seconds 5"
	@$(VENV)/bin/magnetar demo $(DEMO)

# From nothing each time, since a page from the cache gives no warning.
docs: $(DOCS)/.installed  ## the site of the documents in .site/html, its links checked; to read it: python3 -m http.server --bind 127.0.0.1 --directory .site/html
	@rm -rf .site .cache
	$(DOCS)/bin/python -m release.site pages
	$(DOCS)/bin/zensical build --strict
	$(DOCS)/bin/python -m release.site check

lint: $(STAMP) docs  ## ruff, mypy strict, the rules of the house, the site of the documents
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/mypy
	$(PYTEST) tests/tidy

format: $(STAMP)  ## let ruff put the code in shape
	$(VENV)/bin/ruff check --fix $(CODE)
	$(VENV)/bin/ruff format $(CODE)

unit: $(STAMP)  ## tidy, unit and contract tests: under a minute
	$(PYTEST) -n 2 --dist loadfile -m "not slow" $(PARALLEL)

test: $(SPARK) unit  ## everything that needs PyPI only, and Java for a real ZooKeeper from PySpark's jars: unit, a minute of fuzzing, processes, other people's clients
	MAGNETAR_FUZZ_S=60 $(PYTEST) -n 3 --dist loadfile -m "not slow" $(WITH_BROKERS)

test-all: test $(OLDER)/.spark  ## what takes minutes, or Java and Maven, on top of `make test`: our client on a real Apache Pulsar, Spark
	$(PY) -m tests.servers.pulsar || true  # its jars, once; where Java or Maven is missing the tests say so
	MAGNETAR_THOROUGH=1 $(PYTEST) -n 2 --dist loadfile -k runTest tests/unit
	$(PYTEST) -n 2 --dist worksteal -m slow $(COMPUTING)
	$(PYTEST) -n 2 --dist worksteal -m slow $(KILLING)
	$(PYTEST) -m slow tests $(patsubst %,--ignore=%,$(COMPUTING) $(KILLING))
	MAGNETAR_SPARK_KILLS=1 $(OLDER)/bin/python -m pytest -m slow tests/spark

# The ends of the ranges in pyproject.toml, in environments of their own that are made again each time. They are not
# locked: what the index has today is the question. protobuf is upgraded alone, since grpcio-tools holds it below 7.
test-lowest: $(TOOLS)/.installed  ## unit and contract tests on the lowest version of every range: four minutes
	$(TOOLS)/bin/uv venv --quiet --clear --no-python-downloads --python $(PYTHON) .venv-lowest
	$(TOOLS)/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct -e '.[broker,dev]'
	.venv-lowest/bin/python -m pytest -n 2 --dist loadfile -m "not slow" tests/unit tests/contract

test-newest: $(TOOLS)/.installed  ## the same on the newest version of every range
	$(TOOLS)/bin/uv venv --quiet --clear --no-python-downloads --python $(PYTHON) .venv-newest
	$(TOOLS)/bin/uv pip install --quiet --python .venv-newest/bin/python -e '.[broker,dev]'
	$(TOOLS)/bin/uv pip install --quiet --python .venv-newest/bin/python --upgrade -e '.[broker]'
	.venv-newest/bin/python -m pytest -n 2 --dist loadfile -m "not slow" tests/unit tests/contract

fuzz: $(STAMP)  ## ten minutes of hostile bytes
	MAGNETAR_FUZZ_S=600 $(PYTEST) --timeout 1200 $(FUZZ)

chaos: $(STAMP) $(SPARK)  ## thousands of worlds, kill -9 under load, of Spark too, and power cuts, for long; writes docs/CHAOS*.md: SEEDS=3000 KILLS=500 CUTS=10 SPARK_KILLS=20
	$(PY) -m simulation run --seeds $${SEEDS:-3000} --jobs $$(nproc) --marks --record docs/CHAOS.md
	MAGNETAR_KILLS=$${KILLS:-500} $(PYTEST) --timeout 14400 -k kill tests/process
	MAGNETAR_CRASH_SEEDS=$${CUTS:-10} $(PYTEST) --timeout 14400 tests/sim/test_crash.py
	MAGNETAR_SPARK_KILLS=$${SPARK_KILLS:-20} MAGNETAR_RECORD=docs/CHAOS_SPARK.md $(PYTEST) --timeout 14400 tests/spark/test_sink_kills.py tests/spark/test_cluster.py

bench: $(STAMP)  ## the broker beside its ceilings, the client beside the stock one, splits beside Apache Pulsar 5 (Java and Maven); writes benchmarks/results/
	$(PY) -m benchmarks.broker
	$(PY) -m benchmarks.client
	$(PY) -m benchmarks.reshape

sync: $(STAMP)  ## every generated file: the blocking admin client, the reference pages, the words of completion
	$(PY) -m tools.async_to_sync
	$(VENV)/bin/ruff check --quiet --fix src/magnetar/client/admin/sync
	$(VENV)/bin/ruff format --quiet src/magnetar/client/admin/sync
	$(PY) -m tools.pages

proto: $(STAMP)  ## the code protoc writes from the .proto files of src
	$(PY) -m grpc_tools.protoc -Imagnetar/wire/generated=src/magnetar/wire --python_out=src --pyi_out=src magnetar/wire/generated/pulsar.proto
	$(PY) -m grpc_tools.protoc -Imagnetar/ledger/bookkeeper/generated=src/magnetar/ledger/bookkeeper --python_out=src --pyi_out=src magnetar/ledger/bookkeeper/generated/bookkeeper.proto

clean:  ## forget what was built; data is left alone
	rm -rf $(VENV) $(OLDER) $(TOOLS) $(DOCS) .site .cache .venv-lowest .venv-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
