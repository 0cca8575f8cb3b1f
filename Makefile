# One command for each habit. `make` alone lists them.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := .local/stamps
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
SHIM := java-shim/target/mirror-bridge-connect-$(VERSION).zip
SHIM_MAIN := java-shim/pom.xml $(shell find java-shim/src/main -type f 2>/dev/null)
SHIM_TEST := $(shell find java-shim/src/test tests/contract/samples -type f 2>/dev/null)
PIN := uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links --quiet
MVN := mvn -B -q -f java-shim/pom.xml
# JVMs of Maven end soon.
export MAVEN_OPTS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
# Dozens of processes of Python would compile all that they import, each for itself: half of the time of their start.
unexport PYTHONDONTWRITEBYTECODE

# The first Python on the PATH that is new enough, unless PYTHON=... says which.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$p; done))

STEPS = $(if $(PYTHON),$(PYTHON),$(NO_PYTHON)) tests/support/steps.py
NO_PYTHON = echo "No Python 3.11 or newer found: install one, or name it with PYTHON=..." >&2; false

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test test-all test-unit test-shim test-power soak attack lint audit demo bench shim jars definitions openapi requirements clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## Make .venv with the pinned dependencies and this project

test: ## Set up and run the short form: lint, the shim, unit tests, each promise once on brokers
	+@$(STEPS) short

test-all: ## Run everything but benchmarks and soak; what a change of these rooms needs with FOR="bridge/dedicated"
	+@$(STEPS) all $(FOR)

test-unit: setup ## Run the tests that need no Kafka
	$(BIN)/pytest tests/unit tests/contract -m "not perf and not soak and not long" --numprocesses=3 --dist=worksteal $(PYTEST_ARGS)

test-shim: $(STAMPS)/shim-tested ## Run the shim's own tests

test-power: shim jars ## Take 25 fixes back: does the short form find what the whole finds? (hours; POWER="--count 5")
	$(BIN)/python -m tests.support.power $(POWER)

soak: shim jars ## Run the long forms of tests (hours), or those named so: FORMS="faults fuzz"
	$(BIN)/python -m tests.support.soak $(FORMS)

attack: shim jars ## Attack a service with all that a caller can make large, and wrong (an hour), with a table at the end
	$(BIN)/python -m tests.support.soak attack fuzz secrets

lint: setup ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

audit: ## Look up known weaknesses of the pinned dependencies (needs the index of advisories)
	@test -x .local/audit/bin/pip-audit || { $(PYTHON) -m venv .local/audit && .local/audit/bin/pip install --quiet pip-audit; }
	.local/audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.txt -r deploy/service.requirements.txt

demo: shim jars ## Fail consumer groups over between two real clusters, and show how exactly they resume
	$(BIN)/mirror-bridge demo $(DEMO_ARGS)

bench: shim jars ## Measure; one benchmark with NAME=lookups
	$(BIN)/pytest tests/perf -m perf -s --timeout=7200 $(if $(NAME),-k $(NAME)) $(PYTEST_ARGS)

shim: $(SHIM) ## Build the Connect plugin: java-shim/target/mirror-bridge-connect-VERSION.zip

jars: $(STAMPS)/jars ## Fetch Kafka's own jars for the local stack, once

definitions: setup ## Write the connectors' keys again, for the shim and for docs/configuration.md
	$(BIN)/mirror-bridge definitions

openapi: setup ## Write bridge/protocol/openapi.json again
	$(BIN)/mirror-bridge openapi bridge/protocol/openapi.json

requirements: ## Pin the dependencies of pyproject.toml anew (needs uv)
	@command -v uv >/dev/null || { echo "No uv found: install uv to pin the dependencies anew." >&2; exit 1; }
	printf 'setuptools>=77\n' | $(PIN) pyproject.toml - --extra dev --output-file requirements.txt
	printf 'setuptools>=77\n' | $(PIN) pyproject.toml - -c requirements.txt --output-file deploy/service.requirements.txt

clean: ## Remove what was built or measured; .venv and the cache of jars stay
	rm -rf .local build dist java-shim/target .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find bridge connectors tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: requirements.txt pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(NEW_ENOUGH)' 2>/dev/null \
		|| { $(NO_PYTHON); }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "$(PYTHON) cannot make virtual environments: install its venv module." >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(STAMPS)/jars: $(VENV)/.installed $(wildcard bridge/local/*.xml bridge/local/arch*.py bridge/local/jars.py)
	@$(BIN)/python -m bridge.local fetch
	@mkdir -p $(STAMPS) && touch $@

$(SHIM): $(SHIM_MAIN)
	@command -v javac >/dev/null || test -x "$${JAVA_HOME:-/nowhere}/bin/javac" || { echo "No JDK found: install JDK 17 or newer so that javac is on the PATH, or name its folder with JAVA_HOME." >&2; exit 1; }
	@command -v mvn >/dev/null || { echo "No Maven found: install Maven 3.6 or newer so that mvn is on the PATH." >&2; exit 1; }
	$(MVN) package -DskipTests
	@touch $@

$(STAMPS)/shim-tested: $(SHIM) $(SHIM_TEST)
	$(MVN) test
	@mkdir -p $(STAMPS) && touch $@
