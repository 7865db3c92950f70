# Naive Speculate. Needs nothing but python3 (3.11 or newer, with venv) and make.

PYTHON ?= python3
VENV ?= .venv
# The index with the build of torch for this machine; PyPI's own build if empty. Processor only:
#   make run TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STATE := $(VENV)/bench.jsonl
FRESH ?=
PIP_FLAGS := --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DEFAULT_GOAL := help
.PHONY: help run test test-browser check format bench gpu-bench soak demo screenshots clean model

help: ## Show this list
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)$$/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

run: $(STAMP) model ## Set up and open the app on the built-in model
	$(BIN)/spec builtin --app

test: $(STAMP) model ## Set up and run every test but the long ones
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not soak and not browser"

test-browser: $(STAMP) ## Open exported pages in chromium (apt-get install chromium chromium-driver)
	$(BIN)/python -m pytest -q -m browser tests/browser

check: $(STAMP) ## Formatter, linter, type checker, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Format the code and repair what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# All share the state, which the last one prints and removes: a bench that was stopped is gone on with.
# `make bench FRESH=1` begins anew.
bench: $(STAMP) model ## Measure speed and memory on this machine; goes on where it was stopped
	$(BIN)/python -m engine.bench --state $(BENCH_STATE) --keep --no-table $(if $(FRESH),--fresh)
	$(BIN)/python -m tui.bench --state $(BENCH_STATE) --keep --no-table
	$(BIN)/python -m engine.bench.together $(BENCH_STATE)

gpu-bench: $(STAMP) ## Measure speed on a CUDA device, on random weights of real shapes
	$(BIN)/python -m engine.bench.gpu

soak: $(STAMP) model ## Run the long tests
	$(BIN)/python -m pytest -q -m soak

demo: $(STAMP) model ## Record anew the run that the app shows at its first start
	rm -f engine/assets/demo.jsonl
	$(BIN)/spec builtin --max-new-tokens 200 --seed 1 --record engine/assets/demo.jsonl
	chmod 644 engine/assets/demo.jsonl

screenshots: $(STAMP) ## Draw the pictures of the documentation
	$(BIN)/python -m tui.screenshots docs

clean: ## Remove the environment, caches and build outputs
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find engine tui tests -type d -name __pycache__ -prune -exec rm -rf {} +

# The tests and the bench run offline once the built-in model is in the user's cache.
model: $(STAMP)
	$(BIN)/python -m engine.models.builtin

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, $(PYTHON) is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV); torch is large, so the first time takes minutes."
	$(BIN)/python -m pip install $(PIP_FLAGS) -c constraints.txt -e ".[dev]"
	@touch $@
