# Forebay: `make serve` runs it, `make test` checks all of it. Needs Python 3.11 or newer, and make.

# The first Python from 3.11 on; `make PYTHON=...` names another.
PYTHON ?= $(shell for found in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$found -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$found && break; done)
VENV   := .venv
BIN    := $(VENV)/bin

# Where it is set, each of the processes that tests start would compile the proxy's modules anew, and each of pytest's
# the tests: 0.4 s and 7 s of a core.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help serve demo test format lint types floors tests bench peers \
	clean bench-checkpoints bench-epochs bench-misses bench-scale bench-training bench-mounts bench-packs bench-clients browser promtool \
	soak crash failing-files faults clients clients-torch suites long listings forgery fuzz fuzz-guided \
	exhaustion slow-readers wheel

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

serve: $(VENV)/.proxy  ## serve: what FOREBAY_CONFIG or FOREBAY_ORIGIN__ENDPOINT say, else an embedded origin with sample data
	@exec $(BIN)/forebay serve

demo: $(VENV)/.proxy  ## read the sample data cold, warm and after a restart, with an origin 20 ms away
	@exec $(BIN)/forebay demo

test: format lint types floors tests  ## everything that must pass: formatting, lint, types, floors, tests

format: $(VENV)/.dev
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

floors: $(VENV)/.dev
	$(BIN)/lint-imports

# In one process more than there are cores, four at most, as tests wait now and then: each has an origin of its own. For one
# test, or a debugger, run pytest by itself.
PROCESSES ?= $(shell cores=$$(nproc); echo $$((cores < 3 ? cores + 1 : 4)))
tests: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal

bench: $(VENV)/.dev  ## the figures of the README, against nginx and Varnish where they are installed (make peers)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.figures

bench-epochs: $(VENV)/.dev  ## data sets larger than the cache, plans, recordings, listings; PARTS="shares plans" for some: an hour
	$(BIN)/python -m benchmarks epochs $(PARTS)
	$(BIN)/python -m benchmarks.figures

bench-checkpoints: $(VENV)/.dev clients-torch  ## checkpoints under write = "back", beside local files, the origin and writing through; PARTS="saves drain" for some: half an hour
	$(BIN)/python -m benchmarks checkpoints $(PARTS)
	$(BIN)/python -m benchmarks.figures

bench-mounts: $(VENV)/.dev clients-torch  ## epochs over rclone mount and s3fs-fuse, beside boto3 and forebay_client through Forebay and local files; checkpoint loads; PARTS="small" for some: some minutes
	@test -e /dev/fuse || echo "no mount is measured: there is no /dev/fuse"
	$(BIN)/python -m benchmarks mounts $(PARTS)

bench-packs: $(VENV)/.dev  ## small files as loose objects, as members of a pack and as local files, cold and warm: a minute
	$(BIN)/python -m benchmarks.packs.small_files 2000

bench-clients: $(VENV)/.dev clients-torch  ## client libraries reading what is cached: boto3, s3torchconnector, aiohttp, obstore and ours; PARTS="reads" for some: some minutes
	$(BIN)/python -m pip --python .clients/torch/bin/python install --quiet --disable-pip-version-check aiohttp==3.14.5 obstore==0.12.1
	$(BIN)/python -m benchmarks clients $(PARTS)
	$(BIN)/python -m benchmarks.figures

bench-misses: $(VENV)/.dev  ## what a miss and a warm-up of small objects cost, beside nginx and a bare loop: some minutes
	$(BIN)/python -m benchmarks misses

bench-scale: $(VENV)/.dev  ## filling the cache, and what a million blocks cost: some minutes, 10 GB of disk
	$(BIN)/python -m benchmarks scale

bench-training: $(VENV)/.dev clients-torch  ## epochs of a PyTorch DataLoader and boto3, direct, cold, warm and from files: some minutes
	$(BIN)/python -m benchmarks training
	$(BIN)/python -m benchmarks.figures

peers:  ## install what the benchmarks compare with, and wrk, the load generator: from Debian (needs root)
	@.ci/apt-install nginx-light varnish wrk

browser:  ## install the browser that tests/security/test_browsers.py tries web pages in: from Debian (needs root)
	@.ci/apt-install chromium

promtool:  ## install promtool, with which tests/docs/test_alerts.py tries the alerts: from Debian (needs root)
	@.ci/apt-install prometheus

soak: $(VENV)/.dev  ## many clients at once against a failing origin and a damaged cache; SECONDS=600, WORKERS=4, SEED=7, ORIGIN=oss, SWITCHES="foreign kills"
	@PYTHONPATH=tests $(BIN)/python -m soak $(or $(SECONDS),60) $(or $(SEED),0) $(or $(WORKERS),1) $(or $(ORIGIN),s3) $(SWITCHES)

crash: $(VENV)/.dev  ## kills, power cuts and failing disks against the journal, at large: half an hour; SCALE=100 (10,000 random kills)
	FOREBAY_CRASH_SCALE=$(or $(SCALE),100) $(BIN)/python -m pytest --numprocesses auto --dist worksteal -m 'long or not long' \
		-o tmp_path_retention_policy=failed $(if $(BASETEMP),--basetemp=$(BASETEMP)) \
		tests/storage/journal tests/write/back/test_journal_check.py $(wildcard tests/scenarios/test_killed_*.py) tests/scenarios/test_power_cuts.py \
		$(wildcard tests/scenarios/test_write_back_*.py)

failing-files: $(VENV)/.dev  ## kills, failing calls, short writes and power cuts at the changes of files beside the journal: half an hour
	FOREBAY_CRASH_SCALE=10 $(BIN)/python -m pytest --numprocesses auto --dist worksteal \
		tests/scenarios/test_killed_files.py tests/scenarios/test_power_cuts.py

faults: $(VENV)/.dev  ## every fault of an origin under every operation, in every setting, into docs/faults.md; ROUNDS=3, SEED=7, WORKERS=4, FAMILIES=heads,bodies
	@PYTHONPATH=proxy:client:tests $(BIN)/python -m faults $(or $(ROUNDS),1) $(or $(SEED),0) $(or $(WORKERS),0) $(FAMILIES)

clients: $(VENV)/.python  ## install the S3 and OSS clients that the tests try, pinned, into .clients/ (as root, s3fs-fuse from Debian too)
	@PYTHONPATH=tests $(BIN)/python -m compat.installing

clients-torch: clients  ## the same, with those that need PyTorch, which is large
	@PYTHONPATH=tests $(BIN)/python -m compat.installing torch

suites: $(VENV)/.dev  ## S3 suites of others, against an origin alone and through Forebay, into docs/suites.md; ONLY="mc boto2" for some
	@PYTHONPATH=tests $(BIN)/python -m suites $(ONLY)

long: $(VENV)/.dev  ## the tests that `make test` leaves out, and more cases of the properties: a quarter of an hour on two cores
	$(BIN)/python -m pytest -m long --numprocesses auto --maxprocesses 4 --dist worksteal
	FOREBAY_SECURITY_SCALE=10 $(BIN)/python -m pytest --timeout 3600 --numprocesses auto --maxprocesses 4 tests/properties

listings: $(VENV)/.dev  ## 2,000 random listings and writes of each kind of origin, page by page against the origin's own: some minutes; QUERIES=500
	FOREBAY_LISTING_QUERIES=$(or $(QUERIES),2000) $(BIN)/python -m pytest --timeout 3600 tests/scenarios/test_listings_differential.py

# The generated tests of tests/security, with more cases than `make test` makes.
forgery: $(VENV)/.dev  ## a quarter of a million changes to signed requests, none of which may be let in, and every query by who may not read
	FOREBAY_SECURITY_SCALE=40 $(BIN)/python -m pytest --timeout 3600 tests/security/test_forgery.py tests/security/test_form_forgery.py \
		tests/security/test_authentication_matrix.py tests/security/test_hits_leak_nothing.py

fuzz: $(VENV)/.dev  ## over 200,000 made-up requests, parser by parser and through a whole Forebay, and 20,000 that are answered as the origin answers them; PROGRAMS=2000, SEED=7
	FOREBAY_SECURITY_SCALE=25 $(BIN)/python -m pytest --timeout 3600 $(wildcard tests/security/test_fuzz_*.py)
	FOREBAY_DIFFERENTIAL_SEEDS=$(or $(PROGRAMS),400) FOREBAY_DIFFERENTIAL_FIRST=$(or $(SEED),1) $(BIN)/python -m pytest --timeout 3600 tests/differential

fuzz-guided: $(VENV)/.dev  ## the same parsers, guided by coverage (installs atheris); RUNS=1000000 for longer
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	@for target in a_form a_head a_policy a_range a_request an_authorization an_oss_authorization an_oss_request aws_chunked conditions xml; do \
	  echo "$$target"; \
	  PYTHONPATH=tests $(BIN)/python -m security.coverage_guided $$target -runs=$(or $(RUNS),100000) -max_len=4096 -verbosity=0 || exit 1; \
	done

slow-readers: $(VENV)/.dev  ## 1,000 readers at a byte a second and 200 at 0.25 MB/s, each of a cold object, and one that is fast: some minutes
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.misses.slow_readers $(CRAWLING) $(PACED)

exhaustion: $(VENV)/.dev  ## slow clients, bombs, and 10,000 idle connections (raise the hard limit of open files for it)
	FOREBAY_IDLE_CONNECTIONS=10000 $(BIN)/python -m pytest --timeout 600 tests/security/test_exhaustion.py

wheel: $(VENV)/.python  ## build Forebay's wheel into dist/, to be installed as 'dist/forebay-VERSION-py3-none-any.whl[proxy]'
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/forebay-*.whl

clean:  ## remove what was built and cached here, the embedded origin's data included
	rm -rf $(VENV) dist .forebay .clients .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# A marker per set of extras: it is made again when the project's dependencies change.
$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "No Python from 3.11 on was found: install one, or say make PYTHON=/path/to/python ..."; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not installed: install Python 3.11 or newer, or say make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old: Forebay needs Python 3.11 or newer."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) can't make virtual environments: on Debian, apt install python3-venv."; exit 1; }
	@touch $@

$(VENV)/.proxy: $(VENV)/.python pyproject.toml
	@echo "installing Forebay and its embedded origin into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]' || { echo "pip failed. If it tried to compile something: install a compiler and Python's headers (on Debian: apt install gcc python3.11-dev), or use a Python for which wheels exist (3.11 to 3.13)."; exit 1; }
	@touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml
	@echo "installing Forebay and its development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' || { echo "pip failed: see above."; exit 1; }
	@touch $@ $(VENV)/.proxy
