# A thin front: each target is one `fairlead` command. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help
PYTHON ?= python3
VENV := .venv
FAIRLEAD := $(VENV)/bin/fairlead

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 22

# Every target but help and requirements depends on the finished environment, so that nobody has to call setup.
READY := $(VENV)/.ready

.PHONY: setup
setup: $(READY) ## .venv with the package and all pinned requirements

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.PHONY: requirements
requirements: ## pin requirements.in anew into requirements.txt
	$(PYTHON) -m venv build/pip-tools
	build/pip-tools/bin/pip install --quiet --disable-pip-version-check pip-tools
	build/pip-tools/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options --no-header \
	  --output-file requirements.txt requirements.in requirements-dev.in
