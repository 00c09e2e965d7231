# Tools are pinned in tools/go.mod and built by go on first use (about 80 s).
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

TOOL  := go tool -modfile=tools/go.mod
FILES := git ls-files -co --exclude-standard '*.go' ':!api/gen'

# PKG narrows test, race and bench: make test PKG=./leader
PKG       ?= ./...
# FUZZTIME is how long each fuzz target runs.
FUZZTIME  ?= 10s
# FUZZBUILD is how their binaries are built: guided by coverage. Set to nothing it saves
# compiling all once more; in a second the guide would have learned nothing yet.
FUZZBUILD ?= -fuzz .
# BENCH and COUNT choose and repeat benchmarks: make bench BENCH=Check COUNT=10
BENCH     ?= .
COUNT     ?= 1
# KILLS is how many deaths make soak-kills asks for.
KILLS     ?= 200
# DURATION is how long make soak and soak-load take; 2m is a short form.
DURATION  ?= 30m
# LATENCY is whether it judges latency too; on a machine that others use it says nothing.
LATENCY   ?= true
# NODES and SCALEKEYS are the largest cluster that make scale plays.
NODES     ?= 1000
SCALEKEYS ?= 1000000
# RUNS and LENGTH are how many histories are checked, and how long each is, in seconds.
RUNS      ?= 20
LENGTH    ?= 60
# CUTS is how many times make power-loss cuts the power.
CUTS      ?= 200
# MACHINE describes where a measurement is from.
MACHINE    = $$(nproc) processors ($$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), Linux $$(uname -r | cut -d- -f1), $$(go env GOVERSION)
# CAMPAIGN is how many scenarios make campaign plays, and SEED the first.
CAMPAIGN  ?= 10000
SEED      ?= 0
# DEVEL is the version that the source says; VERSION that of static and dist, and OUT where
# they put things. PLATFORMS are those of a release.
DEVEL     := $(shell sed -n 's/^var Version = "\(.*\)"/\1/p' internal/cli/build/version.go)
VERSION   ?= $(DEVEL)
OUT       ?= dist
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
# OTHERS are platforms that check-platforms compiles and vets for: one of each system and
# architecture that the machine of the checks is not.
OTHERS    ?= darwin/arm64 windows/amd64
# BASE is what protos must stay compatible with: the last tag, else the commit before.
BASE      ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-parse -q --verify HEAD~1 2>/dev/null)

.PHONY: help build static dist release test test-full race slow-disk system headline proxies soak-kills faults histories power-loss seeded-faults mutations mended-faults reach campaign lint recording site generate verify bench bench-peers bench-accounts fuzz behaviour scale scale-real soak soak-load
.PHONY: format check-format check-vet check-platforms check-bench check-deploy check-release check-tidy check-proto check-breaking check-generated check-dead check-arch check-vulns check-goreleaser

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## build bin/quorate
	go build -trimpath -o bin/ ./cmd/...

# The same commit makes the same bytes, wherever it is built: no path, no time, no C library
# of the machine is in them. The toolchain is that of go.mod. A clone says its commit, or is not
# built; a copy without one, as in the container file, cannot.
static: ## build OUT/quorate (quorate.exe on Windows) for GOOS and GOARCH, as releases have it
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(if $(wildcard .git),true,false) -ldflags '-s -w -buildid= -X github.com/quorate/quorate/internal/cli/build.Version=$(VERSION)' -o $(OUT)/ ./cmd/quorate

# Pinned here: as a tool in go.mod it would bring 330 modules to everybody.
check-goreleaser: ## check the release configuration with goreleaser; builds goreleaser first, which takes minutes
	go run github.com/goreleaser/goreleaser/v2@v2.16.0 check

dist: ## release archives for PLATFORMS in OUT, with bills of materials and checksums
	@rm -rf "$(OUT)"
	mkdir -p "$(OUT)"
	made=$$(git log -1 --format=%ct)
	for platform in $(PLATFORMS); do
		name=quorate_$(VERSION)_$${platform/\//_}
		work="$(OUT)/$$name"
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(MAKE) --no-print-directory static OUT="$$work"
		cp README.md CHANGELOG.md LICENSE NOTICE deploy/systemd/quorate.service deploy/systemd/quorate.sysusers "$$work"
		go run ./cmd/quorate version -o cyclonedx --of "$$work/quorate$$(GOOS=$${platform%/*} go env GOEXE)" | sed 's/"$(DEVEL)"/"$(VERSION)"/' > "$(OUT)/$$name.cdx.json"
		chmod -R u=rwX,go=rX "$$work"
		tar --sort=name --mtime="@$$made" --owner=0 --group=0 --numeric-owner -C "$(OUT)" -cf - "$$name" | gzip -9n > "$(OUT)/$$name.tar.gz"
		rm -rf "$$work"
	done
	cd "$(OUT)"
	sha256sum -- *.tar.gz *.cdx.json > quorate_$(VERSION)_checksums.txt
	cat quorate_$(VERSION)_checksums.txt

# The tag is made last: nothing is published, and a release that fails leaves none.
# It calls make by its name: with the variable, "make -n release" would run the whole recipe.
release: ## release VERSION=0.1.0 from a clean tree: archives, checksums and notes in OUT, then the tag; see docs/development/releasing.md
	@notes=$$(mktemp)
	trap 'rm -f "$$notes"' EXIT
	tools/release.sh --final "$(VERSION)" > "$$notes"
	make --no-print-directory dist VERSION="$(VERSION)" OUT="$(OUT)"
	cp "$$notes" "$(OUT)/quorate_$(VERSION)_notes.md"
	git tag -a "v$(VERSION)" --cleanup=verbatim -F "$$notes"
	echo "tagged v$(VERSION); sign and publish $(OUT), then: git push origin v$(VERSION)"

test: ## run the quick tests (PKG=./leader for one package)
	CI=true go test $(PKG)

test-full: ## run all tests (PKG=./leader for one package); 15 minutes on 2 processors
	CI=true TEST_SPEED=full go test -timeout 30m $(PKG)

race: ## run all tests under the race detector; needs a C compiler
	CI=true TEST_SPEED=full go test -race -timeout 60m $(PKG)

# The tests keep their files in TMPDIR; what go builds stays where it was.
slow-disk: ## run the quick tests (PKG=./cluster/... for some) on a disk that adds 20 ms to each sync; needs root and /dev/fuse
	@work=$$(mktemp -d)
	mkdir "$$work/disk"
	trap 'kill "$${disk_PID:-}" 2> /dev/null || true; wait || true; umount "$$work/disk" 2> /dev/null || true; rm -rf "$$work"' EXIT
	(cd bench && go build -o "$$work/forgetfs" ./cmd/forgetfs)
	coproc disk { exec "$$work/forgetfs" -sync 20ms "$$work/disk"; }
	read -r -u "$${disk[0]}" _
	CI=true TMPDIR="$$work/disk" GOTMPDIR="$$work" go test -count=1 -timeout 30m $(PKG)

system: ## run only the tests of whole nodes, print their figures, and check their time targets; needs iproute2 and root
	CI=true TEST_SPEED=full SOAK_TARGETS=1 go test -count=1 -v ./systemtest

headline: ## play scenarios on real processes and compare them with the simulator's prediction; half a minute
	CI=true TEST_SPEED=full go test -count=1 -v -run 'TestHeadline' ./systemtest

proxies: ## test a real node behind Caddy and HAProxy; needs both: apt-get install caddy haproxy
	CI=true TEST_SPEED=full go test -tags proxies -count=1 -v -run 'TestProxies' ./systemtest

soak-kills: ## kill leaders and whole clusters KILLS times during counts and transfers, change limits 1000 times, and print the figures; minutes
	CI=true TEST_SPEED=full SOAK_KILLS=$(KILLS) SOAK_CHANGES=1000 SOAK_BANK_SECONDS=60 go test -count=1 -timeout 1h -v -run 'TestDurable|TestThousandChanges|TestBank' ./systemtest

# A row is written when its fault is over. An interrupted run leaves the old table;
# one in which a target was missed writes the new one, and fails.
faults: ## inject every fault into real processes and write docs/development/faults.md; 25 minutes; needs root and iproute2
	@rows=$$(mktemp)
	trap 'rm -f "$$rows"' EXIT
	status=0
	CI=true TEST_SPEED=full SOAK_FAULTS=1 FAULTS_ROWS="$$rows" go test -count=1 -timeout 2h -v -run '^TestFault' ./systemtest || status=$$?
	[[ -s $$rows ]] || exit "$$status"
	cat systemtest/testdata/faults-head.md "$$rows" > docs/development/faults.md
	exit "$$status"

power-loss: ## cut the power of nodes CUTS times and write docs/development/power-loss.md; 10 minutes; needs root and /dev/fuse
	@rows=$$(mktemp)
	trap 'rm -f "$$rows"' EXIT
	status=0
	CI=true TEST_SPEED=full POWER_CUTS=$(CUTS) POWER_ROWS="$$rows" go test -count=1 -timeout 2h -v -run '^TestPowerLoss$$' ./systemtest || status=$$?
	[[ -s $$rows ]] || exit "$$status"
	{
		cat systemtest/testdata/power-loss-head.md
		echo "**This run**: $$(LC_ALL=C date -u '+%-d %B %Y'), commit $$(git rev-parse --short HEAD), $(MACHINE); $(CUTS) cuts."
		echo
		echo '| seed | cuts: at the first start, at work, at a start | lost: sectors, sizes, names; not synced and there | operations | moves applied | calls made again, answered as repeated | unknown | linearizable | versions of limits |'
		echo '|---:|---|---|---:|---:|---:|---:|---|---|'
		cat "$$rows"
	} > docs/development/power-loss.md
	exit "$$status"

mutations: ## plant small bugs in the core, find the quick test that catches each, and write docs/development/mutations.md; half an hour
	@rows=$$(mktemp)
	trap 'rm -f "$$rows"' EXIT
	status=0
	MUTATIONS=1 MUTATIONS_ROWS="$$rows" go test -count=1 -timeout 3h -v -run '^TestMutations$$' ./internal/mutation || status=$$?
	[[ -s $$rows ]] || exit "$$status"
	{
		cat internal/mutation/page-head.md
		echo "**This run**: $$(LC_ALL=C date -u '+%-d %B %Y'), commit $$(git rev-parse --short HEAD)."
		echo
		echo '| mutation | file | found by |'
		echo '|---|---|---|'
		cat "$$rows"
	} > docs/development/mutations.md
	exit "$$status"

mended-faults: ## take the mends of known faults out one at a time, see the test of each fail, and write docs/development/mended-faults.md; half an hour
	@rows=$$(mktemp)
	trap 'rm -f "$$rows"' EXIT
	status=0
	TEST_SPEED=full MUTATIONS=1 MUTATIONS_ROWS="$$rows" go test -count=1 -timeout 3h -v -run '^TestReview$$' ./internal/mutation || status=$$?
	[[ -s $$rows ]] || exit "$$status"
	{
		cat internal/mutation/review-head.md
		echo "**This run**: $$(LC_ALL=C date -u '+%-d %B %Y'), commit $$(git rev-parse --short HEAD), $(MACHINE)."
		echo
		echo '| what went wrong | mend taken out of | found by | which says |'
		echo '|---|---|---|---|'
		cat "$$rows"
	} > docs/development/mended-faults.md
	exit "$$status"

seeded-faults: ## plant one bug at a time in the program, find the test that catches it, and write docs/development/seeded-faults.md; half an hour; needs root, iproute2 and /dev/fuse
	@rows=$$(mktemp)
	trap 'rm -f "$$rows"' EXIT
	status=0
	CI=true TEST_SPEED=full SEEDED_FAULTS=1 SEEDED_ROWS="$$rows" go test -count=1 -timeout 2h -v -run '^TestSeededFaults$$' ./systemtest || status=$$?
	[[ -s $$rows ]] || exit "$$status"
	{
		cat systemtest/testdata/seeded-faults-head.md
		echo "**This run**: $$(LC_ALL=C date -u '+%-d %B %Y'), commit $$(git rev-parse --short HEAD), $(MACHINE)."
		echo
		echo '| fault | file | found by | with the message |'
		echo '|---|---|---|---|'
		cat "$$rows"
	} > docs/development/seeded-faults.md
	exit "$$status"

# RUNS of LENGTH seconds each. A run takes a third longer, for starting and checking.
histories: ## check RUNS histories of accounts under faults and write docs/development/histories.md; 30 minutes; needs root and iproute2
	@rows=$$(mktemp)
	trap 'rm -f "$$rows"' EXIT
	status=0
	CI=true TEST_SPEED=full HISTORIES_RUNS=$(RUNS) HISTORIES_SECONDS=$(LENGTH) HISTORIES_ROWS="$$rows" go test -count=1 -timeout 2h -v -run '^TestHistories$$' ./systemtest || status=$$?
	[[ -s $$rows ]] || exit "$$status"
	{
		cat systemtest/testdata/histories-head.md
		echo "**This run**: $$(LC_ALL=C date -u '+%-d %B %Y'), commit $$(git rev-parse --short HEAD), $(MACHINE); $(RUNS) runs of $(LENGTH) s."
		echo
		echo '| seed | faults | operations | moves applied | calls made again, answered as repeated | unknown | linearizable | hard limit: admitted | beyond it |'
		echo '|---:|---|---:|---:|---:|---:|---|---:|---:|'
		cat "$$rows"
	} > docs/development/histories.md
	exit "$$status"

# The table is printed when all is played: an interrupted run leaves the old one. The
# first lines are of the file, so that who reads it knows where it is from.
reach: ## play examples/sim/reach and write docs/development/accuracy-table.md; 4 minutes on 2 processors
	@out=$$(mktemp)
	trap 'rm -f "$$out"' EXIT
	go build -trimpath -o bin/ ./cmd/quorate
	status=0
	bin/quorate sim -o markdown examples/sim/reach/*.yaml > "$$out" || status=$$?
	[[ -s $$out ]] || exit "$$status"
	{
		echo '<!-- Written by "make reach": quorate sim -o markdown examples/sim/reach/*.yaml. Do not edit. -->'
		echo
		echo '# The accuracy table'
		echo
		cat "$$out"
	} > docs/development/accuracy-table.md
	exit "$$status"

campaign: ## play CAMPAIGN random fault scenarios in the simulator, starting with SEED; 10,000 take 2 minutes
	go run ./cmd/quorate sim --campaign $(CAMPAIGN) --seed $(SEED)

lint: ## run golangci-lint
	$(TOOL) golangci-lint run ./...

recording: ## run the README's first minute and draw docs/images/first-minute.svg; needs python3 and the ports of quorate dev
	go build -trimpath -o bin/ ./cmd/quorate
	python3 tools/recording.py bin/quorate docs/images/first-minute.svg

site: ## build a site from docs in site/; needs mkdocs and its theme: apt-get install mkdocs-material
	mkdocs build --strict

generate: ## write api/gen, docs/openapi.json and docs/reference from api/proto
	$(TOOL) buf generate
	go test ./api/rest -run OpenAPIPublished -rewrite
	go test ./internal/doctest -run Reference -rewrite

format: ## format Go files and protos in place
	$(FILES) | xargs -r $(TOOL) golangci-lint fmt
	$(TOOL) buf format -w

verify: check-format check-vet check-platforms check-bench check-deploy check-release check-tidy check-proto check-breaking check-generated check-dead check-arch check-prose lint ## run all checks except tests; changes no file

check-format: ## check that Go files are formatted
	@bad=$$($(FILES) | xargs -r $(TOOL) gofumpt -l)
	if [[ -n $$bad ]]; then
		echo "not formatted, run: make format"
		echo "$$bad"
		exit 1
	fi

check-vet: ## run go vet
	go vet ./...
	go vet -tags proxies ./systemtest

# The tests of processes use signals and network namespaces of Linux. Vetting compiles all
# dependencies, two minutes of CPU for each platform; deadcode only type-checks all source, tests
# included, and fails if that does: half a minute.
check-platforms: ## vet programs, libraries and their tests for the platforms OTHERS; type-check them for all other PLATFORMS
	@packages=$$(go list ./... | grep -v /systemtest)
	deadcode=$$($(TOOL) -n deadcode)
	for platform in $(PLATFORMS); do
		export GOOS=$${platform%/*} GOARCH=$${platform#*/} CGO_ENABLED=0
		if [[ " $(OTHERS) " == *" $$platform "* ]]; then
			echo "go vet for $$platform"
			go vet $$packages
		elif [[ $$platform != "$$(env -u GOOS -u GOARCH go env GOOS)/$$(env -u GOOS -u GOARCH go env GOARCH)" ]]; then
			echo "type-check for $$platform"
			$$deadcode -test $$packages > /dev/null
		fi
	done

check-bench: ## vet and test the bench suite, a module of its own that ./... does not include
	@cd bench
	go vet ./...
	go test ./...

check-deploy: ## vet and test deploy, a module of its own; DEPLOY=-short does not build a release twice
	@cd deploy/check
	go vet ./...
	CI=true go test $(DEPLOY) -count=1 -timeout 30m ./...

check-release: ## dry-run the next release: version, changelog, notes, install lines; a second
	@tools/release.sh $(patsubst %-dev,%,$(DEVEL)) > /dev/null

check-tidy: ## check that go.mod and go.sum match the code
	go mod tidy -diff

check-proto: ## check that protos are well-formed and formatted
	$(TOOL) buf lint
	$(TOOL) buf format -d --exit-code

check-breaking: ## check that protos are compatible with BASE
	@if [[ -z "$(BASE)" ]] || ! git cat-file -e "$(BASE):api/proto" 2>/dev/null; then
		echo "buf breaking: skipped, no earlier commit here holds protos"
		exit 0
	fi
	old=$$(mktemp -d)
	trap 'rm -rf "$$old"' EXIT
	git archive "$(BASE)" buf.yaml api/proto | tar -x -C "$$old"
	echo "buf breaking: against $(BASE)"
	$(TOOL) buf breaking --against "$$old"

check-generated: ## check that api/gen matches the protos
	@new=$$(mktemp -d)
	trap 'rm -rf "$$new"' EXIT
	$(TOOL) buf generate -o "$$new"
	git --no-pager diff --no-index --stat --exit-code api/gen "$$new/api/gen" || { echo "api/gen is out of date, run: make generate"; exit 1; }

# Of pages that show help texts as code, and code is not prose, the text alone is checked.
check-prose: ## check the English of pages, help texts, protos and Go comments with Vale
	@help=$$(mktemp -d)
	trap 'rm -rf "$$help"' EXIT
	for page in docs/reference/cli/*.md; do
		sed '/^```/d' "$$page" > "$$help/$$(basename "$$page" .md).txt"
	done
	files=$$(git ls-files '*.md' 'api/proto/*.proto' '*.go' | grep -v -e '_test\.go$$' -e '^api/gen/')
	$(TOOL) vale --no-global --output=line $$files "$$help"

# A function that only tests reach is dead too: they hold it alive for nobody.
check-dead: ## check that a program reaches every function, or tools/deadcode-allow.txt says why not
	@found=$$($(TOOL) deadcode -f '{{range .Funcs}}{{println $$.Path .Name}}{{end}}' ./... | sed "s,^$$(go list -m)/,,")
	dead=$$(grep -vEf <(grep -v -e '^#' -e '^$$' tools/deadcode-allow.txt) <<<"$$found" | grep . || true)
	if [[ -n $$dead ]]; then
		echo "reached by no program; remove it, or say in tools/deadcode-allow.txt why it stays:"
		echo "$$dead"
		exit 1
	fi

# Not part of verify: what it says changes without a change here.
check-vulns: ## check with govulncheck that the code calls no known vulnerability; skipped if the database (GOVULNDB) does not answer
	@db=$${GOVULNDB:-https://vuln.go.dev}
	if ! curl -fsS -m 10 -o /dev/null "$$db/index/db.json"; then
		echo "govulncheck: $$db is not reachable, skipped"
		exit 0
	fi
	$(TOOL) govulncheck -db "$$db" ./...

check-arch: ## check that pure packages are pure and the client links no server
	go test -count=1 ./internal/archtest

bench: ## run benchmarks; compare two outputs with benchstat
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG)

bench-peers: ## benchmark Quorate and its peers, and write docs/performance; QUICK=1 prints tables after three minutes instead
	cd bench
	go run ./cmd/peers $(if $(QUICK),-quick,-out ../docs/performance) $(if $(ONLY),-only '$(ONLY)')

bench-accounts: ## benchmark accounts against etcd and Redis, measure idle nodes, and write docs/performance; QUICK=1 prints tables instead; needs etcd-server, redis-server and linux-perf; ten minutes
	cd bench
	go run ./cmd/peers -only '^accounts|^idle' $(if $(QUICK),-quick,-out ../docs/performance)

behaviour: ## measure what three real nodes admit in a burst, and when a node dies, returns or is added; a minute
	cd bench
	go run ./cmd/behaviour

scale: ## compare simulated clusters of doubling size, and one of NODES nodes and SCALEKEYS keys, with the cost model; some minutes
	cd bench
	go run ./cmd/scale
	go run ./cmd/scale -nodes $(NODES) -keys $(SCALEKEYS) -ranges 64 -double=false

scale-real: ## measure CPU and memory in clusters of 3, 6, 12 and 24 real nodes, idle and with 100 checks a second per node; four minutes
	cd bench
	go run ./cmd/scale -real 24

soak: ## run soak-load while nodes are killed and paused, disks fill up and clocks jump; check exact counts and write docs/performance/soak.md; needs root to fill a disk
	cd bench
	go run ./cmd/soak -faults -duration $(DURATION) -out ../docs/performance/soak.md

soak-load: ## send three real nodes 70 % of their maximum for DURATION while keys come and go; check that memory and latency stay flat
	cd bench
	go run ./cmd/soak -duration $(DURATION) -latency=$(LATENCY)

# The tests of a package are built once for all its targets: as go test does it,
# which would link them again for each. Then two targets run at a time, on half the
# processors each: a target also starts and ends, and waits meanwhile.
#
# When the time is over in the middle of an input, a target may say that its own
# deadline was exceeded and call that a failure, without a failing input and in a
# line that says nothing else. Such a run says nothing, and is made again.
fuzz: ## run each fuzz target for FUZZTIME
	@work=$$(mktemp -d)
	trap 'rm -rf "$$work"' EXIT
	cache=$$(go env GOCACHE)/fuzz/$$(go list -m)
	workers=$$(( ($$(nproc) + 1) / 2 ))
	target() {
		local dir=$$1 name=$$2 log=$$work/$$2.log try
		for try in 1 2 3; do
			if (cd "$$dir" && "$$work/test" -test.run '^$$' -test.fuzz "^$$name\$$" -test.fuzztime $(FUZZTIME) -test.parallel "$$workers" \
				-test.fuzzminimizetime 10x -test.fuzzcachedir "$$cache/$${dir#./}") </dev/null >"$$log" 2>&1; then
				echo "fuzz $${dir#./} $$name $(FUZZTIME): $$(grep -E '^fuzz: elapsed' "$$log" | tail -1)"
				return
			fi
			if [[ $$try -eq 3 ]] || grep -q 'Failing input written' "$$log" || ! grep -qE '^ +context deadline exceeded$$' "$$log"; then
				echo "fuzz $${dir#./} $$name failed"
				cat "$$log"
				return 1
			fi
		done
	}
	status=0
	while read -r dir names; do
		go test -c -vet=off $(FUZZBUILD) -o "$$work/test" "$$dir"
		under_way=()
		for name in $$names; do
			target "$$dir" "$$name" &
			under_way+=("$$!")
			if [[ $${#under_way[@]} -ge 2 ]]; then
				wait "$${under_way[0]}" || status=1
				under_way=("$${under_way[@]:1}")
			fi
		done
		for pid in "$${under_way[@]}"; do wait "$$pid" || status=1; done
	done < <(grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed -E 's|/[^/]*:func | |' | sort |
		awk '{ of[$$1] = of[$$1] " " $$2 } END { for (dir in of) print dir of[dir] }' | sort)
	exit "$$status"
