# A thin front: each target is one command of `fairlead`, or of the laboratory (lab/). `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help
PYTHON ?= python3
VENV ?= .venv
FAIRLEAD := $(VENV)/bin/fairlead
LAB := $(VENV)/bin/python -m lab

# Names and descriptions in two columns of a terminal of 80 columns.
TWO_COLUMNS := awk -F '\t' '{ \
  row = sprintf("%-19s", $$1); n = split($$2, words, " "); \
  for (i = 1; i <= n; i++) { \
    if (length(row " " words[i]) > 80) { print row; row = sprintf("%-19s", "") } \
    row = row " " words[i] \
  } \
  print row }'

help: ## list the targets, and the variables that choose a cluster and images
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | $(TWO_COLUMNS)
	@printf '\nVariables, from the environment or as in `make kind-start KIND_CLUSTER_NAME=me`:\n'
	@sed -nE 's/^# ([A-Z_]+): /\1\t/p' $(MAKEFILE_LIST) | $(TWO_COLUMNS)

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
requirements: ## pin requirements.in again into requirements.txt
	$(PYTHON) -m venv build/pip-tools
	build/pip-tools/bin/pip install --quiet --disable-pip-version-check pip-tools
	build/pip-tools/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options --no-header \
	  --output-file requirements.txt requirements.in requirements-dev.in

# The everyday commands. ARGS hands further flags through: make up ARGS='--nodes 3'
.PHONY: demo demo-federation demo-access up down status deploy logs logs-sidecar update-rego force-update-rego rotate-token eval verify integration test

demo: $(READY) ## see on a real API server where pods land and which are refused
	$(FAIRLEAD) demo $(ARGS)

demo-federation: $(READY) ## see applications placed over clusters, and what moves when one loses a certification
	$(FAIRLEAD) demo --federation $(ARGS)

demo-access: $(READY) ## see a grant of 20 s, and what its subject may do at each second
	$(FAIRLEAD) access demo $(ARGS)

up: $(READY) ## start a local cluster with Fairlead installed
	$(FAIRLEAD) up $(ARGS)

down: $(READY) ## stop it
	$(FAIRLEAD) down $(ARGS)

status: $(READY) ## show what runs and which policies are in force
	$(FAIRLEAD) status $(ARGS)

deploy: $(READY) ## apply fairlead.yaml to a running cluster
	$(FAIRLEAD) deploy $(ARGS)

logs: $(READY) ## show the log of OPA
	$(FAIRLEAD) logs opa $(ARGS)

logs-sidecar: $(READY) ## show the log of its sidecar
	$(FAIRLEAD) logs sidecar $(ARGS)

update-rego: $(READY) ## test the policies and push them into a running cluster
	$(FAIRLEAD) push $(ARGS)

force-update-rego: $(READY) ## the same, and restart OPA and the sidecar
	$(FAIRLEAD) push --restart $(ARGS)

rotate-token: $(READY) ## replace the token of OPA's API, without a refused request
	$(FAIRLEAD) rotate token $(ARGS)

FILE ?= testdata/review.json
eval: $(READY) ## show the decision for one review or manifest: make eval FILE=...
	$(FAIRLEAD) eval $(FILE) $(ARGS)

verify: $(READY) ## run every conformance case on every engine
	$(FAIRLEAD) verify $(ARGS)

integration: $(READY) ## the same; in a KIND or existing cluster, all integration tests there
	$(if $(filter embedded,$(FAIRLEAD_CLUSTER)),$(FAIRLEAD) verify,$(LAB) e2e) $(ARGS)

.PHONY: chaos
chaos: $(READY) ## break every component under load for ten minutes: make chaos ARGS='--seconds 60 --seed 1'
	$(LAB) chaos $(ARGS)

.PHONY: fuzz
fuzz: $(READY) ## send odd requests, malformed reviews and load to OPA: make fuzz ARGS='guard --seed 1'
	$(LAB) fuzz $(ARGS)

.PHONY: bench
bench: $(READY) ## measure Fairlead and its peers side by side, into bench/results.json: make bench ARGS=--quick
	$(LAB) bench $(ARGS)

.PHONY: scale
scale: $(READY) ## place 20,000 pods in one cluster, into bench/scale.json with a picture: make scale ARGS='--pods 200 --namespaces 50 --nodes 10'
	$(LAB) scale $(ARGS)

test: $(READY) ## check, lint and test, without what `make test-all` adds: about half an hour on two cores
	$(FAIRLEAD) test $(ARGS)

.PHONY: test-all
test-all: $(READY) ## the same with the laboratory, all conformance cases, image, KIND and toolchain: up to two hours
	$(LAB) test --all $(ARGS)

# By hand, in a KIND cluster: docs/kind.md. fairlead itself reads these variables:
#
# FAIRLEAD_CLUSTER: embedded, kind or context (default: kind if only kind-start made a cluster here, else embedded)
# KIND_CLUSTER_NAME: name of the KIND cluster (fairlead)
# KIND_CONFIG: its configuration (integration/kind.yaml)
# KIND_NODE_IMAGE: image of its nodes (kindest/node:v1.36.4)
# OPA_IMAGE: image of OPA with Fairlead's plugin, which `make image` builds (images.opa of fairlead.yaml)
# KUBE_MGMT_IMAGE: image of the sidecar kube-mgmt (images.kubeMgmt)
# FAIRLEAD_IMAGE: image of the sidecar sync, which `make image` builds (images.fairlead)
# IMAGE_PULL_POLICY: IfNotPresent (default), Always or Never (images.pullPolicy)
# BASE_IMAGE: image to build on (debian:bookworm-slim)
.PHONY: kind-start kind-deploy kind-stop

MADE := $(if $(wildcard .fairlead/fairlead),,$(wildcard .fairlead/kind-$(or $(KIND_CLUSTER_NAME),fairlead)/containers.json))
status deploy logs logs-sidecar update-rego force-update-rego rotate-token integration: \
  export FAIRLEAD_CLUSTER ?= $(if $(MADE),kind,embedded)

kind-start: $(READY) ## create a KIND cluster, and load the images into it
	$(FAIRLEAD) up --cluster kind --no-deploy $(ARGS)

kind-deploy: $(READY) ## the same, and deploy OPA, its sidecar, the policies and the webhook
	$(FAIRLEAD) up --cluster kind $(ARGS)

kind-stop: $(READY) ## remove it
	$(FAIRLEAD) down --cluster kind $(ARGS)

.PHONY: image docker-e2e
image: $(READY) ## build the image of OPA and its sidecar
	$(FAIRLEAD) image $(ARGS)

docker-e2e: $(READY) ## run the end-to-end tests in the devcontainer's image: FAIRLEAD_CLUSTER=kind (default) or embedded
	$(LAB) docker-e2e $(ARGS)

.PHONY: generate
generate: $(READY) ## write what is made from policies, settings and cases again: pages, tables, golden files, the kustomize base
	$(FAIRLEAD) generate --policies policies
	$(LAB) generate $(ARGS)
	$(FAIRLEAD) render --kustomize integration/kustomize
