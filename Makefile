# deltajoin: `make demo` and `make test` need Python 3.11 and the package registries, nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A Spark, an Airflow or a Python path of the surrounding machine must not leak into ours.
unexport SPARK_HOME SPARK_CONF_DIR PYSPARK_SUBMIT_ARGS PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
unexport AIRFLOW_HOME AIRFLOW_CONFIG DBT_PROFILES_DIR DBT_PROJECT_DIR PYTHONPATH PYTHONHOME VIRTUAL_ENV

# uv trusts what the machine trusts, as pip does; where the machine lists nothing, its own list.
export UV_SYSTEM_CERTS := $(if $(wildcard /etc/ssl/certs/*),true,false)

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/share/deltajoin/env.stamp
SF := 1
PURE := plugin/deltajoin --ignore=plugin/deltajoin/runtime --ignore=plugin/deltajoin/adapters
RANDOM := $(addprefix tests/property/test_,oracle.py trees.py layers.py written.py clock.py accelerated.py)

.PHONY: help env demo demo-joins test trust lint check accept bench bench-flights bench-planner bench-orders bench-accelerators clean

help:
	@echo 'make env     build .venv: Python packages, Delta jars, a Java runtime where there is none'
	@echo 'make demo    real flights, day by day, through Airflow and dbt; DEMO=--connect on a Spark Connect server'
	@echo 'make demo-joins  ten days of real flights joined by ASOF, history and distance'
	@echo 'make test    the tests, without those that take hours'
	@echo 'make trust   21,000 random cases on DuckDB, 10,000 hostile names, 2,000 epochs, the corpus and S3 (690 MB of jars) on Spark, kills, races: some six hours'
	@echo 'make check   lint, types, import order, pure tests (some minutes)'
	@echo 'make accept  rewrite the golden files under tests/fixtures; review them as a diff'
	@echo 'make bench   TPC-H: runs against full rebuilds, rows compared; SF=10, options in BENCH'
	@echo 'make bench-flights  a day of flights against a full rebuild'
	@echo 'make bench-planner  join orders against brute force and long searches, planning times'
	@echo 'make bench-orders   our join orders on Spark against its own; options in ORDERS'
	@echo 'make bench-accelerators  ranges, distances, arrays, prefixes: Spark, ours, DuckDB; options in JOINS'
	@echo 'make clean   remove .venv and everything that was made'

env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@echo '[env 1/5] Python 3.11'
	@python="$$(command -v python3.11 || command -v python3 || true)"; \
	if [ -z "$$python" ] || ! "$$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
	  echo "deltajoin needs Python 3.11 as python3.11 or python3; found: $${python:-none} $$($${python:-true} --version 2>&1 || true)" >&2; \
	  exit 1; \
	fi; \
	echo "          $$python"; \
	rm -f $(STAMP); \
	"$$python" -m venv $(VENV)
	@echo '[env 2/5] uv, the installer'
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@echo '[env 3/5] Spark, Delta, dbt, Airflow and tools, about 190 packages: half a minute to some minutes'
	@$(VENV)/bin/uv pip install --quiet --python $(PY) -c constraints.txt -e '.[spark,dbt,airflow,java,dev]'
	@echo '[env 4/5] Delta jars, once'
	@$(PY) -m deltajoin.runtime.session fetch-jars
	@echo "[env 5/5] Spark's classes, kept for faster starts"
	@$(PY) -m deltajoin.runtime.session archive-classes
	@touch $(STAMP)

demo: env
	@$(PY) examples/flights/demo.py $(DEMO)

demo-joins: env
	@$(PY) examples/flights/joins.py

test: env
	@$(PY) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations=15
	@$(PY) -m pytest -q --doctest-modules $(PURE)

trust: env
	@$(PY) -m pytest -q -s $(RANDOM) --cases 7000 -k random --timeout 7200
	@$(PY) -m pytest -q -s tests/property/test_hostile.py --cases 10000 --timeout 7200
	@$(PY) -m pytest -q -n 2 -rP tests/spark/test_oracle.py --models 200
	@$(PY) -m pytest -q -rP tests/spark/test_oracle.py --models 12 --session connect
	@$(PY) -m pytest -q -rP tests/spark/test_oracle.py --models 4 --session cluster
	@$(PY) -m pytest -q -s tests/spark/test_corpus_epochs.py --corpus-epochs 0 --timeout 7200
	@$(PY) -m pytest -q -n 2 --dist loadfile --thorough --timeout 9000
	@$(PY) -m tests.mutation
	@$(PY) -m pytest -q tests/spark/test_object_store.py --s3
	@$(PY) examples/flights/demo.py --connect

lint: env
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

check: lint
	@$(PY) -m pytest -q -m 'not spark' tests/unit $(wildcard tests/property)
	@$(PY) -m pytest -q --doctest-modules $(PURE)

accept: env
	@$(PY) -m pytest -q -m 'not spark' --accept tests/unit
	@git status --short tests/fixtures

bench: env
	@PYTHONPATH=plugin $(PY) -m examples.tpch.bench --sf $(SF) $(BENCH)

bench-flights: env
	@$(PY) examples/flights/bench.py

bench-planner: env
	@PYTHONPATH=plugin $(PY) -m examples.bench_planner

bench-orders: env
	@$(PY) examples/bench_spark_orders.py $(ORDERS)

bench-accelerators: env
	@PYTHONPATH=plugin $(PY) -m examples.bench_accelerators $(JOINS)

clean:
	rm -rf $(VENV) .demo .bench build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis metastore_db derby.log spark-warehouse target logs
