# make demo       train, evaluate and score on the sample tickets
# make test       lint, types, layer contracts, documentation and the tests that are quick
# make test-all   the same with all tests
# make dashboard  the app in the browser, on the demo's model
# make docs       the documentation in the browser

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo
# what users install, and what tests and documentation need beside it
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

export BERTCNN_CACHE ?= $(CURDIR)/.cache/bertcnn
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE # importing TensorFlow takes four times as long without bytecode

.PHONY: demo test test-all unit coverage packaging lint types contracts dashboard docs docs-check reference setup clean constraints

setup: $(DEV)

define install
	@$(BIN)/uv pip install -q --no-cache --python $(BIN)/python -c constraints.txt -e '.$(1)' \
		|| { echo "uv could not install; trying pip, which also reads pip.conf"; \
		     $(BIN)/python -m pip install -q -c constraints.txt -e '.$(1)'; }
	@touch $@
endef

$(READY): pyproject.toml constraints.txt
	@echo "== setting up the environment in $(VENV) (once; some seconds, 3 GB)"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "$$($(PYTHON) --version) found; bertcnn needs Python 3.11 to 3.13. Run: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "Python's venv module is missing; on Debian and Ubuntu run: apt-get install python3-venv"; exit 2; }
	@$(BIN)/python -m pip install -q uv -c constraints.txt
	$(call install,)

$(DEV): $(READY)
	@echo "== adding what tests and documentation need (once; some seconds, 1.2 GB)"
	$(call install,[dev])

demo: $(READY)
	@test ! -f $(DEMO)/review.db || mv $(DEMO)/review.db $(DEMO)/review-before.db # it is about the old model
	@$(BIN)/python apps/train_new_labels.py data/isp_tickets.csv --out $(DEMO) --score data/isp_inbox.csv \
		--max-tokens 160 --epochs 4 --folds 0 --force

dashboard: $(READY)
	@test -d $(DEMO)/model || $(MAKE) --no-print-directory demo
	@test -f $(DEMO)/review.db || { $(BIN)/bertcnn models add $(DEMO)/model --store $(DEMO)/review.db \
		&& $(BIN)/bertcnn review add data/isp_inbox.csv --store $(DEMO)/review.db; }
	@$(BIN)/streamlit run apps/dashboard/app.py -- --models $(DEMO) --store $(DEMO)/review.db

test: $(DEV) lint types contracts docs-check unit

test-all:
	@$(MAKE) --no-print-directory test GROUPS=all

unit: $(DEV) # GROUPS are names of tests/groups.py, or all
	@echo "== tests"
	@$(BIN)/pytest --groups "$(GROUPS)" -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --durations=15 $(MEASURE)

coverage: # the tests, and which lines they reach; on Python 3.11 in 1.6 times the time
	@COVERAGE_CORE=sysmon $(MAKE) --no-print-directory unit GROUPS=all MEASURE="--cov=bertcnn --cov-report=term:skip-covered"

packaging: $(DEV) # what `make test` knows of it, and the plain install: some minutes, and 1 GB to download
	@echo "== packaging"
	@$(BIN)/pytest -n 0 tests/packaging tests/packaging/plain_install.py

lint: $(DEV)
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/codespell
	@$(BIN)/python tests/prose.py

types: $(DEV)
	@echo "== types"
	@$(BIN)/mypy

contracts: $(DEV)
	@echo "== layer contracts"
	@$(BIN)/lint-imports --no-cache

docs: $(DEV)
	@$(MKDOCS) serve

docs-check: $(DEV)
	@echo "== documentation"
	@log=$$($(MKDOCS) build 2>&1) || { printf '%s\n' "$$log"; exit 1; } # with -q, "strict" sees no warnings

reference: $(DEV) # after a change of commands, options or settings
	@$(BIN)/python docs/generate.py

constraints: $(DEV) # after a change of dependencies
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		--extra dev pyproject.toml -o constraints.txt

clean:
	rm -rf $(VENV) $(DEMO) .cache .pytest_cache .ruff_cache .mypy_cache site
