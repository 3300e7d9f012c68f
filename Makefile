# Two commands do everything: `make demo` and `make test`. The others are the steps of these two.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
env := . dev/env.sh;
CLUSTER ?= dev
export CLUSTER

# Every call of cargo takes the whole workspace: with a part of it, cargo chooses other features for what the crates share, and builds
# half of the world once more.
.PHONY: help
help: ## List what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: demo
demo: image cluster-up ## A Galera group forms, loses everything, comes back from the freshest; then a policy is swapped in
	@$(env) dev/demo

.PHONY: test
test: check unit e2e ## Everything that CI runs
	@# Both wait most of the time, each for a cluster of its own.
	@$(MAKE) --no-print-directory -j2 -O e2e-nodes e2e-deploy

.PHONY: check
check: tools policies ## Format, lints, each crate alone, advisories
	@$(env) dev/check
	@deploy/test

.PHONY: unit
unit: policies ## Tests without a cluster
	@$(env) cargo test --workspace

.PHONY: e2e
e2e: image cluster-up ## Tests on a real Kubernetes, with the operator's image and rights
	@host/operator/tests/admission/run
	@deploy/check
	@$(env) KUBECONFIG=$$(dev/cluster kubeconfig) cargo test --workspace --test e2e -- --test-threads 4

.PHONY: e2e-nodes
e2e-nodes: image ## Tests that take nodes away, on a cluster of four of their own
	@CLUSTER=nodes NODES=4 dev/cluster up
	@$(env) export CLUSTER=nodes; KUBECONFIG=$$(dev/cluster kubeconfig) cargo test --workspace --test nodes -- --test-threads 1
	@CLUSTER=nodes dev/cluster down

.PHONY: e2e-deploy
e2e-deploy: image ## Install, upgrade and roll back with open intents, uninstall: the charts, on a cluster of their own
	@CLUSTER=helm dev/cluster up
	@PREVIOUS=$$(deploy/tests/previous --warm) CLUSTER=helm deploy/test cluster
	@CLUSTER=helm dev/cluster down

.PHONY: bench
bench: policies ## Decision and recovery times, beside their peers, as JSON and a table
	@$(env) dev/bench/run

.PHONY: chaos
chaos: image ## PostgreSQL loses its primary 20 times under clients that remember what was acknowledged, on a cluster of four of its own
	@dev/images postgres
	@CLUSTER=chaos NODES=4 dev/cluster up
	@$(env) CLUSTER=chaos dev/chaos
	@CLUSTER=chaos dev/cluster down

.PHONY: tools
tools: ## Install what a bare machine lacks
	@dev/tools

.PHONY: policies
policies: tools ## Build the policies into the target folder
	@$(env) policies/build.sh

.PHONY: image
image: policies ## Build the operator's image and those of the examples
	@$(env) dev/images

.PHONY: crds
crds: policies ## Write crds/ anew from the types
	@$(env) cargo run -q -p tanist -- crds > crds/replicagroups.tanist.dev.yaml.new && mv crds/replicagroups.tanist.dev.yaml.new crds/replicagroups.tanist.dev.yaml

.PHONY: cluster-up
cluster-up: tools ## Start a real Kubernetes on this machine (CLUSTER=name, NODES=n; CLUSTER=current: use yours)
	@dev/cluster up

.PHONY: cluster-down
cluster-down: ## Stop it and leave nothing behind
	@dev/cluster down
