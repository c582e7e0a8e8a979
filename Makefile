# A few verbs; `make` alone lists them. Every verb sets up what it needs, from the lock file, into .venv.

SHELL = /bin/sh
uv = scripts/uv
run = $(uv) run --locked

.DEFAULT_GOAL = help
.PHONY: help demo test lint bench setup cluster cluster-down cluster-programs

help: ## list the verbs
	@printf '%s\n' 'make VERB' ''
	@sed -n 's/^\([a-z-]*\):.*## /  \1|/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r verb text; do \
		printf '  %-18s %s\n' "$$verb" "$$text"; done
	@printf '%s\n' '' 'Options: KEEP=1 (demo), REQUIRE=all, ARGS="…" for pytest, CLUSTER=no (test). More: README.md, docs/testing.md'

demo: ## run both services on an embedded cluster of simulated GPU machines; KEEP=1 leaves it running
	$(uv) sync --locked --no-dev --inexact --quiet
	$(uv) run --no-sync nicrails-faker demo $(if $(KEEP),--keep)

test: setup ## run every test that this machine can run and list the others; REQUIRE=all fails for these
ifneq ($(CLUSTER),no)
	@PYTHON=.venv/bin/python scripts/control-plane prepare
endif
	$(run) pytest $(ARGS)

lint: setup ## check style, types and layers
	@failed=; for check in 'ruff check' 'ruff format --check' mypy lint-imports; do \
		echo "$$check"; $(run) $$check || failed="$$failed, $$check"; done; \
	[ -z "$$failed" ] || { echo "failed: $${failed#, }" >&2; exit 1; }

bench: setup ## measure size and speed: a table, and JSON
	$(run) python -m bench $(ARGS)

cluster: setup ## start a real two-node cluster with the chart installed (root, Docker), leave it up, say what to type next
	@PYTHON=.venv/bin/python scripts/control-plane prepare
	@$(run) python -m tests.e2e

cluster-down: ## end what `make cluster` started
	@$(run) python -m tests.e2e down

cluster-programs: setup ## build the programs of real clusters from their Go modules into the cache
	@PYTHON=.venv/bin/python scripts/control-plane build

setup: ## make .venv as the lock file says
	$(uv) sync --locked --quiet
