# Two commands do all set-up on a fresh machine: `make check` gates this repository's corpus, `make test` runs the tests.
# Both use one environment, .venv, made on first use and remade when pyproject.toml or constraints.txt changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help check test lint clean

help:
	@echo "make check   gate the kernel corpus: correctness, compiled code, committed baselines"
	@echo "make test    run the test suite"
	@echo "make lint    ruff, mypy --strict, import-linter, kgate lint"
	@echo "make clean   remove the environment and kgate's local state"

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "kgate needs Python 3.10 or later; say which: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	@echo "making $(VENV): torch, triton and the development tools; a few minutes, once"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0 triton==3.7.1
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

check: $(STAMP)
	$(BIN)/kgate check --all

# Kernels that are not ours, for the test of the interpreter's corrections; without a network that one test is skipped.
LIGER := $(VENV)/liger-kernel-0.8.5
$(LIGER): $(STAMP)
	-$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps -d $(VENV) liger-kernel==0.8.5 && \
		$(BIN)/python -m zipfile -e $(VENV)/liger_kernel-0.8.5-py3-none-any.whl $(LIGER)

test: $(STAMP) $(LIGER)
	KGATE_LIGER=$$(test -d $(LIGER) && echo "$$PWD/$(LIGER)") $(BIN)/python -m pytest -q

lint: $(STAMP)
	$(BIN)/ruff check kgate kernels tests benchmarks
	$(BIN)/ruff format --check kgate kernels tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/kgate lint

clean:
	rm -rf $(VENV) .kgate
