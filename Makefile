# make run    starts the gateway on this machine
# make test   runs every test
# make help   lists the rest

MAKEFLAGS += --no-builtin-rules --no-print-directory
SHELL     := bash -o pipefail

include Tools.mk

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BARDO    := $(CURDIR)/bin/bardo
MODULE   := $(CURDIR)/bin/libbardo.so
STAMP    := -X bardo.money/gateway/cmd/bardo/cli.Version=$(VERSION)
# More flags of the linker, for bin/bardo alone.
PROGRAM_LDFLAGS ?=
FUZZTIME ?= 30s
TIMEOUT  ?= 30m
# End-to-end tests of one package at once; two packages run at once. Most of them wait for something; with many more, two cores make each other's tests late.
PARALLEL ?= 6
RACE     ?=
# Flags by which gotestsum runs a failed end-to-end test again, such as --rerun-fails=1. Each failure is printed, whatever the second run says.
RERUN    ?=
# With data_path: module, make test runs these; make soak runs everything in both shapes.
IN_MODULE = ^Test(F04DecisionsAreInTheAuditLog|F05NothingOfWhatIsSaidIsWritten|E03AKeySeesItsInferences|E03WhoMayReadEvents|OperatorsAreToldOfSpending|F04WhatAKilledGatewayLeavesIsSound|E04ACollectorGetsBothAttemptsOfAFailover|R28DreamsAreAnsweredInBatchesAtHalfThePrice|R28ARestartInTheMiddleLosesNothing|FiveHundredStreams|AnEnvoyThatDiesIsReplaced|EnvoyDiesWithItsParent|AStartAndItsFiles|Drain|D3AReloadDoesNotWaitForAReaderOfEvents|ASingleProviderIsTriedTwice|K56TheCallersOwnMistakesAreNotRetried|ARefusedStreamFailsOver|TheRecordOfARefusedConnection|PrepaidKeysPayInAdvance|D81MeteringHoldsWhateverHappens|D82ChargesThatWaitOutliveAKill|KilledUnderLoad|RequestsControlTheCache|K60TwoKeysNeverShare|AHitCostsNothing|AClientThatLeavesAStoredStream|AnUploadThatItsClientLeavesCountsAsLeft|AStrictSchemaIsTheClientsWord|K63HundredOfHundred|C2AWrongProviderKeyShowsBehindAFailover|OddClients|F02WhatIsFlaggedIsInTheHeaders|F03ACallThatARuleForbidsIsRemoved|K69InjectionsAreBlocked|K69WhatIsBlockedDoesNotReachAProvider|C09ToolsAreFoundInsideTheGateway|C10ALongConversationIsSummarisedByACheapModel|B08AHookLooksAtRequests|B08AHookLooksAtAnswers|C04AQuestionInOtherWordsIsAnsweredFromTheStore|C16ASessionLimitsWhatItsRequestsUseAndSpend|B15TheModelFetchesBackWhatWasLeftOut|SavingsCountWhatHappened|TheOutputOfADeferredAnswerCountsInTheHour|B07TheDashboardIsBehindEnvoy|X04TheGatewayPaysItsProviderPerCall|X05ReputationLowersTheSpread|X05AWalletHasTheSpreadOfItsAgent|X06ADelegateOfAnAgentIsServed|Pitfall27And28HeadersStayWhereTheyBelong|P11WithTooLittleCreditVeniceIsNotUsed|P06TheProvidersLegCarriesCiphertextAlone|P06AnAnswerThatIsNotForThisRequestIsRefused|P05ASealedAnswerThatIsNotAttestedIsDiscarded|P05AnAttestedAnswerHasAToken|P05AnAnswerThatCannotBeChargedForVoidsItsReceipt|P06BothLegsCarryCiphertextIfTheClientEncrypts|P05TheNextCandidateAnswers|P07TheNextPrivateProviderAnswers|E02ASessionUsesItsToolsAlone|B09ToolsOfAllServers|B09WhoMayUseWhichTool|QuotasCountAnExpression)$$
# A program with the race detector runs these in make test, and everything in make soak.
IN_RACE  ?= ^Test(R29|R28|K63|C09|B15|D60ReloadUnderLoad|RandomOperationsWhileRequestsRun|K24|RequestsControlTheCache)
# These measure memory, of which the race detector takes several times as much.
NO_RACE   = ^Test(AnIdleGatewayTakesLessThan80MB|K34RandomRequestsWhoseClientsLeave)$$
RACED    := $(CURDIR)/bin/race
# make lint vets: the tests need not.
TESTSUM   = $(gotestsum) --format pkgname --format-hide-empty-pkg
GOTEST    = -vet=off
UNITS     = $$(go list ./... | grep -v /e2e)
END2END   = $$(go list ./e2e/...)
# The race detector is for code that shares memory between goroutines. Elsewhere it takes minutes for nothing: formats are cut at every byte, and
# the program is started again and again.
SHARING   = $$(grep -rlE --include='*.go' --exclude='*_test.go' '"sync(/atomic)?"|golang-lru|^\s*go (func|[a-z])' extproc policy xds internal envoy | \
	xargs -n 1 dirname | sort -u | sed 's|^|./|')

# SQLite is C.
export CGO_ENABLED := 1
# What is built and what is tested is compiled once: the flags of both are the same.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

.PHONY: help run build program clean
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12 | sort

run: tools models program ## start everything on one machine; ARGS="-c bardo.yaml" adds flags (data_path: module needs make build first)
	@exec $(BARDO) up $(ARGS)

program: ## compile bin/bardo
	go build -trimpath -ldflags '$(strip $(STAMP) $(PROGRAM_LDFLAGS))' -o $(BARDO) ./cmd/bardo

build: program ## compile bin/bardo, and bin/libbardo.so for data_path: module
	go build -trimpath -ldflags '$(STAMP)' -buildmode=c-shared -o $(MODULE) ./cmd/bardo/libbardo

clean: ## remove what was built and installed here
	rm -rf bin .tools bench-out

.PHONY: test unit e2e module raced soak race fuzz bench microbench golden
test: unit e2e module raced ## run every test

unit: tools models redis postgres $(gotestsum) ## run the packages' own tests
	@failed=0; $(TESTSUM) -- $(GOTEST) -timeout 10m $(RACE) $(SHARING) || failed=1; \
	$(TESTSUM) -- $(GOTEST) -timeout 10m $$(go list ./... | grep -v /e2e | grep -vxF "$$(go list $(SHARING))") && exit $$failed

# The go command does not see that these depend on the program, so it must not answer from its cache. They wait more than they work, so two
# packages run at once.
e2e: export BARDO_BIN := $(BARDO)
e2e: tools models redis postgres sdks browser otelcol build $(gotestsum) ## run the program with real clients and Envoy
	$(TESTSUM) $(RERUN) --packages "$(END2END)" -- $(GOTEST) -timeout $(TIMEOUT) -count 1 -p 2 -parallel $(PARALLEL)

module: export BARDO_BIN := $(BARDO)
module: export BARDO_DATA_PATH := module
module: tools models redis sdks otelcol build $(gotestsum) ## run some of the same with the data path in Envoy's process
	$(TESTSUM) $(RERUN) --packages "./e2e ./e2e/agents ./e2e/pay ./e2e/staking" -- $(GOTEST) -timeout $(TIMEOUT) -count 1 -p 1 -parallel $(PARALLEL) -run '$(IN_MODULE)'

# The module has no race detector: Envoy's memory is where the detector's would have to be.
raced: export BARDO_BIN := $(RACED)/bardo
raced: export GORACE := log_path=$(RACED)/report exitcode=0
raced: tools models redis build $(gotestsum) ## run some of the same with the race detector in the program
	go build -race -buildmode=exe -trimpath -ldflags '$(STAMP)' -o $(RACED)/bardo ./cmd/bardo
	@ln -sf $(MODULE) $(RACED)/libbardo.so; rm -f $(RACED)/report.*
	$(TESTSUM) $(RERUN) --packages ./e2e -- $(GOTEST) -timeout $(TIMEOUT) -count 1 -parallel $(PARALLEL) -run '$(IN_RACE)' -skip '$(NO_RACE)'
	@! grep -h . $(RACED)/report.* 2>/dev/null

.PHONY: agent-host
agent-host: export BARDO_BIN := $(BARDO)
agent-host: tools models build $(gotestsum) ## test docs/deploy/agent-host.nft in network namespaces; needs root and nf_tables
	$(TESTSUM) -- $(GOTEST) -timeout $(TIMEOUT) -count 1 ./e2e/agenthost

soak: export BARDO_SOAK := 1
soak: postgres ## the same with long counts, and long fuzzing; takes hours
	@$(MAKE) e2e TIMEOUT=120m
	@BARDO_DATA_PATH=module $(MAKE) e2e TIMEOUT=120m
	@$(MAKE) raced IN_RACE=. TIMEOUT=120m
	go test -count 1 -timeout 120m ./policy/ledger/...
	@$(MAKE) fuzz FUZZTIME=10m

race: ## run the packages' own tests, and the program in all of e2e, with the race detector
	@$(MAKE) unit RACE=-race
	@$(MAKE) raced IN_RACE=. TIMEOUT=90m

fuzz: ## fuzz every target for FUZZTIME
	@grep -ro --include='*_test.go' --exclude-dir='.*' '^func Fuzz[A-Za-z0-9_]*' * | while IFS=: read -r file name; do \
		go test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$${name#func }$$" -fuzztime $(FUZZTIME) || exit 1; \
	done

bench: export BARDO_BIN := $(BARDO)
bench: tools models build ## measure the gateway against plain Envoy; ARGS=-quick is short
	@mkdir -p bench-out
	go run ./e2e/bench -json bench-out/$(VERSION).json $(ARGS)
	go run ./e2e/bench -models $(CURDIR)/.tools/models
	go test -run '^$$' -bench 'Layers|Aims' ./cmd/bardo/run
	go test -run '^$$' -bench KeyCheck ./policy/auth
	go test -run '^$$' -bench 'Pairs$$|Applied' ./policy/ledger
	go test -run '^$$' -bench Route500 -benchmem ./extproc
	go test -run '^$$' -bench 'Answer|TextWithTags' -benchmem -cpu 1 ./extproc/reasoning

.PHONY: eval-auto eval-classifier prototypes
eval-auto: ## print how well the model auto is chosen for the labelled prompts; ARGS=tuning takes their other half, ARGS=classifier has it judge them
	go run ./e2e/autoeval/cmd/evalauto $(ARGS)

eval-classifier: models ## print how often the classifier of prompts is right
	go run ./e2e/classifyeval/cmd/evalclassifier

prototypes: models ## make the classifier's prototypes of policy/classify/prompts.txt
	go run ./e2e/classifyeval/cmd/evalclassifier prototypes

.PHONY: replay
replay: build ## replay the recorded conversations of e2e/traces through the layers, and print what they save
	bin/bardo replay -c e2e/traces/replay.yaml e2e/traces/*.jsonl $(ARGS)

.PHONY: eval-pii
eval-pii: ## print how well personal data and secrets are found, by type; ARGS=tuning takes the other half of the texts, ARGS=misses lists what is missed
	go run ./e2e/piieval/cmd/evalpii $(ARGS)

.PHONY: eval eval-injection
eval-injection: models ## print how well injected instructions are found, by kind of text; ARGS=misses lists what is judged wrongly
	go run ./e2e/injectioneval/cmd/evalinjection $(ARGS)

.PHONY: eval-semantic
eval-semantic: models ## print which pairs of questions the semantic cache takes for the same, by category; ARGS=tuning takes their other half, details adds what is lost
	go run ./e2e/semeval/cmd/evalsemantic $(ARGS)

.PHONY: eval-tools
eval-tools: models ## print how often the tool that a request needs is kept or found, and what that saves; ARGS=misses lists what is missed
	go run ./e2e/tooleval/cmd/evaltools $(ARGS)

eval: eval-auto eval-classifier eval-pii eval-injection eval-semantic eval-tools ## print how well everything of the kind is done

microbench: $(benchstat) ## measure the packages' hot code
	@mkdir -p bench-out
	go test -run '^$$' -bench . -benchmem -count 6 $(UNITS) | tee bench-out/$(VERSION).txt
	$(benchstat) $(BASE) bench-out/$(VERSION).txt # BASE=bench-out/OTHER.txt compares two results

golden: ## write the golden files anew; review the difference
	@grep -rl --include='*_test.go' --exclude-dir='.*' 'flag\.Bool("update"' * | xargs -n 1 dirname | sort -u | \
		while read -r pkg; do go test "./$$pkg" -update || exit 1; done

.PHONY: proto
proto: $(buf) ## generate the Go code of the feed's messages
	$(buf) generate --template xds/feed/feedpb/buf.gen.yaml --path xds/feed/feedpb

.PHONY: screenshots
screenshots: export BARDO_BIN := $(BARDO)
screenshots: export BARDO_SHOTS := $(CURDIR)/docs/images
screenshots: tools browser build ## write the pictures of docs/dashboard.md
	go test ./e2e/ui -count 1 -run '^TestB07PeopleFindTheirWay$$'
	@cd docs/images && for shot in overview live request providers keys playground; do mv $$shot.png ui-$$shot.png; done && rm -f cache.png requests.png privacy.png login.png overview-dark.png phone.png

.PHONY: check lint fmt tidy arch deadcode vuln
check: tidy arch lint deadcode ## run every check that is not a test

lint: $(golangci_lint) ## lint, and check the format
	$(golangci_lint) run --allow-parallel-runners

fmt: $(golangci_lint) ## format
	$(golangci_lint) fmt

tidy: ## check that go.mod lists what is used
	go mod tidy -diff

arch: ## check the direction of imports
	go test ./internal/arch

deadcode: $(deadcode) ## check that every function is used; those that only C calls look unused
	@all=$$($(deadcode) -test ./...) && dead=$$(echo "$$all" | grep -v '^extproc/stream/module/' || true) && if [ -n "$$dead" ]; then echo "$$dead"; exit 1; fi

vuln: $(govulncheck) ## look for known vulnerabilities; needs the vulnerability database
	$(govulncheck) ./...
