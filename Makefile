# make run    starts the gateway on this machine
# make test   runs every test
# make help   lists the rest

MAKEFLAGS += --no-builtin-rules
SHELL     := bash -o pipefail

include Tools.mk

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 30s

.PHONY: run build
run: tools build ## start everything on one machine; ARGS="-c bardo.yaml" adds flags
	@exec bin/bardo up $(ARGS)

build: ## compile bin/bardo
	CGO_ENABLED=1 go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/bardo ./cmd/bardo
