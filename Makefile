# Two commands do everything: `make demo` and `make test`. The others are the steps of these two.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
env := . dev/env.sh;
CLUSTER ?= dev
export CLUSTER

# BUILT=1: everything is built; so parts that run side by side do not build the same at a time.
built := $(if $(BUILT),,build)

# Every call of cargo takes the whole workspace: with a part of it, cargo chooses other features for what the crates share, and builds
# half of the world once more.
.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: demo
demo: tools ## A Galera group forms, loses all members, comes back from the most recent data; then a policy is replaced
	@policies/build.sh sequence starlark
	@dev/images tanist register galera
	@dev/cluster up
	@$(env) dev/demo

# When the work began. CI has an end; then the commit chooses among the tests on clusters.
BEGAN := $(shell date +%s)
.PHONY: test
test: cluster-tests = dev/cluster-tests $(BEGAN)
test: test-all ## Everything that CI runs: all but some of the tests on clusters, of which each commit chooses as many as there is time for

.PHONY: test-all
cluster-tests ?= dev/cluster-tests
test-all: check build ## All tests
	@deploy/tests/previous >/dev/null
	@# Tests on clusters keep two processors busy. The others get what they leave.
	@dev/beside 'clusters: $(cluster-tests)' 'others: dev/behind $(MAKE) --no-print-directory BUILT=1 unit mutants-sample'

.PHONY: check
check: policies ## Format, lints, core and SDK alone, advisories, charts
	@dev/check
	@deploy/test

.PHONY: unit
unit: $(built) ## Tests without a cluster
	@$(env) cargo test --locked --workspace
	@examples/register/test

.PHONY: e2e
e2e: $(built) ## Tests on a real Kubernetes, with the operator's image and rights
	@dev/with-cluster e2e 1 dev/e2e/run

.PHONY: e2e-nodes
e2e-nodes: $(built) ## Tests that take nodes away, on a cluster of four
	@$(env) dev/with-cluster nodes 4 dev/until nodes 3 1

.PHONY: e2e-rollouts
e2e-rollouts: $(built) ## PostgreSQL, Galera and etcd get other templates under a client, while a node, pods and the operator are killed
	@dev/images postgres galera
	@$(env) dev/with-cluster rollouts 4 dev/until rollouts 1 1

.PHONY: e2e-deploy
e2e-deploy: $(built) ## Install, upgrade and roll back with open intents, uninstall: the charts
	@$(env) PREVIOUS=$$(deploy/tests/previous) && export PREVIOUS && \
		dev/with-cluster helm 1 dev/until deploy 1 1

.PHONY: sim
sim: ## Lives of simulated groups with faults: SEEDS of them, from SEED on; SEED alone repeats that one, SHRINK=1 with fewer faults. POINTS=n: stories stopped at one in n points
	@$(env) TANIST_SIM_SEED=$(or $(SEED),1) TANIST_SIM_SEEDS=$(or $(SEEDS),$(if $(SEED),1,1000)) TANIST_SIM_SHRINK=$(SHRINK) \
		$(if $(POINTS),TANIST_SIM_POINTS=$(POINTS)) cargo test --locked --profile sim -p tanist-sim --test sim -- --nocapture $(if $(POINTS),a_story,no_promise)

.PHONY: wire
wire: ## Executions over a real connection: FAULTS of them; SEED repeats one
	@$(env) $(if $(SEED),TANIST_WIRE_SEED=$(SEED)) TANIST_WIRE_FAULTS=$(or $(FAULTS),50000) cargo test --locked --workspace --test wire -- --nocapture

.PHONY: fuzz
fuzz: policies ## Search with one fuzz target, guided by coverage: TARGET=..., SECONDS=n (dev/fuzz/README.md)
	@dev/fuzz/run $(or $(TARGET),sequence) $(or $(SECONDS),180)

.PHONY: night
night: ## Five million lives in pieces, and a million faults on the wire. It goes on where it was stopped: by ~/.cache/tanist/night/stop, or at any time
	@$(env) mkdir -p "$$TANIST_CACHE/night" && rm -f "$$TANIST_CACHE/night/stop" && \
		TANIST_SIM_NIGHT="$$TANIST_CACHE/night/sums.json" TANIST_SIM_SEEDS=$(or $(SEEDS),5000000) \
		cargo test --locked --profile sim -p tanist-sim --test sim -- --nocapture --ignored a_night_of_lives
	@$(env) TANIST_WIRE_FAULTS=$(or $(FAULTS),1000000) cargo test --locked --workspace --test wire -- --nocapture

.PHONY: bench
bench: policies ## Decisions, recoveries and takeovers, beside their peers and the previous release: docs/benchmarks.md
	@$(env) dev/bench/run

.PHONY: chaos
chaos: policies ## PostgreSQL loses its primary 20 times under clients that remember what they were told, on a cluster of four of its own
	@dev/images tanist postgres
	@$(env) dev/with-cluster chaos 4 dev/chaos/run

.PHONY: chaos-updates
chaos-updates: policies ## The same while the template changes 12 times, to a broken image, too
	@dev/images tanist postgres
	@$(env) dev/with-cluster chaos 4 dev/chaos/run --updates 12

.PHONY: chaos-broken
chaos-broken: policies ## Operators with a rule disabled: the judge of chaos has to notice each
	@dev/images tanist postgres
	@$(env) dev/with-cluster chaos 4 dev/chaos/run --broken

.PHONY: examples
examples: policies ## The examples' own tests: their commands through the life of a group on this machine, and three on a cluster (some 15 minutes)
	@for each in examples/*/test docs/your-application/test; do echo "===== $$each"; "$$each"; done
	@dev/images tanist redis postgres postgres-both
	@dev/with-cluster examples 1 examples/redis/cluster-test
	@dev/with-cluster examples 1 examples/postgres/cluster-test
	@dev/with-cluster examples 1 docs/your-application/cluster-test

.PHONY: build
build: policies ## Build everything that the tests need, including the images of the operator, of the test application and of etcd
	@BUILD=all dev/images tanist register etcd

.PHONY: mutants
mutants: policies ## Disable every rule, one by one, and expect the tests to fail (one build for each crate; goes on where it ended)
	@failed=0; for crate in $$(dev/mutants --crates); do dev/mutants $$crate || failed=1; done; dev/mutants --random || failed=1; exit $$failed

.PHONY: mutants-sample
mutants-sample: ## Disable three rules, which the commit chooses
	@dev/mutants --sample 3

.PHONY: mutants-sim
mutants-sim: ## Known bugs against the simulator: the first seed that notices each (hours; goes on where it ended)
	@dev/mutants --sim

.PHONY: tools
tools: ## Install everything that is missing on a bare machine
	@dev/tools

.PHONY: policies
policies: tools ## Build the policies into the target folder
	@policies/build.sh

.PHONY: image
image: policies ## Build the images of the operator and of the test application
	@dev/images

.PHONY: crds
crds: policies ## Generate crds/ from the types
	@$(env) cargo run --locked -q -p tanist -- crds > crds/replicagroups.tanist.dev.yaml.new && mv crds/replicagroups.tanist.dev.yaml.new crds/replicagroups.tanist.dev.yaml

.PHONY: cluster-up
cluster-up: tools ## Start a real Kubernetes on this machine (CLUSTER=name, NODES=n; CLUSTER=current: use yours)
	@dev/cluster up

.PHONY: cluster-down
cluster-down: ## Stop it and leave nothing behind
	@dev/cluster down
