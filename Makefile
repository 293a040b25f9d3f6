# The usual tasks by name; each one first does what it needs, so that any of them works on a fresh machine.
# CMake does the building: see CMakeLists.txt and CMakePresets.json.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format) clang-format)
CLANG_TIDY ?= clang-tidy

# Read when a recipe runs, that is, after setup has written them.
torch_dir = $(shell cat .setup/torch_dir)
python = $(shell cat .setup/python)
sources = $(wildcard $(shell git ls-files '*.cc' '*.h'))
new_sources = $(shell git ls-files --others --exclude-standard '*.cc' '*.h')

.DEFAULT_GOAL := help
.PHONY: help setup build demo test bench docs fuzz format format-check tidy clean

help:
	@echo 'Saccade: attention mechanisms as short formulas'
	@echo
	@echo '  make test          set up, build and run every test'
	@echo '  make demo          set up, build, and do everything once on built-in data (runs/demo/report.html)'
	@echo '  make build         the program, at build/saccade'
	@echo '  make bench         measure speed and memory'
	@echo '  make docs          the reference of the C++ headers, at build/docs/html (where doxygen is installed)'
	@echo '  make fuzz          feed the readers of formulas, weights, tokenizers and data a million wrong ones each, with sanitizers'
	@echo '  make setup         install what is missing: system packages and LibTorch'
	@echo '  make format        lay out the sources by the rules; format-check only looks'
	@echo '  make tidy          static checks of the rungs without LibTorch'
	@echo '  make clean         delete what was built'
	@echo
	@echo 'JOBS=n compiles n files at once (now $(JOBS)); TORCH_DIR=path uses the LibTorch there.'

setup:
	@scripts/setup

# Configuring an unchanged tree takes a second and rebuilds nothing.
build: setup
	@cmake --preset release "-DTORCH_DIR=$(torch_dir)" "-DPython3_EXECUTABLE=$(python)" --log-level=WARNING
	@cmake --build --preset release --parallel $(JOBS)

demo: build
	@build/saccade demo

test: build
	@ctest --preset release --parallel $$(($(JOBS) + 1))  # some tests wait for what they have started

bench: build
	@build/saccade bench

docs:
	@if command -v doxygen >/dev/null; then \
	  mkdir -p build/docs && doxygen docs/Doxyfile && echo 'build/docs/html/index.html'; \
	else \
	  echo 'make docs: doxygen is not installed, so there is nothing to do; docs/ can be read as it is'; \
	fi

fuzz:
	@scripts/setup --without-torch
	@cmake --preset asan --log-level=WARNING
	@cmake --build --preset asan --parallel $(JOBS) --target formula_fuzz weights_fuzz text_fuzz data_fuzz
	@build-asan/formula_fuzz --iterations 1000000
	@build-asan/weights_fuzz --iterations 1000000
	@build-asan/text_fuzz --iterations 1000000
	@build-asan/data_fuzz --iterations 1000000

format:
	@$(CLANG_FORMAT) -i $(sources) $(new_sources)

format-check:
	@$(CLANG_FORMAT) --dry-run --Werror $(sources)

tidy: build
	@printf '%s\n' $(filter src/saccade/base/% src/saccade/formula/% src/saccade/weights/% src/saccade/text/% src/saccade/data/%,$(filter-out %_test.cc %.h,$(sources))) | \
	  xargs -P $(JOBS) -n 1 $(CLANG_TIDY) --quiet -p build 2>/dev/null  # where it only counts hidden warnings

clean:
	@rm -rf build build-debug build-asan
