package archtest

import "slices"

// Module is the path of the module whose packages the rules name.
const Module = "github.com/quorate/quorate"

// Kind says which checks beyond the import table a package must pass.
type Kind uint8

const (
	// Pure packages are functions of their arguments: purity and manners.
	Pure Kind = iota
	// Seeded packages repeat exactly from a seed: no clock, no goroutine, no
	// unseeded random number; manners.
	Seeded
	// Library packages do I/O and run goroutines: manners.
	Library
	// Command packages are programs; they may print, log and exit.
	Command
	// Support packages help tests and may import testing. Only tests import
	// them.
	Support
	// Generated packages are written by a tool: the import table only.
	Generated
)

// Rule is one room of the house.
type Rule struct {
	Package    string   // path in the module; a final /... covers all below it, and itself
	Job        string   // what the room is for; shown in failures
	Kind       Kind     // which checks apply
	May        []string // module packages it may import, each perhaps with /...
	ThirdParty []string // modules it may import, subpackages included
	Closed     bool     // what it imports may not pull in more of the module than May lists
}

// anything, in May or ThirdParty, allows every package that no other rule
// keeps away.
const anything = "..."

const (
	protobuf = "google.golang.org/protobuf"
	grpc     = "google.golang.org/grpc"
	genproto = "google.golang.org/genproto/googleapis"
	metrics  = "github.com/prometheus/client_golang"
	otel     = "go.opentelemetry.io/otel"
	xsync    = "github.com/puzpuzpuz/xsync/v4"
	errgroup = "golang.org/x/sync"
	sys      = "golang.org/x/sys"
	yaml     = "go.yaml.in/yaml/v4"
	hclog    = "github.com/hashicorp/go-hclog"
	gometric = "github.com/hashicorp/go-metrics"
	raft     = "github.com/hashicorp/raft"
	raftBolt = "github.com/hashicorp/raft-boltdb"
	bbolt    = "go.etcd.io/bbolt"
	btree    = "github.com/tidwall/btree"
	oidc     = "github.com/coreos/go-oidc/v3"
	backoff  = "github.com/cenkalti/backoff/v5"
	envoy    = "github.com/envoyproxy/go-control-plane/envoy"
	pace     = "golang.org/x/time"
)

// Rules is the house, one entry per package. The first match counts. Imports
// run one way: quota <- limiter, shard <- leader, aggregator <- cluster <- cmd.
var Rules = []Rule{
	{
		Package: "internal/quota", Kind: Pure,
		Job: "is the vocabulary that everybody shares, a leaf",
	},
	{
		Package: "internal/limiter/limitertest", Kind: Support,
		Job: "is the one test suite for all algorithms",
		May: []string{"internal/quota", "internal/limiter"},
	},
	{
		Package: "internal/limiter", Kind: Pure,
		Job: "holds the algorithms on integers",
		May: []string{"internal/quota"},
	},
	{
		Package: "internal/descriptor", Kind: Pure,
		Job: "matches the descriptors of Envoy's rate limit protocols with limits",
		May: []string{"internal/quota"},
	},
	{
		Package: "internal/account", Kind: Pure,
		Job: "is the state machine of durable quotas in one range",
		May: []string{"internal/quota", "api/gen/..."},
	},
	{
		Package: "internal/rbac", Kind: Pure,
		Job: "says who may do what: permissions, roles, bindings, tokens",
		May: []string{"internal/quota", "api/gen/..."},
	},
	{
		Package: "asi", Kind: Pure,
		Job: "puts sections together into one application-specific identifier, a leaf",
	},
	{
		Package: "internal/nearest", Kind: Pure,
		Job: "finds what a mistyped word was meant to be, a leaf",
	},
	{
		Package: "internal/missing", Kind: Pure,
		Job: "says in words that a limit is not there, and what was probably meant",
		May: []string{"internal/nearest", "internal/quota"},
	},
	{
		Package: "internal/bound", Kind: Pure,
		Job: "says how wrong a limit can be",
		May: []string{"internal/quota"},
	},
	{
		Package: "internal/monitor", Kind: Support,
		Job: "is the catalogue of metrics, and the dashboard, rules and alerts made of it",
	},
	{
		Package: "internal/tracing/export", Kind: Library,
		Job:        "sends spans to where OpenTelemetry's own variables say",
		May:        []string{"internal/tracing"},
		ThirdParty: []string{otel},
	},
	{
		Package: "internal/tracing", Kind: Library,
		Job:        "is what the edges of a node use of OpenTelemetry",
		ThirdParty: []string{otel},
	},
	{
		Package: "deploy/check", Kind: Support,
		Job: "holds what is in deploy to the program",
		May: []string{anything}, ThirdParty: []string{anything},
	},
	{
		Package: "internal/logs", Kind: Library,
		Job: "keeps a node's log within a budget",
	},
	{
		Package: "internal/series", Kind: Library,
		Job: "bounds what metrics have series of their own",
		May: []string{"internal/quota"},
	},
	{
		Package: "internal/history", Kind: Pure,
		Job: "adds up what was asked of every limit, second by second",
		May: []string{"internal/quota"},
	},
	{
		Package: "internal/gcpace", Kind: Library,
		Job: "has a busy process collect its garbage less often",
	},
	{
		Package: "internal/top", Kind: Library,
		Job:        "is the screen of quorate top",
		May:        []string{"api/gen/..."},
		ThirdParty: []string{"charm.land/bubbletea/v2", "github.com/charmbracelet/x/ansi", protobuf},
	},
	{
		Package: "internal/plan", Kind: Seeded,
		Job: "says what other limits would have done, and when one is too small",
		May: []string{"internal/history", "internal/limiter", "internal/quota"},
	},
	{
		Package: "internal/history/export", Kind: Library,
		Job:        "writes the history of limits in the forms of other programs",
		ThirdParty: []string{"github.com/parquet-go/parquet-go"},
	},
	{
		Package: "internal/history/archive", Kind: Library,
		Job:        "keeps the history of limits on disk",
		May:        []string{"internal/history", "internal/quota"},
		ThirdParty: []string{bbolt},
	},
	{
		Package: "internal/zone", Kind: Library,
		Job: "knows the time zones, the same on all nodes",
	},
	{
		Package: "internal/pki", Kind: Library,
		Job: "knows who is at the other end: certificates, tokens, TLS",
		May: []string{"internal/quota"},
	},
	{
		Package: "internal/events", Kind: Library,
		Job: "passes what happens on a node on to who watches",
		May: []string{"internal/quota"},
	},
	{
		Package: "internal/grantwait", Kind: Library,
		Job: "lets decisions wait for the next grant of their key",
		May: []string{"internal/quota"},
	},
	{
		Package: "internal/peerproto", Kind: Library,
		Job: "writes reports and grants as messages, and reads them",
		May: []string{"internal/quota", "api/gen/..."},
	},
	{
		Package: "internal/limitproto", Kind: Library,
		Job: "writes limits and overrides as messages, and reads them",
		May: []string{"internal/quota", "internal/zone", "api/gen/..."},
	},
	{
		Package: "internal/attach", Kind: Library,
		Job: "is what a node and the server of client processes say to each other",
		May: []string{"internal/quota", "api/gen/..."},
	},
	{
		Package: "internal/benchtest", Kind: Support,
		Job:        "compares what is measured with a reference in the same run",
		ThirdParty: []string{sys},
	},
	{
		Package: "internal/golden", Kind: Support,
		Job:        "holds what a test makes to a file that is kept, and shows the difference",
		ThirdParty: []string{"github.com/rogpeppe/go-internal"},
	},
	{
		Package: "internal/filltest", Kind: Support,
		Job: "fills values for tests of codecs",
		May: []string{"internal/zone"},
	},
	{
		Package: "internal/backup", Kind: Library,
		Job: "is the form of a backup: written and read in one pass, every byte under a checksum",
	},
	{
		Package: "shard", Kind: Pure,
		Job: "maps keys to ranges and plans who holds them",
		May: []string{"internal/quota"},
	},
	{
		Package: "leader", Kind: Pure,
		Job: "is the ledger of one range: reports in, grants out",
		May: []string{"internal/quota", "internal/limiter", "shard"},
	},
	{
		Package: "aggregator", Kind: Pure,
		Job: "is a member's table of keys: local decision, counting, batching",
		May: []string{"internal/quota", "internal/limiter", "shard"},
	},
	{
		Package: "branch", Kind: Pure,
		Job: "is the ledger of a node's own clients: what it holds, divided among them",
		May: []string{"internal/quota", "internal/limiter", "shard", "aggregator"},
	},
	{
		Package: "internal/sim/rules", Kind: Seeded,
		Job: "holds every rule of the limits to the real leader and aggregator",
		May: []string{"internal/quota", "leader", "aggregator"},
	},
	{
		Package: "internal/sim/scenario", Kind: Library,
		Job: "reads scenario files for the simulator, plays them and judges the outcome",
		May: []string{"internal/quota", "internal/sim", "config"},
	},
	{
		Package: "internal/sim", Kind: Seeded,
		Job: "simulates the real leader and aggregator from a seed",
		May: []string{"internal/quota", "internal/peerproto", "internal/bound", "internal/limiter", "shard", "leader", "aggregator", "branch"},
	},
	{
		Package: "cluster/wire", Kind: Library,
		Job:        "carries frames between nodes",
		May:        []string{"internal/quota", "api/gen/..."},
		ThirdParty: []string{protobuf, errgroup},
	},
	{
		Package: "cluster/multiraft", Kind: Library,
		Job:        "is the one shell around hashicorp/raft",
		May:        []string{"cluster/wire", "internal/quota", "shard", "api/gen/..."},
		ThirdParty: []string{raft, raftBolt, bbolt, hclog, gometric, protobuf, errgroup, metrics},
	},
	{
		Package: "cluster/journal", Kind: Library,
		Job:        "keeps what a member has counted where the death of the process does not lose it",
		May:        []string{"internal/quota", "aggregator"},
		ThirdParty: []string{sys},
	},
	{
		Package: "cluster/members", Kind: Library,
		Job:        "is who is in a cluster, as replicated state: data, driven by tests without a node",
		May:        []string{"internal/quota", "shard", "api/gen/..."},
		ThirdParty: []string{protobuf, grpc},
	},
	{
		Package: "cluster/accounts", Kind: Library,
		Job:        "keeps durable balances on the ranges: batches, transactions, reads",
		May:        []string{"cluster/wire", "cluster/multiraft", "internal/account", "internal/quota", "shard", "api/gen/..."},
		ThirdParty: []string{protobuf, metrics},
	},
	{
		Package: "cluster", Kind: Library,
		Job: "drives the pure packages with goroutines, clocks and connections",
		May: []string{
			"cluster/wire", "cluster/multiraft", "leader", "aggregator", "shard",
			"cluster/journal", "cluster/accounts", "cluster/members", "internal/account", "internal/backup", "internal/pki", "internal/bound", "internal/history", "internal/history/archive", "internal/quota", "internal/series", "internal/tracing", "internal/limiter", "internal/zone", "internal/events", "internal/rbac", "internal/grantwait", "internal/peerproto", "internal/limitproto", "internal/attach", "branch", "api/gen/...",
		},
		ThirdParty: []string{protobuf, grpc, genproto, errgroup, metrics, xsync},
	},
	{
		Package: "api/gen/...", Kind: Generated,
		Job:        "is generated from api/proto",
		May:        []string{"api/gen/..."},
		ThirdParty: []string{protobuf, grpc, genproto},
	},
	{
		Package: "api", Kind: Library,
		Job:        "serves the contract; it declares the interfaces that it needs and cmd passes the node in",
		May:        []string{"api/access", "api/auth", "internal/account", "internal/attach", "internal/peerproto", "internal/audit", "internal/history", "internal/history/export", "internal/missing", "internal/plan", "internal/nearest", "internal/pki", "internal/quota", "internal/series", "internal/tracing", "internal/rbac", "internal/zone", "docs/schema", "api/gen/..."},
		ThirdParty: []string{protobuf, grpc, genproto, metrics, errgroup},
	},
	{
		Package: "api/access", Kind: Library,
		Job: "says who may administer durable quotas: permissions in realms",
	},
	{
		Package: "api/auth", Kind: Library,
		Job:        "says who makes a call and whether they may",
		May:        []string{"api/access", "internal/descriptor", "internal/pki", "internal/quota", "internal/rbac", "api/gen/..."},
		ThirdParty: []string{protobuf, oidc},
	},
	{
		Package: "internal/console/e2e", Kind: Command,
		Job: "drives the console of real nodes in a browser",
	},
	{
		Package: "internal/console", Kind: Library,
		Job:        "serves the pages for operators and planners, by the API's own services",
		May:        []string{"api/auth", "internal/audit", "internal/rbac", "api/gen/..."},
		ThirdParty: []string{protobuf, grpc, genproto},
	},
	{
		Package: "internal/audit", Kind: Library,
		Job: "writes down who changed what",
	},
	{
		Package: "api/envoy", Kind: Library,
		Job:        "serves Envoy's rate limit service; it declares the interface that it needs",
		May:        []string{"api/front", "internal/descriptor", "internal/quota"},
		ThirdParty: []string{envoy, protobuf, grpc, metrics},
	},
	{
		Package: "api/rlqs/share", Kind: Pure,
		Job: "divides what a node gets of a limit among the proxies that report to it",
		May: []string{"internal/quota"},
	},
	{
		Package: "api/rlqs/rlqstest", Kind: Support,
		Job:        "is a proxy for tests, which behaves as Envoy's filter does",
		ThirdParty: []string{protobuf, grpc, envoy},
	},
	{
		Package: "api/rlqs", Kind: Library,
		Job:        "serves Envoy's rate limit quota service; it declares the interface that it needs",
		May:        []string{"api/rlqs/share", "api/front", "internal/descriptor", "internal/quota"},
		ThirdParty: []string{protobuf, grpc, metrics, envoy, pace},
	},
	{
		Package: "api/front", Kind: Library,
		Job:        "is what the protocols of others have in common on a node",
		May:        []string{"internal/descriptor", "internal/quota"},
		ThirdParty: []string{metrics},
	},
	{
		Package: "api/quotaservice", Kind: Library,
		Job:        "serves the wire protocol of square/quotaservice; it declares the interface that it needs",
		May:        []string{"internal/quota", "api/gen/..."},
		ThirdParty: []string{protobuf, grpc},
	},
	{
		Package: "api/gubernator", Kind: Library,
		Job:        "serves the wire protocol of gubernator; it declares the interface that it needs",
		May:        []string{"internal/quota", "internal/rbac", "api/gen/..."},
		ThirdParty: []string{protobuf, grpc, genproto},
	},
	{
		Package: "api/resp", Kind: Library,
		Job: "serves the Redis protocol; it declares the interface that it needs",
		May: []string{"api/auth", "internal/quota", "internal/rbac"},
	},
	{
		Package: "client", Kind: Library, Closed: true,
		Job:        "is linked into other people's services, so it stays thin",
		May:        []string{"aggregator", "internal/quota", "internal/limiter", "internal/grantwait", "internal/peerproto", "internal/pki", "internal/limitproto", "internal/missing", "internal/nearest", "internal/zone", "shard", "api/gen/..."},
		ThirdParty: []string{protobuf, grpc, genproto, xsync},
	},
	{
		Package: "client/extract", Kind: Library, Closed: true,
		Job:        "says whom a request is counted for, out of HTTP requests and gRPC calls",
		ThirdParty: []string{protobuf, grpc},
	},
	{
		Package: "client/internal/fields", Kind: Library,
		Job: "writes and reads RateLimit fields and Retry-After",
		May: []string{"client"},
	},
	{
		Package: "client/internal/gate", Kind: Library,
		Job: "is what middleware for HTTP and gRPC have in common: ask, and say what becomes of a request",
		May: []string{"client", "client/extract"},
	},
	{
		Package: "client/httplimit", Kind: Library,
		Job: "is middleware for net/http, linked into other people's services; it knows the client's interface only",
		May: []string{"client", "client/extract", "client/internal/fields", "client/internal/gate"},
	},
	{
		Package: "client/grpclimit", Kind: Library,
		Job:        "is middleware for gRPC, linked into other people's services; it knows the client's interface only",
		May:        []string{"client", "client/extract", "client/internal/fields", "client/internal/gate"},
		ThirdParty: []string{protobuf, grpc, genproto},
	},
	{
		Package: "client/requester", Kind: Library, Closed: true,
		Job: "limits functions: one takes a token before it runs",
		May: []string{"client", "aggregator", "internal/quota", "internal/limiter", "internal/grantwait", "internal/peerproto", "internal/pki", "internal/limitproto", "internal/missing", "internal/nearest", "internal/zone", "shard", "api/gen/..."},
	},
	{
		Package: "client/retry", Kind: Library, Closed: true,
		Job:        "calls again what was refused, with exponential pauses and full jitter",
		May:        []string{"client", "aggregator", "internal/quota", "internal/limiter", "internal/grantwait", "internal/peerproto", "internal/pki", "internal/limitproto", "internal/missing", "internal/nearest", "internal/zone", "shard", "api/gen/..."},
		ThirdParty: []string{grpc, genproto, backoff},
	},
	{
		Package: "client/promclient", Kind: Library, Closed: true,
		Job:        "makes Prometheus metrics of what a client does",
		May:        []string{"client", "aggregator", "internal/quota", "internal/limiter", "internal/grantwait", "internal/peerproto", "internal/pki", "internal/limitproto", "internal/missing", "internal/nearest", "internal/zone", "shard", "api/gen/..."},
		ThirdParty: []string{metrics},
	},
	{
		Package: "client/otelclient", Kind: Library, Closed: true,
		Job:        "makes OpenTelemetry metrics of what a client does",
		May:        []string{"client", "aggregator", "internal/quota", "internal/limiter", "internal/grantwait", "internal/peerproto", "internal/pki", "internal/limitproto", "internal/missing", "internal/nearest", "internal/zone", "shard", "api/gen/..."},
		ThirdParty: []string{otel},
	},
	{
		Package: "client/accounts", Kind: Library, Closed: true,
		Job:        "keeps durable quotas for other people's services, so it stays thin",
		May:        []string{"client", "aggregator", "internal/quota", "internal/limiter", "internal/grantwait", "internal/peerproto", "internal/pki", "internal/limitproto", "internal/missing", "internal/nearest", "internal/zone", "shard", "api/gen/..."},
		ThirdParty: []string{protobuf, grpc, genproto},
	},
	{
		Package: "config", Kind: Library,
		Job:        "loads settings and limit files for the packages that own them",
		May:        []string{"internal/nearest", "internal/account", "internal/descriptor", "internal/quota", "internal/series", "internal/zone", "leader", "aggregator", "shard", "cluster", "api", "api/access", "internal/rbac"},
		ThirdParty: []string{yaml},
	},
	{
		Package: "docs/schema", Kind: Library,
		Job: "has the JSON schemas of files, for editors",
	},
	{
		Package: "internal/doctest", Kind: Support,
		Job:        "holds the documents to what there is",
		ThirdParty: []string{"github.com/yuin/goldmark", "github.com/bufbuild/protocompile", protobuf},
	},
	{
		Package: "internal/archtest", Kind: Support,
		Job: "is the test of the house itself",
	},
	{
		Package: "cmd/...", Kind: Command,
		Job: "wires everything into programs",
		May: []string{anything}, ThirdParty: []string{anything},
	},
	{
		Package: "systemtest/...", Kind: Command,
		Job: "runs whole nodes against each other",
		May: []string{anything}, ThirdParty: []string{anything},
	},
	{
		Package: "bench/...", Kind: Command,
		Job: "measures",
		May: []string{anything}, ThirdParty: []string{anything},
	},
	{
		Package: "examples/...", Kind: Command,
		Job: "shows a user's program: it has only what a user has",
		May: []string{"client", "client/accounts", "client/extract", "client/httplimit", "client/grpclimit", "asi", "api/gen/..."}, ThirdParty: []string{anything},
	},
}

// ruleFor returns the entry for a package of the module, named by its path in
// the module.
func ruleFor(pkg string) (Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return covers(r.Package, pkg) })
	if i < 0 {
		return Rule{}, false
	}
	return Rules[i], true
}
