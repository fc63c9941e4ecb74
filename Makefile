# `make demo` and `make test` do everything from a fresh clone on: system packages (Debian and its
# family), a virtual environment, the build, the run. Each step leaves a stamp, so that a second
# run starts where something changed. `make help` lists the targets.
#
#   PYTHON    the interpreter that makes the virtual environment, 3.11 or later
#   VENV      where that environment is
#   TORCH     what pip installs as PyTorch. Where the default brings a CUDA build that is not
#             wanted, add the CPU index: make test TORCH="torch==2.13.0 --index-url ..."
#   JOBS      compilers and test processes at once
#   TESTS     quick or all: whether the tests that are marked slow run too
#   PART      with TESTS=all, K/N: of the slow ones only the Kth of N parts
#   MINUTES   how long `make fuzz` runs
#   CAFFE2    where the environment is that has Caffe2, for `make test-caffe2`

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
JOBS ?= $(shell nproc)
TESTS ?= quick
PART ?=
CAFFE2 ?= .venv-caffe2

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help demo test test-cpp test-caffe2 fuzz wheel lint format asan clean build planted-bugs

BIN := $(VENV)/bin
APT := g++ cmake ninja-build libisl-dev libgmp-dev protobuf-compiler libprotobuf-dev \
       python3-venv python3-dev
export TC_BUILD_DIR := $(CURDIR)/build/cmake
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

BUILD_FILES := setup.py pyproject.toml
CPP_SOURCES := $(shell find csrc -type f)
CPP_TESTS := $(shell find tests/cpp tests/emulator -type f 2>/dev/null)
PYTHON_SOURCES := $(shell find tensor_comprehensions -name '*.py' 2>/dev/null)
OPS := $(wildcard ops/*.tc)
C_FAMILY := $(shell find csrc tests examples -name '*.c' -o -name '*.cpp' -o -name '*.h' \
              -o -name '*.hpp')

help:
	@echo "make demo    train a small network whose layers are TC texts, beside the same in torch.nn"
	@echo "make test    build, then run the C++ and the Python tests; TESTS=all for the slow ones too"
	@echo "make test-caffe2    the operators for Caffe2, in an environment that is made (2 GB)"
	@echo "make fuzz    new random programs, for MINUTES=10"
	@echo "make wheel   a wheel in dist/"
	@echo "make lint    ruff, clang-format and the formatter of ops/*.tc; make format changes files"
	@echo "make asan    the core under AddressSanitizer and UBSan: C++ tests, C and C++ examples"
	@echo "make planted-bugs    plant the bugs of tests/planted_bugs in a copy, see which test finds each"
	@echo "make clean   remove what was built; the virtual environment stays"

# ---- what the machine needs

# Looked at again where this file changed, since it may need more.
build/.system: Makefile
	@mkdir -p build
	@present() { \
	  for tool in g++ cmake ninja protoc; do command -v $$tool >/dev/null || return 1; done; \
	  for library in libisl.a libgmp.a libprotobuf-lite.so; do \
	    test "$$(g++ -print-file-name=$$library)" != $$library || return 1; done; \
	  for header in isl/ctx.h google/protobuf/message_lite.h; do \
	    echo "#include <$$header>" | g++ -x c++ -fsyntax-only - 2>/dev/null || return 1; done; \
	  $(PYTHON) -c 'import ensurepip, os, sysconfig, sys; \
	    path = os.path.join(sysconfig.get_paths()["include"], "Python.h"); \
	    sys.exit(not os.path.exists(path))' 2>/dev/null; }; \
	if ! present; then \
	  command -v apt-get >/dev/null || \
	    { echo "install the equivalents of: $(APT)" >&2; exit 1; }; \
	  as_root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  echo "installing $(APT)"; \
	  $$as_root apt-get update -qq; \
	  $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	    --no-install-recommends $(APT) >build/apt.log 2>&1 || { cat build/apt.log >&2; exit 1; }; \
	fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: make PYTHON=..." >&2; exit 1; }
	@touch $@

# torch comes first and alone: the binding is built against it, and nothing may replace it later.
$(VENV)/.torch: | build/.system
	@echo "making $(VENV) with $(TORCH)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q $(TORCH)
	@$(BIN)/pip install -q "setuptools>=77" wheel "halide==21.*" numpy
	@touch $@

$(VENV)/.installed: $(VENV)/.torch $(BUILD_FILES) $(CPP_SOURCES)
	@echo "building"
	@$(BIN)/pip install -q --no-build-isolation --editable '.[demo,test]'
	@touch $@

build: $(VENV)/.installed

# ---- what one does with it

demo: build
	@$(BIN)/python examples/digits.py

build/.cpp-tests: $(VENV)/.installed $(CPP_TESTS)
	@cmake -S csrc -B $(TC_BUILD_DIR) -DTC_BUILD_TESTS=ON >build/cpp-tests.log
	@cmake --build $(TC_BUILD_DIR) >>build/cpp-tests.log || { cat build/cpp-tests.log; exit 1; }
	@touch $@

test-cpp: build/.cpp-tests
	@ctest --test-dir $(TC_BUILD_DIR) --output-on-failure -j $(JOBS)

# Caffe2 has a Python of its own, 3.9. Where that cannot be had there is nothing to test, which must
# not pass unnoticed; everything else that fails is a failure.
test-caffe2: $(VENV)/.installed
	@set +e; \
	library=$$($(BIN)/python -m tensor_comprehensions caffe2-build --environment $(CAFFE2) \
	  --output build/caffe2); \
	status=$$?; set -e; \
	if [ $$status = 3 ]; then \
	  line="#########################################################################"; \
	  printf '%s\n' "" "$$line" \
	    "## The tests for Caffe2 are SKIPPED: no environment for it could be made ##" "$$line" ""; \
	  exit 0; \
	fi; \
	[ $$status = 0 ]; \
	$(CAFFE2)/bin/python -m pip install -q --disable-pip-version-check pytest==8.3.5; \
	TC_CAFFE2_LIBRARY="$$(tail -1 <<<"$$library")" TC_PYTHON=$(CURDIR)/$(BIN)/python \
	  $(CAFFE2)/bin/python -W ignore -m pytest -c tests/caffe2/pytest.ini -q tests/caffe2

# What make test leaves out: the tests marked slow (docs/testing.md says which those are).
SELECTION_quick := -m "not slow"
SELECTION_all := $(if $(PART),--slow-part $(PART))
ifeq ($(filter quick all,$(TESTS)),)
$(error TESTS=$(TESTS), but it is quick or all)
endif

# pytest comes last: its closing line says how the tests went. Every process has a stretch of
# neighbouring tests, which often need the same kernels, and takes from the others' at the end.
test: build/.cpp-tests dist/.wheel
	@ctest --test-dir $(TC_BUILD_DIR) --output-on-failure -j $(JOBS)
	@TC_WHEEL="$$(ls dist/*.whl)" $(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
	  $(SELECTION_$(TESTS)) tests

MINUTES ?= 10
fuzz: build
	@$(BIN)/python tests/fuzz/run.py --minutes $(MINUTES) --jobs $(JOBS)

wheel: dist/.wheel
	@ls dist/*.whl

# build/lib is setuptools' own copy, in which files that no longer exist would stay.
dist/.wheel: $(VENV)/.installed $(PYTHON_SOURCES) $(OPS) README.md
	@rm -rf dist build/lib* build/bdist*
	@$(BIN)/pip wheel -q --no-build-isolation --no-deps -w dist .
	@touch $@

asan: $(VENV)/.installed
	@cmake -S csrc -B build/asan -G Ninja -DPython3_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	  -DCMAKE_BUILD_TYPE=Debug -DTC_SANITIZE=address,undefined \
	  -DTC_BUILD_TORCH=OFF -DTC_BUILD_TESTS=ON >/dev/null
	@cmake --build build/asan
	@export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1; \
	flags="-g -fsanitize=address,undefined -I csrc/include -L build/asan -Wl,-rpath,build/asan"; \
	gcc -std=c11 examples/matmul.c $$flags -ltensor_comprehensions -lm -o build/asan/matmul; \
	g++ -std=c++17 examples/convolution.cpp $$flags -ltensor_comprehensions \
	  -o build/asan/convolution; \
	build/asan/matmul; build/asan/convolution; \
	ctest --test-dir build/asan --output-on-failure -j $(JOBS)

# BUGS: names of patches without .patch, for some of them.
planted-bugs: build
	@$(BIN)/python tests/planted_bugs/run.py $(BUGS)

$(VENV)/.lint: $(VENV)/.torch
	@$(BIN)/pip install -q ruff
	@touch $@

lint: $(VENV)/.lint $(VENV)/.installed
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@command -v clang-format >/dev/null || { echo "install clang-format" >&2; exit 1; }
	@clang-format --dry-run --Werror $(C_FAMILY)
	@$(BIN)/python -m tensor_comprehensions fmt --check $(OPS)

format: $(VENV)/.lint $(VENV)/.installed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@clang-format -i $(C_FAMILY)
	@$(BIN)/python -m tensor_comprehensions fmt $(OPS)

clean:
	rm -rf build dist demo_output *.egg-info $(VENV)/.installed
	rm -rf tensor_comprehensions/lib tensor_comprehensions/include tensor_comprehensions/_torch*.so
