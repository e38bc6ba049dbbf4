# Everything that the pipeline runs is a target here, so a laptop and the pipeline do the same.
# `.ci/run` calls these targets; `make help` lists them.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODULE  := github.com/cinnabar-hub/cinnabar
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# Tools are pinned here and kept outside the tree, by version, so that a new pin is a new file.
TOOLS       ?= $(HOME)/.cache/cinnabar-tools
LINTER      := $(TOOLS)/golangci-lint-v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
RELEASES  := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64

FUZZTIME  ?= 20s
BENCHTIME ?= 1s
BENCH     ?= .
PACKAGES  ?= ./...
COUNT     ?= 1

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build ./cinnabar, static
	CGO_ENABLED=0 go build -trimpath -o cinnabar ./cmd/cinnabar

.PHONY: test
test: ## every test under the race detector, in random order (PACKAGES to choose)
	go test -race -shuffle=on -timeout 20m $(PACKAGES)

.PHONY: short
short: ## the quick tests
	go test -short ./...

.PHONY: vet
vet: ## gofmt and go vet
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go mod tidy -diff

.PHONY: lint
lint: $(LINTER) ## golangci-lint, and proof that its import rules fire
	$(LINTER) run ./...
	CINNABAR_LINTER=$(LINTER) go test -count=1 -run 'ImportRule' ./cmd/internal/app

$(LINTER):
	mkdir -p $(TOOLS)/tmp
	GOFLAGS= GOBIN=$(TOOLS)/tmp go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv $(TOOLS)/tmp/golangci-lint $@

.PHONY: cross
cross: ## vet and build for every platform
	@for p in $(PLATFORMS); do \
	  echo "  $$p"; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go vet ./...; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go build -o /dev/null ./cmd/cinnabar; \
	done

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (20s, or a number of inputs: 10000x)
	.ci/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## benchmarks matching BENCH, ready for benchstat (COUNT=10 for a comparison)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(COUNT) ./...

.PHONY: browser
browser: ## real clients: headless Chromium, npm packages on Node, curl
	CI=true go test -count=1 -v ./spec/conformance/clients

.PHONY: conform
conform: ## the conformance suite against HUB=url (KEY, or PUBLISHER_KEY and SUBSCRIBER_KEY; more in FLAGS)
	go run ./cmd/cinnabar conformance $(HUB) --publisher-key '$(or $(PUBLISHER_KEY),$(KEY))' --subscriber-key '$(or $(SUBSCRIBER_KEY),$(KEY))' $(FLAGS)

.PHONY: cases
cases: build ## the conformance suite, and black-box cases of the module CASES, against a hub of our own
	.ci/cases.sh $(CASES)

.PHONY: readme
readme: ## run the commands of README.md
	.ci/readme.sh

.PHONY: proxy
proxy: build ## stream through nginx with docker/nginx.conf
	.ci/proxy.sh

.PHONY: cluster
cluster: ## the failure table: clusters of processes that are killed, stopped, cut off, restarted
	CINNABAR_CLUSTER=1 go test -count=1 -timeout 20m -v ./spec/conformance/cluster

.PHONY: manifests
manifests: build ## check the Compose files and Kubernetes manifests, and that the hub takes their settings
	.ci/manifests.sh

.PHONY: compose
compose: build ## run each Compose file without a container engine (root, Linux)
	@for f in docker/compose*.yaml; do echo "-- $$f"; .ci/compose.sh $$f; done

.PHONY: cover
cover: ## coverage of the whole module, per function, in cover.out
	go test -coverpkg=./... -coverprofile=cover.out ./...
	go tool cover -func=cover.out | tail -1

.PHONY: vuln
vuln: ## known vulnerabilities in what we call (needs the network)
	go run $(GOVULNCHECK) ./...

.PHONY: deps
deps: ## rewrite docs/dependencies.txt, the modules that end up in the binary
	go test -count=1 -run TestDependencyList ./cmd/internal/app -update

.PHONY: image
image: ## container image cinnabar:VERSION
	docker build -f docker/Dockerfile -t cinnabar:$(VERSION) .

.PHONY: release
release: ## static, reproducible binaries and their checksums in dist/
	rm -rf dist && mkdir dist
	@for p in $(RELEASES); do \
	  os=$${p%/*} arch=$${p#*/}; ext=; [ $$os = windows ] && ext=.exe; \
	  echo "  $$p"; \
	  GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build -buildvcs=true -trimpath -ldflags '-s -w -buildid=' \
	    -o dist/cinnabar-$(VERSION)-$$os-$$arch$$ext ./cmd/cinnabar; \
	done
	cd dist && sha256sum cinnabar-* > SHA256SUMS && cat SHA256SUMS
