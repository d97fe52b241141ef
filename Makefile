# The verbs of this project. `make run` is all a new user needs; `make check test escape` is what CI calls.

PYTHON ?= python3
export PYTHON
export SANDCELL_DATA_DIR ?= $(CURDIR)/.sandcell
SANDCELL := .venv/bin/sandcell
# Where this is set (images of CI set it), each of the hundreds of processes of a test run would compile its modules.
unexport PYTHONDONTWRITEBYTECODE
# Sandboxes need root: their mounts, their user namespaces, their control groups.
SUDO := $(if $(filter 0,$(shell id -u)),,scripts/as-root)

# Shares tests out between processes (tests/conftest.py says how): each waits for sandboxes, kills and deadlines half of
# the time and more, so three keep a processor busy. Attempts to escape take memory up to its limits: fewer of those.
# `make test` keeps the order of the folders, so that the many short modules of tests/unit come last.
WORKERS ?= 6
escape: WORKERS = 4
SHARED = --progress --numprocesses $(WORKERS) --dist loadscope
# Which cases of large matrices `make test` draws (tests/sampling.py): the same for the same commit.
SEED ?= $(or $(shell git rev-parse --short HEAD 2>/dev/null),0)

.PHONY: run demo test retest coverage escape test-data test-long kubernetes-trial check types lint docs console format bench image

run: ## install what is missing and start the service in the foreground
	@scripts/install service
	@$(SUDO) $(SANDCELL) doctor --host-only
	@$(SUDO) $(SANDCELL) environments build python
	@$(SUDO) $(SANDCELL) serve

demo: ## run the example analysis against the running service
	@scripts/install service
	@.venv/bin/python examples/flights/run.py

# Beside the image pytest rewrites the modules of tests, once: otherwise each worker would rewrite all of them for itself.
test: ## every test but the escape corpus and the long ones
	@scripts/install dev
	@.venv/bin/python -m pytest --collect-only -qq >/dev/null 2>&1 & $(SUDO) $(SANDCELL) environments build python && wait
	$(SUDO) .venv/bin/python -m pytest -m "not long and not corpus" --sample=$(SEED) $(SHARED) --no-loadscope-reorder

retest: ## the tests that failed in the last `make test`, if they are few, once more and alone: CI's second look
	@$(SUDO) .venv/bin/python scripts/retest

coverage: ## what `make test` runs, with branch coverage measured and printed; nothing is demanded of it
	@scripts/install dev
	@$(SUDO) $(SANDCELL) environments build python
	$(SUDO) .venv/bin/python scripts/coverage -m "not long and not corpus" --sample=$(SEED) $(SHARED) --no-loadscope-reorder

escape: ## the escape corpus: every attempt to get out of a session, under runc and, a part of those in a second session drawn, under gVisor's runsc
	@scripts/install dev
	@$(SUDO) $(SANDCELL) environments build python
	$(SUDO) .venv/bin/python -m pytest -q -m corpus -k "not runsc-" $(SHARED) --durations=5
	$(SUDO) .venv/bin/python -m pytest -q -m corpus -k "runsc-" --sample=$(SEED) $(SHARED) --durations=5

test-data: ## every library of the image `data` in a sandbox; builds the image first, and writes down what was tried
	@scripts/install dev
	@$(SUDO) $(SANDCELL) environments build data
	$(SUDO) .venv/bin/python -m pytest --progress tests/integration/environments/data
	@.venv/bin/python scripts/data_image.py record

test-long: ## the soaks and full-size runs, and every case of the matrices of which `make test` runs a sample
	@scripts/install long
	@$(SUDO) $(SANDCELL) environments build python
	@$(SUDO) $(SANDCELL) environments build data
	$(SUDO) .venv/bin/python -m pytest --progress -m "long or sample"

kubernetes-trial: ## sessions in pods of a cluster that it starts and ends, what can happen to them, two gateways; SANDCELL_KUBERNETES names the cluster's scripts
	@scripts/install kubernetes $(if $(IF_POSSIBLE),|| true)
	@$(SUDO) env -u SANDCELL_KUBERNETES $(SANDCELL) environments build python
	$(SUDO) .venv/bin/python -m tests.kubernetes_trial $(if $(FULL),--full) $(if $(IF_POSSIBLE),--if-possible) \
		&& .venv/bin/python scripts/kubernetes_trial.py record || [ $$? = 75 ]

check: ## format, lint, types, import contracts, declared packages, the tables of the docs, the docs site
	@scripts/install dev
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target types lint

# The two halves of `make check`, side by side: mypy takes as long as all else.
types:
	.venv/bin/mypy

lint:
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	.venv/bin/deptry --no-ansi .
	cd client && ../.venv/bin/deptry --no-ansi sandcell
	.venv/bin/python scripts/docs.py --check
	.venv/bin/python scripts/lock --check
	@$(MAKE) --no-print-directory docs

docs: ## the docs site, into .site/: open .site/index.html
	@scripts/install dev
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict

console: ## the console's pages, out of console/; who changes them commits what this writes
	@scripts/install console
	cd console && npm ci --ignore-scripts --no-audit --no-fund && npm run build
	.venv/bin/python scripts/console.py record

format:
	@scripts/install dev
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: ## the figures of docs/explanation/figures.md, as ratios measured in one run
	@scripts/install long
	@$(SUDO) $(SANDCELL) environments build python
	$(SUDO) .venv/bin/python -m benchmarks --plot docs/images/live-sessions.png

image: ## the service's image and the kernel image, with podman, docker or buildah
	scripts/image
