# Sets itself up: needs only python3 (3.11 or newer, with venv), git and make.
# Another interpreter: make PYTHON=python3.12 test.  More arguments: make run ARGS="-c pdwatch.yaml".

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
JOBS   ?= 2

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What is installed follows from these two; nothing is installed again while they stand unchanged.
INSTALL_INPUTS := pyproject.toml agent/__init__.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test lint format bench generated clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## watch (without a configuration: what is built in)
	$(BIN)/pdwatch run $(ARGS)

test: $(VENV)/.installed-dev ## run the tests
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

lint: $(VENV)/.installed-dev ## style, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev ## format and fix what can be fixed by a tool
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-bench ## measure speed and footprint
	$(BIN)/python -m bench $(ARGS)

generated: $(VENV)/.installed ## write what generators write and the repository holds
	$(BIN)/pdwatch export alerts -c alerts/pdwatch.yaml -o alerts
	$(BIN)/pdwatch export dashboards -c alerts/pdwatch.yaml -o dashboards
	$(BIN)/python -m agent.export.dashboards.panel_table docs/dashboards.md
	$(BIN)/pdwatch export kubernetes -c deploy/pdwatch.yaml -o deploy/kubernetes
	$(BIN)/python -m agent.export.kubernetes.recordings alerts/pdwatch.yaml deploy/compose/vllm-recordings.yml

clean: ## remove the environment and all caches
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find agent bench tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found: install Python 3.11 or newer, or name one: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $$($(PYTHON) --version) is too old: pdwatch needs 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "make: $(PYTHON) comes without venv: install it (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created $(INSTALL_INPUTS)
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.created $(INSTALL_INPUTS)
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(VENV)/.created $(INSTALL_INPUTS)
	$(PIP) --editable '.[bench]'
	@touch $@ $(VENV)/.installed
