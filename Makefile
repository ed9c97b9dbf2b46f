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
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3")'
	@echo 'installing the pinned requirements into $(VENV), once'
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: requirements
requirements: ## pin requirements.in anew into requirements.txt
	$(PYTHON) -m venv build/pip-tools
	build/pip-tools/bin/pip install --quiet --disable-pip-version-check pip-tools
	build/pip-tools/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options --no-header \
	  --output-file requirements.txt requirements.in requirements-dev.in

# The everyday commands. ARGS hands further flags through: make up ARGS='--nodes 3'
.PHONY: demo up down status deploy logs logs-sidecar update-rego force-update-rego rotate-token eval verify integration test settings tools

demo: $(READY) ## see the main job on a real API server, from nothing
	$(FAIRLEAD) demo $(ARGS)

up: $(READY) ## start a cluster that places pods
	$(FAIRLEAD) up $(ARGS)

down: $(READY) ## end it
	$(FAIRLEAD) down $(ARGS)

status: $(READY) ## what runs and what it serves
	$(FAIRLEAD) status $(ARGS)

deploy: $(READY) ## bring a running cluster to what fairlead.yaml says
	$(FAIRLEAD) deploy $(ARGS)

logs: $(READY) ## the log of OPA
	$(FAIRLEAD) logs opa $(ARGS)

logs-sidecar: $(READY) ## the log of its sidecar
	$(FAIRLEAD) logs sidecar $(ARGS)

update-rego: $(READY) ## test the policies and push them into a running cluster
	$(FAIRLEAD) push $(ARGS)

force-update-rego: $(READY) ## the same, and restart OPA and the sidecar
	$(FAIRLEAD) push --restart $(ARGS)

rotate-token: $(READY) ## replace the token of OPA's API, without a refused request
	$(FAIRLEAD) rotate token $(ARGS)

FILE ?= testdata/review.json
eval: $(READY) ## the decision for one review or manifest: make eval FILE=...
	$(FAIRLEAD) eval $(FILE) $(ARGS)

verify: $(READY) ## every conformance case on every engine
	$(FAIRLEAD) verify $(ARGS)

integration: verify ## the same

.PHONY: chaos
chaos: $(READY) ## ten minutes in which everything breaks under load: make chaos ARGS='--seconds 60 --seed 1'
	$(FAIRLEAD) chaos $(ARGS)

.PHONY: figures
figures: $(READY) ## how fast it heals, into bench/resilience.json: make figures ARGS='--only kills'
	$(VENV)/bin/python bench/recovery.py $(ARGS)

test: $(READY) ## check, lint and test all of it
	$(FAIRLEAD) test $(ARGS)

settings: $(READY) ## the settings in force
	$(FAIRLEAD) settings $(ARGS)

tools: $(READY) ## the programs that Fairlead runs, and where they are
	$(FAIRLEAD) tools $(ARGS)

.PHONY: pictures
pictures: $(READY) ## capture the README's terminal picture anew
	$(VENV)/bin/python tools/capture.py docs/demo.svg 'make demo' $(FAIRLEAD) demo
