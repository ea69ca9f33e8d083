# a4s: build, run and test. `make help` lists the targets.
.DEFAULT_GOAL := build
SHELL := /bin/sh
.DELETE_ON_ERROR:

# One set of build settings for everything, so that the binary, the tests and
# vet share one build cache. The file is in shell syntax; see there.
export CGO_ENABLED := $(shell . ./Makefile.env && echo "$$CGO_ENABLED")
export GOFLAGS := $(shell . ./Makefile.env && echo "$$GOFLAGS")

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# Lazy, so that `make deps` works before there is a Go.
LDFLAGS = -linkmode external -extldflags -static $(shell scripts/ldflags.sh)

# What is built for: this machine, or what is said as in `make build ARCH=arm64`, with what
# `scripts/install-deps.sh cross` installs. A variable of the environment does not count: others use it, too.
HOST_ARCH := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
ARCHS ?= $(if $(findstring command,$(origin ARCH)),$(ARCH),amd64 arm64)
ifeq ($(findstring command,$(origin ARCH)),)
ARCH := $(HOST_ARCH)
endif
ifeq ($(filter amd64 arm64,$(ARCH)),)
$(error ARCH=$(ARCH): a4s is built for amd64 and arm64)
endif
FOREIGN := $(filter-out $(HOST_ARCH),$(ARCH))
CC_amd64 := x86_64-linux-gnu-gcc
CC_arm64 := aarch64-linux-gnu-gcc
# Before a command of go: the target. Not exported, for what runs here.
GO_FOR := GOARCH=$(ARCH) $(if $(FOREIGN),CC=$(CC_$(ARCH)))
PLATFORM := linux-$(ARCH)
PROGRAM := bin/a4s$(FOREIGN:%=-%)
ifneq ($(FOREIGN),)
NATIVE := $(filter-out build payload image guest release dist/% sbom supply-chain reproduce clean help test-foreign \
	test-vm-guest,$(MAKECMDGOALS))
ifneq ($(NATIVE),)
$(error $(NATIVE): of $(HOST_ARCH) alone on this machine, without ARCH=$(ARCH))
endif
endif

PAYLOAD := embedded/payload/archive/$(ARCH)/.stamp
# The payload's inputs: its sources, and go.mod for the versions of the rest.
PAYLOAD_INPUTS := go.mod Makefile.env \
	$(wildcard embedded/shim/*.go embedded/pause/*.go embedded/payload/format/*.go) \
	$(wildcard embedded/guest/*.go embedded/guest/*/*.go) \
	$(wildcard scripts/ociarchive/*.go scripts/payload/*.go)

.PHONY: build
build: $(PAYLOAD) ## Build bin/a4s (the default; with ARCH=arm64 bin/a4s-arm64, or the reverse on arm64)
	@mkdir -p bin
	@echo "Building $(PROGRAM)"
	@$(GO_FOR) go build -ldflags '$(LDFLAGS)' -o $(PROGRAM) .

$(PAYLOAD): $(PAYLOAD_INPUTS)
	@echo "Building the carried programs (shim, runc, CNI plugins, sandbox image, crictl)"
	@go run ./scripts/payload --arch $(ARCH)
	@touch $@

.PHONY: payload
payload: $(PAYLOAD) ## Build only the programs that the binary carries

.PHONY: image
image: build ## release: Build bin/a4s-image.tar (ARCH=arm64: bin/a4s-arm64-image.tar), the image of a4s, to run a control plane in pods
	go run ./scripts/mkimage --arch $(ARCH) --name docker.io/a4s/a4s:$$(scripts/version.sh) \
		--file $(PROGRAM)=/a4s --dir /tmp=1777 --entrypoint /a4s --out $(PROGRAM)-image.tar

.PHONY: guest
guest: ## Make bin/guest/{vmlinuz,initrd.img}, which pods' virtual machines boot, from a Debian kernel (ARCH=arm64: bin/guest-arm64)
	go run ./scripts/vmguest --arch $(ARCH) --out bin/guest$(FOREIGN:%=-%)

.PHONY: run
run: deps build ## Build, and run a single-node cluster in the foreground (as root)
	$(SUDO) bin/a4s server $(ARGS)

.PHONY: deps
deps: ## Install what is missing on this Debian machine, check for Go
	@scripts/install-deps.sh

.PHONY: test-deps
test-deps: deps ## Install what only the tests need: the databases that they run, and parts of QEMU
	@scripts/install-deps.sh test

.PHONY: test
test: test-deps test-unit test-integration test-e2e test-clients ## Run every test

.PHONY: test-unit
test-unit: test-deps $(PAYLOAD) ## Run the unit tests, those of light packages with the race detector
	go test -race -timeout 30m $$(scripts/light-packages.sh light)
	set -- $$(scripts/light-packages.sh heavy); [ $$# = 0 ] || go test -timeout 30m "$$@"

.PHONY: test-integration
# Two packages at a time: most of the time they wait. Those that start servers do so
# in namespaces of their own.
test-integration: test-deps build ## Run the tests that start components in the test process, and servers without nodes (as root)
	A4S_BINARY=$(CURDIR)/bin/a4s go test -count=1 -p 2 -timeout 90m ./tests/integration/...

# What make test does a few times, as often as the claims in the documentation say. One
# after the other: each is about what happens under load of its own.
.PHONY: test-long
test-long: test-deps build ## slow: Kill servers 200 times while tenants are made, 200 times while they write and move, and 100 times under twenty teams of a template, 100 runs of shared nodes, 10,000 nodes, 200 moves of tenants, partitions away for ten minutes, 500 of each name of tenants, the runbooks (as root, six hours)
	A4S_TEST_RUNS=$${A4S_TEST_RUNS:-200} A4S_KILLS=$${A4S_KILLS:-100} A4S_BINARY=$(CURDIR)/bin/a4s \
		go test -v -count=1 -timeout 4h ./tests/integration/partitionfaults
	A4S_TEST_RUNS=$${A4S_TEST_RUNS:-100} A4S_TEST_NODES=$${A4S_TEST_NODES:-10000} \
		go test -v -count=1 -timeout 3h -run 'TestNothingIsOverCommitted|TestHeartbeatsOfManyNodes' ./tests/integration/resourcepartitions
	A4S_TEST_NAMES=$${A4S_TEST_NAMES:-500} \
		go test -v -count=1 -timeout 3h -run 'TestNamesThatComeAndGo' ./tests/integration/spaces
	A4S_OUTAGE=$${A4S_OUTAGE:-10m} A4S_BINARY=$(CURDIR)/bin/a4s \
		go test -v -count=1 -timeout 2h -run 'TestPartitionsAway' ./tests/e2e
	A4S_KILLS=$${A4S_KILLS:-200} A4S_BINARY=$(CURDIR)/bin/a4s \
		go test -v -count=1 -timeout 3h -run 'TestKilledServersOfGroupsAndPartitions' ./tests/e2e
	A4S_MOVES=$${A4S_MOVES:-200} go test -v -count=1 -timeout 2h -run 'TestMovesUnderWrites|TestMovesBeneathClients' ./server/groups/ranged ./server/groups/serving
	$(MAKE) test-runbooks

.PHONY: isolation
isolation: test-deps $(PAYLOAD) ## slow: Send 10 million random requests of a hostile tenant, of which make test sends 200,000 (as root, hours)
	A4S_ISOLATION_REQUESTS=$${A4S_ISOLATION_REQUESTS:-10000000} go test -v -count=1 -timeout 24h -run 'TestIsolation$$' ./tests/integration/spaces

.PHONY: parity
parity: test-deps $(PAYLOAD) ## slow: Compare a tenant with the system space by 30,000 random requests, of which make test sends 3,000 (as root)
	A4S_PARITY_REQUESTS=$${A4S_PARITY_REQUESTS:-30000} go test -v -count=1 -timeout 2h -run 'TestParity$$' ./tests/integration/spaces

# Tests build these while others run, for which a compiler beside them is a slow machine.
.PHONY: test-programs
test-programs: test-deps
	go build -C tests/oidcserver -o /dev/null .
	go build -C tests/clients -o /dev/null ./operator

.PHONY: test-e2e
test-e2e: test-deps build test-programs ## Run the tests that start clusters from bin/a4s and run real pods (as root)
	A4S_BINARY=$(CURDIR)/bin/a4s go test -v -count=1 -p 1 -parallel 4 -timeout 120m ./tests/e2e/...

.PHONY: test-runbooks
test-runbooks: test-deps build ## slow: Make the faults of docs/operate/runbooks.md, run its commands and see its output (RUN=TestRunbookServerDown runs one; as root, 20 minutes)
	A4S_RUNBOOKS=1 A4S_BINARY=$(CURDIR)/bin/a4s go test -v -count=1 -timeout 60m -run '$(or $(RUN),TestRunbook)' ./tests/e2e

.PHONY: test-injection
test-injection: build ## slow: Inject failures: kills, 100 restarts, ten minutes without a network, full disks (as root, slow)
	A4S_INJECT=1 A4S_RESTARTS=$${A4S_RESTARTS:-100} A4S_OUTAGE=$${A4S_OUTAGE:-10m} A4S_BINARY=$(CURDIR)/bin/a4s \
		go test -v -count=1 -timeout 60m -run 'TestInjectedFailures|TestRestartedAgainAndAgain|TestNodeWithoutANetwork|TestDiskFailures|TestFullDiskOfANode|TestCertificatesAreRenewedUnderLoad|TestAuthoritiesOfSeveralServers' ./tests/e2e

# The commit that upgrades are tested from: the last release, or the last commit with
# the minor version before.
UPGRADE_FROM := 8a5103309cc5f4f6ecafe8d8559658f6e57472b5

bin/upgrade-from/$(UPGRADE_FROM): ## Build the program that upgrades are tested from
	rm -rf bin/upgrade-from && mkdir -p bin/upgrade-from/source
	git archive $(UPGRADE_FROM) | tar -x -C bin/upgrade-from/source
	$(MAKE) -C bin/upgrade-from/source build
	mv bin/upgrade-from/source/bin/a4s $@
	rm -rf bin/upgrade-from/source

.PHONY: test-upgrade
test-upgrade: build bin/upgrade-from/$(UPGRADE_FROM) ## slow: Upgrade clusters of the last release, with writes and pods, and go back (as root, 15 minutes)
	scripts/install-deps.sh test
	A4S_BINARY=$(CURDIR)/bin/a4s A4S_LAST_RELEASE=$(CURDIR)/bin/upgrade-from/$(UPGRADE_FROM) \
		go test -v -count=1 -timeout 40m -run 'TestUpgrade' ./tests/e2e

# The programs of Debian's package, which is not installed: as a service it would listen here.
bin/prometheus:
	rm -rf $@.new && mkdir -p $@.new
	cd $@.new && { apt-get -q -o APT::Sandbox::User=root download prometheus || \
		{ $(SUDO) apt-get -q update && apt-get -q -o APT::Sandbox::User=root download prometheus; }; }
	dpkg-deb --fsys-tarfile $@.new/prometheus_*.deb | tar -x -C $@.new --strip-components=3 ./usr/bin
	rm $@.new/prometheus_*.deb && mv $@.new $@

# A module of its own: what the clients depend on is not to be a4s' as well.
.PHONY: test-clients
test-clients: test-deps build bin/prometheus ## Run kubectl, Helm, cert-manager, the Python client, Prometheus and a manager of controller-runtime in tenants (as root)
	cd tests/clients && A4S_BINARY=$(CURDIR)/bin/a4s go test -v -count=1 -timeout 45m .

# Modules of their own, too: the controllers have the versions that they are released with. Argo CD's
# asks for a newer Go, which Go fetches.
GITOPS := tests/clients/gitops
.PHONY: gitops
gitops: ## slow: Build bin/gitops: the controllers of Flux and Argo CD, with their kinds
	@rm -rf bin/gitops/crds bin/gitops/argocd-config && mkdir -p bin/gitops/crds bin/gitops/argocd-config
	@echo "Building bin/gitops"
	@go build -C $(GITOPS)/flux -ldflags '-s -w' -o $(CURDIR)/bin/gitops/ $(addprefix github.com/fluxcd/,source-controller kustomize-controller)
	@GOTOOLCHAIN=auto go build -C $(GITOPS)/argocd -ldflags '-s -w' -o $(CURDIR)/bin/gitops/argocd github.com/argoproj/argo-cd/v3/cmd
	@install -m 644 $$(go list -C $(GITOPS)/flux -m -f '{{.Dir}}/config/crd/bases/*.yaml' $(addprefix github.com/fluxcd/,source-controller kustomize-controller)) bin/gitops/crds
	@argo=$$(GOTOOLCHAIN=auto go list -C $(GITOPS)/argocd -m -f '{{.Dir}}/manifests' github.com/argoproj/argo-cd/v3) && \
		install -m 644 $$argo/crds/*-crd.yaml bin/gitops/crds && \
		install -m 644 $$argo/base/config/argocd-*.yaml bin/gitops/argocd-config && \
		install -m 755 $$argo/../hack/git-verify-wrapper.sh bin/gitops

.PHONY: test-gitops
test-gitops: build gitops ## slow: Register tenants in Flux and Argo CD by the commands of docs/tenants/access.md (as root, half a minute; ten more from empty caches)
	scripts/install-deps.sh gitops
	cd tests/clients && A4S_GITOPS=$(CURDIR)/bin/gitops A4S_BINARY=$(CURDIR)/bin/a4s go test -v -count=1 -timeout 15m -run TestGitOps .

# A module of its own, too. RUN is one test of the suite.
.PHONY: test-gateway
test-gateway: test-deps build ## slow: Run the conformance suite of the Gateway API on a cluster (RUN=HTTPRouteMatching runs one test; as root, three minutes)
	@mkdir -p bin/gateway
	go test -C tests/gatewaysuite -c -o $(CURDIR)/bin/gateway/conformance.test sigs.k8s.io/gateway-api/conformance
	A4S_GATEWAY_SUITE=$(CURDIR)/bin/gateway A4S_GATEWAY_TEST=$(RUN) A4S_BINARY=$(CURDIR)/bin/a4s \
		go test -v -count=1 -timeout 150m -run 'TestGatewayConformance$$' ./tests/e2e

.PHONY: test-vm
test-vm: build guest ## slow: Boot guests: a4s with systemd and cgroup v2, and all of pods as machines (as root, slow)
	scripts/install-deps.sh vm
	$(MAKE) test-vm-guest
	A4S_VM_GUEST=$(CURDIR)/bin/guest go test -count=1 -p 1 -timeout 20m ./agent/vm/...
	$(MAKE) test-vmpods

# ARCH=arm64 (or amd64, on arm64): the other architecture.
.PHONY: test-vm-guest
test-vm-guest: ## slow: Boot a guest and install, run, upgrade and remove a4s in it (ARCH=arm64 for one of arm64; as root, slow)
	$(if $(FOREIGN),scripts/install-deps.sh cross)
	scripts/install-deps.sh $(if $(FOREIGN),vm-foreign,vm)
	$(MAKE) build
	go run ./scripts/mkimage --arch $(ARCH) --name docker.io/a4s/testbox:1 --go ./tests/images/testbox=/testbox --entrypoint /testbox --out bin/testbox-$(ARCH).tar
	$(GO_FOR) go build -ldflags '$(LDFLAGS) -X github.com/a4s-io/a4s/internal/version.Version=v0.0.0-next' -o $(PROGRAM)-next .
	A4S_BINARY=$(CURDIR)/$(PROGRAM) A4S_VM_NEXT=$(CURDIR)/$(PROGRAM)-next A4S_VM_IMAGE=$(CURDIR)/bin/testbox-$(ARCH).tar \
		A4S_VM_ARCH=$(ARCH) go test -v -count=1 -timeout 60m ./tests/vm

# Those of scripts and tests work for the machine that builds.
.PHONY: test-foreign
test-foreign: ## slow: Build for the other architecture (ARCH=arm64, on amd64), and run the program and the unit tests of light packages under emulation (as root, slow)
	@[ -n "$(FOREIGN)" ] || { echo "test-foreign: want ARCH= of the architecture that this machine ($(HOST_ARCH)) is not"; exit 2; }
	scripts/install-deps.sh cross
	$(MAKE) build
	A4S_FOREIGN=$(CURDIR)/$(PROGRAM) A4S_FOREIGN_ARCH=$(ARCH) go test -v -count=1 -timeout 10m ./tests/foreign
	$(GO_FOR) scripts/emulate.sh $(ARCH) go test -vet=off -ldflags '-extldflags -static' -exec $(CURDIR)/scripts/as-nobody.sh \
		-timeout 30m $$(scripts/light-packages.sh light | grep -v -e /scripts/ -e /tests/)

.PHONY: test-vmpods
test-vmpods: build guest ## slow: Run pods in virtual machines through the CRI and on a cluster (as root, slow)
	scripts/install-deps.sh vm
	A4S_VM_PODS=1 A4S_BINARY=$(CURDIR)/bin/a4s go test -v -count=1 -timeout 20m -skip TestCritest ./tests/vmpods
	A4S_VM_GUEST=$(CURDIR)/bin/guest A4S_BINARY=$(CURDIR)/bin/a4s go test -v -count=1 -timeout 15m -run TestPodsInVirtualMachines ./tests/e2e

.PHONY: test-critest
test-critest: build guest ## slow: Run critest, the conformance tests of the CRI, against the VM runtime (as root, slow)
	scripts/install-deps.sh vm
	cd tests/critest && go test -c -o $(CURDIR)/bin/critest sigs.k8s.io/cri-tools/cmd/critest
	A4S_VM_PODS=1 A4S_BINARY=$(CURDIR)/bin/a4s A4S_CRITEST=$(CURDIR)/bin/critest go test -v -count=1 -timeout 40m -run TestCritest ./tests/vmpods

# Its parts are built by the program itself: the suite is a module of its own.
.PHONY: conformance
conformance: build ## slow: Run upstream's conformance tests from a tenant's kubeconfig and the system's (FOCUS=REGEXP SPACES=tenant|restricted|system PROCS=4, ALL=1 for the tests beyond it; as root, half an hour a space)
	go build -o bin/conformance/run ./tests/conformance
	A4S_BINARY=$(CURDIR)/bin/a4s bin/conformance/run

.PHONY: bench
bench: build bench-upstream bench-kubectl ## slow: Run the benchmarks behind the claims in the documentation
	A4S_BINARY=$(CURDIR)/bin/a4s go test -run '^$$' -bench . -benchtime 20x ./tests/bench
	go test -run '^$$' -bench . -benchtime 10x -timeout 30m ./tests/bench/tenancy
	go test -run '^$$' -bench PodList ./server/tenancy/wire
	go test -run '^$$' -bench . -benchtime 3000x ./agent/ingress/proxy

.PHONY: bench-kubectl
bench-kubectl: build upstream-kubectl ## slow: Compare the start of `a4s kubectl` with that of upstream's kubectl
	A4S_BINARY=$(CURDIR)/bin/a4s A4S_UPSTREAM=$(CURDIR)/bin/upstream \
		go test -run '^$$' -bench KubectlStart -benchtime 30x ./tests/bench

.PHONY: bench-tenants
bench-tenants: $(PAYLOAD) ## slow: Make a million tenants that nobody uses, and use thousands, in one server (as root, half an hour; DORMANT=N USED=N)
	A4S_BENCH_DORMANT=$${DORMANT:-1000000} go test -run '^$$' -bench DormantTenants -benchtime 1x -timeout 3h ./tests/bench/tenancy
	A4S_BENCH_COMPACTION=60 A4S_BENCH_TENANTS=$${USED:-5000} go test -run '^$$' -bench TenantMemoryAfterRestart -benchtime 1x -timeout 12h ./tests/bench/tenancy

# Upstream's own programs, from the versions and with the settings of bin/a4s.
UPSTREAM := github.com/containerd/containerd/v2/cmd/containerd \
	$(addprefix k8s.io/kubernetes/cmd/,kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)

.PHONY: upstream
upstream: ## slow: Build bin/upstream: etcd, containerd and the programs of Kubernetes as they are
	@mkdir -p bin/upstream
	@echo "Building bin/upstream"
	@go build -C tests/bench/upstream/programs -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/upstream/ $(UPSTREAM)
	@go build -C tests/bench/upstream/programs -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/upstream/etcd go.etcd.io/etcd/server/v3

.PHONY: upstream-etcd
upstream-etcd: ## slow: Build bin/upstream/etcd alone
	@mkdir -p bin/upstream
	@go build -C tests/bench/upstream/programs -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/upstream/etcd go.etcd.io/etcd/server/v3

.PHONY: upstream-kubectl
upstream-kubectl: ## slow: Build bin/upstream/kubectl alone
	@mkdir -p bin/upstream
	@go build -C tests/bench/upstream/programs -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/upstream/ k8s.io/kubernetes/cmd/kubectl

.PHONY: bench-upstream
bench-upstream: build upstream ## slow: Run bin/a4s beside upstream's programs; results go to bin/bench (as root, half an hour)
	@for b in start idle api pods; do rm -f bin/bench/$$b.*; done
	@for b in Start=10x Idle=3x API=12x Pods=10x; do \
		A4S_BINARY=$(CURDIR)/bin/a4s A4S_UPSTREAM=$(CURDIR)/bin/upstream A4S_BENCH_OUT=$(CURDIR)/bin/bench \
			go test -v -count=1 -run '^$$' -bench $${b%=*} -benchtime $${b#*=} -timeout 60m ./tests/bench/upstream || exit 1; \
	done

.PHONY: bench-scale
bench-scale: build upstream ## slow: Run bin/a4s with 1,000 nodes and 5,000 pods beside upstream's programs; results go to bin/bench (as root, hours; ARGS=--smoke tries it in minutes, ARGS=--help lists what can be changed)
	@mkdir -p bin/bench
	go build -o bin/scale ./tests/bench/scale
	A4S_BINARY=$(CURDIR)/bin/a4s A4S_UPSTREAM=$(CURDIR)/bin/upstream A4S_BENCH_OUT=$(CURDIR)/bin/bench bin/scale $(ARGS)

.PHONY: bench-groups
bench-groups: build upstream-etcd ## slow: Run whole servers of 1, 2 and 4 service groups on one etcd with 40,000 pods; results go to bin/bench (as root, an hour; ARGS=--smoke tries it in minutes, ARGS=--help lists what can be changed)
	@mkdir -p bin/bench
	go build -o bin/groups ./tests/bench/groups
	A4S_BINARY=$(CURDIR)/bin/a4s A4S_UPSTREAM=$(CURDIR)/bin/upstream A4S_BENCH_OUT=$(CURDIR)/bin/bench bin/groups $(ARGS)

.PHONY: bench-partitions
bench-partitions: build ## slow: Run 1 to 4 tenant and resource partitions with 1,000 nodes in all; results go to bin/bench (as root, an hour; ARGS=--smoke tries it in minutes, ARGS=--help lists what can be changed)
	@mkdir -p bin/bench
	go build -o bin/partitions ./tests/bench/partitions
	A4S_BINARY=$(CURDIR)/bin/a4s A4S_BENCH_OUT=$(CURDIR)/bin/bench bin/partitions $(ARGS)

.PHONY: bench-hostile
bench-hostile: build ## slow: Measure what a tenant waits for beside one that is hostile, in each way that is known; results go to bin/bench (as root, half an hour; ARGS=--smoke tries it in minutes, ARGS=--help lists what can be changed)
	@mkdir -p bin/bench
	go build -o bin/hostile ./tests/bench/hostile
	A4S_BINARY=$(CURDIR)/bin/a4s A4S_BENCH_OUT=$(CURDIR)/bin/bench bin/hostile $(ARGS)

# Without groups: a server of another commit, by its binary, in place of upstream's programs.
.PHONY: bench-base
bench-base: build ## slow: Run bin/a4s beside another binary of a4s, A4S_BASE=PATH; results go to bin/bench/base (as root, an hour)
	@test -x "$(A4S_BASE)" || { echo "A4S_BASE is to be the path of a binary of a4s"; exit 1; }
	@rm -rf bin/bench/base
	@for b in $${BENCH:-Start=12x Idle=6x API=40x}; do \
		A4S_BASE=$(abspath $(A4S_BASE)) A4S_BINARY=$(CURDIR)/bin/a4s A4S_UPSTREAM=$(CURDIR)/bin/upstream \
			A4S_BENCH_OUT=$(CURDIR)/bin/bench/base \
			go test -v -count=1 -run '^$$' -bench $${b%=*} -benchtime $${b#*=} -timeout 120m ./tests/bench/upstream || exit 1; \
	done

.PHONY: lint
lint: vet ## Check formatting, go vet, staticcheck and shellcheck
	shellcheck scripts/*.sh tests/vm/*.sh tests/vm/guest/*.sh
	go run $(STATICCHECK) ./...
	cd tests/clients && go run $(STATICCHECK) ./...
	cd scripts/bom && go run $(STATICCHECK) ./...

.PHONY: vet
vet: ## Check formatting and go vet
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l) && \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	cd tests/clients && go vet ./...
	CGO_ENABLED=0 GOARCH=$(filter-out $(HOST_ARCH),amd64 arm64) go vet ./agent/vm/qemu ./embedded/payload

# What two builds of one commit must agree on.
.PHONY: dist/program
dist/program: $(PAYLOAD)
	@mkdir -p dist
	@echo "Building dist/a4s-$(PLATFORM)"
	@$(GO_FOR) go build -ldflags '-s -w $(LDFLAGS)' -o dist/a4s-$(PLATFORM) .
	@cd dist && zstd -q -f -19 -T0 a4s-$(PLATFORM) -o a4s-$(PLATFORM).zst

.PHONY: release
release: deps ## release: Build dist/ for ARCHS (amd64 and arm64): the stripped binary, compressed, the archive for machines without a network, bill of materials, licences, install.sh, checksums (and signatures: A4S_SIGNING_KEY=PEM)
	@[ -z "$(filter-out $(HOST_ARCH),$(ARCHS))" ] || scripts/install-deps.sh cross
	@for a in $(ARCHS); do $(MAKE) --no-print-directory dist/release ARCH=$$a || exit 1; done

# Of one architecture.
.PHONY: dist/release
dist/release: dist/program
	@cp scripts/install.sh dist/
	@$(MAKE) --no-print-directory sbom SBOM_OF=dist/a4s-$(PLATFORM)
	@echo "Packing dist/a4s-airgap-$(PLATFORM).tar.zst"
	@scripts/airgap.sh dist/a4s-$(PLATFORM) dist/a4s-airgap-$(PLATFORM).tar.zst dist/a4s-$(PLATFORM).cdx.json dist/a4s-$(PLATFORM).licenses.txt
	@key=$${A4S_SIGNING_KEY:+$$(realpath "$$A4S_SIGNING_KEY")}; cd dist && for f in a4s-$(PLATFORM) a4s-$(PLATFORM).zst a4s-airgap-$(PLATFORM).tar.zst a4s-$(PLATFORM).cdx.json a4s-$(PLATFORM).licenses.txt; do \
		sha256sum $$f > $$f.sha256; \
		[ -z "$$key" ] || openssl dgst -sha256 -sign "$$key" $$f | openssl base64 -A > $$f.sig; done
	@cd dist && for f in a4s-$(PLATFORM) a4s-$(PLATFORM).zst a4s-airgap-$(PLATFORM).tar.zst; do \
		printf '%s  %s bytes (%s MB)  sha256 %s\n' $$f $$(stat -c %s $$f) $$(($$(stat -c %s $$f) / 1000000)) $$(cut -d' ' -f1 $$f.sha256); done

# A module of its own: what recognizes licences is no dependency of a4s.
SBOM_OF = $(PROGRAM)
.PHONY: sbom
sbom: $(PAYLOAD) ## release: Write the bill of materials and the licences of bin/a4s beside it, and check the licences
	@go build -C scripts/bom -o $(CURDIR)/bin/bom .
	@bin/bom --binary $(SBOM_OF) --payload $(dir $(PAYLOAD))payload.tar.zst --tools $(dir $(PAYLOAD))tools.tar.zst --policy scripts/bom/licenses.yaml --out $(SBOM_OF)

.PHONY: reproduce
reproduce: deps ## release: Build the current commit twice from nothing and compare the bytes (slow)
	scripts/reproduce.sh

.PHONY: supply-chain
supply-chain: build sbom ## release: Check the licences, and look for known vulnerabilities in bin/a4s and what it carries
	cd scripts/bom && go vet . && go test .
	@rm -rf bin/carried && mkdir -p bin/carried && for a in payload tools; do tar --zstd -xf $(dir $(PAYLOAD))$$a.tar.zst -C bin/carried; done
	go run ./scripts/vulncheck $(VULNCHECK) --exceptions scripts/vulncheck/exceptions.yaml $(PROGRAM) $$(find bin/carried/bin -type f)

.PHONY: newest
newest: ## release: List every pinned part with its version, the newest one, and how long that has been out
	@go run ./scripts/newest

.PHONY: docs
docs: ## Write the configuration reference from the flags, the drawings, and the help that a test compares
	go run ./scripts/gendocs
	go run ./scripts/drawings
	go test ./cmd -run TestHelpOfEveryCommand -update

# deepcopy-gen says on standard error what it thinks of comments of upstream.
.PHONY: generate
generate: ## Write the deep copies of the kinds of a4s from their types
	go tool deepcopy-gen --output-file zz_generated.deepcopy.go --logtostderr=false --log_file=/dev/null \
		$$(git grep -l '^// +k8s:deepcopy-gen=package' -- '*/doc.go' | sed 's|^|./|; s|/doc.go$$||')

.PHONY: clean
clean: ## Remove what the targets above built (not the Go build cache)
	rm -rf bin dist
	cd embedded/payload/archive && rm -f .stamp payload.* tools.* */.stamp */payload.* */tools.*

# The text of a target begins with its group, "slow: " or "release: ", unless it is of every day.
.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { \
			group = 1; \
			if (sub(/^slow: /, "", $$2)) group = 2; \
			if (sub(/^release: /, "", $$2)) group = 3; \
			targets[group] = targets[group] sprintf("  make %-17s %s\n", $$1, $$2) \
		} \
		END { \
			printf "Daily\n%s\nSlow: long tests, and what is measured\n%s\nReleases\n%s", \
				targets[1], targets[2], targets[3] \
		}' $(MAKEFILE_LIST)
