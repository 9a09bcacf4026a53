# pulsar-rebalancer: everything a developer runs. Bare `make` prints the targets.
#
# .venv is created on first use and updated when the lock file or pyproject.toml changes; scripts/bootstrap.sh checks
# Python and Java and prints how to install them. Change the interpreter with `make PYTHON=python3.12 …`.
# It has the packages of the product, and those for developers as soon as a target needs them.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
PRODUCT := $(VENV)/.product
STAMP := $(VENV)/.stamp
# Spark starts its Python workers from these: they must be the interpreter that runs the driver.
export PYSPARK_PYTHON := $(CURDIR)/$(VENV)/bin/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
# Tests start our commands and Spark's workers hundreds of times; with PYTHONDONTWRITEBYTECODE set, each start would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=
RUN := source scripts/java.sh && $(VENV)/bin
PACKAGES := streaming strategies sinks pulsar_rebalancer
# benchmarks/, examples/ and tools/ are checked like the packages.
CHECKED := $(PACKAGES) tests $(wildcard benchmarks examples tools)
# The longest first, so that no core is idle at the end.
FAST := $(wildcard tests/properties tests/architecture tests/unit tests/lab tests/golden)
ARGS ?=

.PHONY: help
help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(PRODUCT) ## create or update .venv with what the product needs (targets that need it do this first)

$(PRODUCT): requirements/product.lock pyproject.toml scripts/bootstrap.sh scripts/java.sh
	@scripts/bootstrap.sh $(VENV) product

$(STAMP): $(PRODUCT) requirements/dev.lock
	@scripts/bootstrap.sh $(VENV) dev

# What a lane of tests needs beyond the repository: a list with sizes, then the packages, then the rest. `make check` needs packages only.
FETCHES := fetch-test fetch-test-servers fetch-test-lab fetch-test-all fetch-test-long
.PHONY: $(FETCHES)
$(FETCHES): fetch-%:
	@scripts/bootstrap.sh $(VENV) empty
	@$(VENV)/bin/python -m scripts.fetch list $*
	@$(MAKE) --silent $(STAMP)
	@$(VENV)/bin/python -m scripts.fetch get $*

.PHONY: demo
demo: $(PRODUCT) ## a skewed cluster of 8 brokers, balanced live by the Spark job (ARGS="…" go to rebalancer demo)
	@$(RUN)/rebalancer demo $(ARGS)

.PHONY: demo-kafka
demo-kafka: $(PRODUCT) ## the same with all topics on a real Kafka broker, started for it
	@$(RUN)/python -m tools.kafka_demo $(ARGS)

.PHONY: demo-pulsar
demo-pulsar: $(PRODUCT) ## a real Pulsar cluster of 4 brokers with live clients, started for it and balanced (Linux and a JDK; 241 MiB the first time)
	@$(RUN)/python -m tools.pulsar_demo $(ARGS)

# Lanes: marks say what a test needs (pyproject.toml), these say which target runs it.
FAST_TESTS := not (spark or servers or variant or lab or heavy or slow)
TESTS := not (variant or lab or slow) and (essential or not servers)
SERVER_TESTS := not (lab or slow) and (variant or servers and not essential)
LAB_TESTS := lab and not slow
# tests/lanes.py runs tests that share a server in one process, the longest first.
PYTEST := $(RUN)/python -m pytest --dist loadscope --no-loadscope-reorder --durations=20 --durations-min=5

.PHONY: test
test: fetch-test ## what a change can break: unit, properties, golden, conformance, architecture, Spark, browser, essential servers (ARGS="…" go to pytest; "-n 0": one process)
	@$(PYTEST) -n 3 -m "$(TESTS)" $(ARGS)

.PHONY: test-servers
test-servers: fetch-test-servers spark-classes ## the other tests that need Kafka, Pulsar or our programs as processes
	@$(PYTEST) -n 3 -m "$(SERVER_TESTS)" $(ARGS)

.PHONY: test-lab
test-lab: fetch-test-lab spark-classes ## the tests of back-tests, simulations, reports and benchmarks that take seconds
	@$(PYTEST) -n 2 -m "$(LAB_TESTS)" $(ARGS)

.PHONY: test-all
test-all: fetch-test-all spark-classes ## test, test-servers and test-lab in one run
	@$(PYTEST) -n 2 -m "not slow" $(ARGS)

.PHONY: test-long
test-long: fetch-test-long spark-classes ## the tests that take minutes, and 10,000 examples of every property instead of 100
	@$(RUN)/python -m pytest -m "slow or properties" --hypothesis-profile=long $(ARGS)

# Worth its time where Spark starts often; make test uses it when it is there.
.PHONY: spark-classes
spark-classes: $(STAMP)
	@$(RUN)/python -m tools.processes.spark_classes

.PHONY: check
check: $(STAMP) ## format, lint, types and the fast tests, in under a minute
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(MAKE) -j2 types fast-tests

# In parallel, because mypy uses one core only. More processes than cores, because some tests wait for time-outs.
.PHONY: types fast-tests
types: $(STAMP)
	@$(VENV)/bin/mypy $(CHECKED)
fast-tests: $(STAMP)
	@$(VENV)/bin/python -m pytest -q -n 3 -m "$(FAST_TESTS)" --hypothesis-profile=quick $(FAST) $(ARGS)

.PHONY: format
format: $(STAMP) ## format the code as `make check` requires
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

.PHONY: golden
golden: $(STAMP) ## rewrite the expected output of tests/golden; read the difference before you commit it
	@$(VENV)/bin/python -m pytest -q tests/golden --golden-rewrite $(ARGS)

.PHONY: bench
bench: $(STAMP) ## milliseconds per decision; per report and per round, in the plain loop and through Spark (ARGS go to the latter)
	@$(VENV)/bin/python -m benchmarks.decisions
	@$(RUN)/python -m benchmarks.rounds $(ARGS)

.PHONY: bench-decisions
bench-decisions: $(STAMP) ## the first part of bench alone: every strategy at 100, 1,000 and 5,000 brokers (ARGS="…" go to it)
	@$(VENV)/bin/python -m benchmarks.decisions $(ARGS)

.PHONY: bench-backtest
bench-backtest: $(STAMP) ## a back-test compared with a plain reading pass of the same Parquet file, growing with days and brokers (ARGS="--sizes 30x100")
	@$(VENV)/bin/python -m benchmarks.backtest $(ARGS)

.PHONY: bench-targets
bench-targets: $(STAMP) ## SteadyShedder beside Pulsar's shedders in simulated experiments: are its targets met? (ARGS="--sweep" for its constants, "--robust" for disturbed clusters)
	@$(VENV)/bin/python -m benchmarks.targets $(ARGS)

.PHONY: bench-series
bench-series: $(STAMP) ## SteadyShedder, ThresholdShedder and AvgShedder on load that comes and goes, beside no moves and hindsight (ARGS="--traces FOLDER" for public series)
	@$(VENV)/bin/python -m benchmarks.load_series $(ARGS)

.PHONY: bench-kafka
bench-kafka: $(STAMP) ## the job on a real Kafka broker compared with pass-throughs: reports/s, latency, memory, growth (ARGS="--quick")
	@$(RUN)/python -m benchmarks.kafka $(ARGS)

.PHONY: bench-fleet
bench-fleet: $(STAMP) ## the job with 10, 100 and 1,000 clusters on Kafka, 1 to 4 partitions, in one process and on two workers (ARGS="--clusters 10 --homes 'one process'")
	@$(RUN)/python -m benchmarks.many_clusters $(ARGS)

.PHONY: bench-isolation
bench-isolation: $(STAMP) ## what 98 clusters of one job notice of one at 50 times the load, one of the largest records and one whose rounds raise (ARGS="--sick limits")
	@$(RUN)/python -m benchmarks.isolation $(ARGS)

.PHONY: bench-java
bench-java: $(STAMP) ## the same decisions by Pulsar's own classes: equal? how much more CPU? (a JDK, and Maven the first time)
	@$(VENV)/bin/python -m benchmarks.java_decisions $(ARGS)

.PHONY: vectors-java
vectors-java: $(STAMP) ## new histories, decided by Pulsar's own classes and by ours: equal? (ARGS="--suite shedding --cases 500 --seed 7")
	@$(VENV)/bin/python -m benchmarks.java_vectors $(ARGS)

.PHONY: lock
lock: $(STAMP) ## resolve requirements/*.lock again from pyproject.toml (UPGRADE=1: to the newest versions)
	@scripts/lock.sh $(if $(UPGRADE),--upgrade)

.PHONY: clean
clean: ## remove everything that make created
	@rm -rf $(VENV) build dist out artifacts spark-warehouse metastore_db derby.log *.egg-info
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
