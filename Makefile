# Everything a fresh machine needs: Python 3.11 or later, git and make. The rest goes into .venv.
ifeq ($(wildcard toolcall_pipeline/middlewares/__init__.py),)
$(error toolcall_pipeline and pipeline/middlewares are text files in this checkout, not links: \
	run `git config core.symlinks true && git checkout -- toolcall_pipeline pipeline/middlewares`)
endif
BIN := .venv/bin
WHEN_STALE := pyproject.toml make/environments.txt
PYTEST = $(BIN)/pytest -n auto --dist worksteal --durations=10

# CI and some machines have it set; each child process of a test would compile the package anew, for 0.3 s.
unexport PYTHONDONTWRITEBYTECODE

# $(call timed,name,commands): run them, and print how long they took, also where they fail.
define timed
@start=$$(date +%s); ( $(2) ); code=$$?; echo "$(1): $$(($$(date +%s) - start)) s"; exit $$code
endef

.PHONY: help demo test test-all matrix bench site release clean

demo: .venv/demo  ## a conversation full of the mistakes that models make
	$(BIN)/toolcall demo $(ARGS)

test: lint types unit  ## lint, types and tests, each with its time, without the long tests

test-all: .venv/dev  ## what make test leaves out: long tests, all examples of the properties, the tests of the benchmarks
	$(call timed,long tests,$(PYTEST) -m "long or hypothesis" tests $(ARGS))
	$(call timed,tests of the benchmarks,$(PYTEST) --dist loadfile benchmarks/tests $(ARGS))

matrix:  ## the tests on each Python, with the newest and the lowest dependencies; ARGS="3.13-newest --core"
	make/matrix $(ARGS)

bench: .venv/dev  ## what a call costs, as ratios to a hand-written loop and to bare spans
	$(BIN)/python -m benchmarks.overhead $(ARGS)

site: .venv-site/done  ## the guides and a reference of all public names as a site, into build/site; ARGS=html: to read from the disk
	$(call timed,site,.site/build $(ARGS))

release: .venv/dev  ## URL=https://… CONTACT=…: build, check, and run the tutorial with the wheel; nothing is published
	URL="$(URL)" CONTACT="$(CONTACT)" make/release

help:  ## this list; make checks: all other targets
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/\1\t\2/p' Makefile | expand -t 18

clean:
	rm -rf .venv .venv-* build dist

include make/checks.mk

# The one recipe for all environments; environments.txt has what is in each.
.venv/dev .venv/demo: .venv/%: $(WHEN_STALE)
	make/environment $*

.venv-%/done: $(WHEN_STALE)
	make/environment $*
