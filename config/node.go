package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/series"
)

// Node is the settings of one node: what `quorate serve --config` reads.
type Node struct {
	// Cluster is the name that all nodes of a cluster share. A node never
	// joins a cluster of another name.
	Cluster string
	// Node is this node's id, unique in the cluster.
	Node quota.NodeID
	// Data is the directory for everything durable; data/<node> by default.
	Data string
	// Nodes are the nodes that the cluster is made of, this one included; the
	// same list on every node. By default it is this node alone.
	Nodes []Peer
	// Listen is where this node serves.
	Listen Listen
	// Limits is a limit file, loaded when the cluster has no limits yet; empty
	// for none.
	Limits string
	// Ranges is how many ranges the keys are split into, 1 to 256. It is fixed
	// when the cluster is made.
	Ranges int
	// Replicas is how many nodes keep each range: 1, 3 or 5. A cluster of
	// fewer nodes keeps every range on each of them.
	Replicas int
	// Sync is how often a member reports to the leaders, 10ms to 10s.
	Sync time.Duration
	// MaxKeys bounds the keys that this node counts at the same time.
	MaxKeys int
	// Idle is how long a key may be unused before it is dropped.
	Idle time.Duration
	Log  Log
	Raft Raft
	// Debug is the address where profiles are served, for admins; empty for none.
	Debug string
	// Redis is the address where the Redis protocol is served; empty for none.
	Redis string
	// Hosts are the names that HTTP callers may use for the node, besides addresses, localhost
	// and names outside the public DNS. They apply while authentication is off, against DNS
	// rebinding: another site could otherwise point its own name at this node.
	Hosts []string
	// Protocols are the protocols of others that are served.
	Protocols Protocols
	// Connections bounds the connections of each of the HTTP and the gRPC port.
	Connections Connections
	// Metrics bounds what GET /metrics shows.
	Metrics Metrics
	// History says what is kept of what was asked of every limit.
	History History
	// Auth is how callers of the API are known.
	Auth Auth
	// Access is who may do what.
	Access Access
	// Join are addresses (gRPC, host:port) of members through which a node without
	// data joins. A host name that stands for several addresses is tried at each.
	Join []string
	// TokenFile holds the join token; empty when a node certificate lets it in.
	TokenFile string
	// Bootstrap names the node that makes the cluster when it has no data and no
	// member answers at Join; empty for none.
	Bootstrap string
	// Zone is a label of where the node stands: replicas are spread over zones.
	Zone string
	// Advertise is the host at which others reach this node, with the ports of
	// Listen; the hosts of Listen by default.
	Advertise string
	// DeadAfter is how long a node must have been silent before its replicas are
	// given to others; 0 is never.
	DeadAfter time.Duration
	// Linger is how long a node that is told to stop goes on answering, not ready and
	// leading nothing, so that load balancers and proxies notice; 0 to 1m.
	Linger time.Duration
	TLS    TLS
}

// Protocols are the protocols of others that a node serves, on its ports for gRPC and
// HTTP.
type Protocols struct {
	// EnvoyRLS is envoy.service.ratelimit.v3, and POST /json.
	EnvoyRLS bool
	// EnvoyRLSConfig is a configuration of envoyproxy/ratelimit, a file or a directory of
	// them, that is served as it is; empty for none.
	EnvoyRLSConfig string
	// EnvoyRLSHeaders are the fields that Envoy is to add to its answers: one of
	// HeadersIETF, HeadersLegacy, HeadersBoth and HeadersNone.
	EnvoyRLSHeaders string
	// EnvoyRLSOverrides lets callers of it bring limits along.
	EnvoyRLSOverrides bool
	// EnvoyRLQS is envoy.service.rate_limit_quota.v3.
	EnvoyRLQS bool
	// Gubernator is pb.gubernator.V1, and its HTTP paths.
	Gubernator bool
	// ForwardAuth is the HTTP check for proxies.
	ForwardAuth bool
}

// Values of Protocols.EnvoyRLSHeaders.
const (
	HeadersIETF   = "ietf"   // RateLimit, RateLimit-Policy
	HeadersLegacy = "legacy" // RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset
	HeadersBoth   = "both"
	HeadersNone   = "none"
)

// TLS is how connections are secured.
type TLS struct {
	// Mode is auto: by the certificates in Data/pki, which "quorate init" and
	// joining put there, or by the operator's files below; or off.
	Mode string
	// CA, Cert and Key are certificates of the operator's own: what is trusted,
	// and what this node shows. They are read again when they change.
	CA, Cert, Key string
	// CAKey is the key of CA: with it, and without Cert, the node signs its own
	// certificate, and the cluster signs those of others.
	CAKey string
}

// Values of TLS.Mode.
const (
	TLSAuto = "auto"
	TLSOff  = "off"
)

// Values of Auth.Mode.
const (
	AuthAuto = "auto" // on where the API ports have TLS
	AuthOn   = "on"
	AuthOff  = "off"
)

// Auth is how callers of the API are known.
type Auth struct {
	Mode string // AuthAuto, AuthOn or AuthOff
	OIDC OIDC   // whose JWTs are taken; without an issuer, nobody's
}

// OIDC is an OpenID Connect issuer.
type OIDC struct {
	Issuer, Audience           string
	IdentityClaim, GroupsClaim string // empty for the usual ones
}

// Access is who may do what, besides what the cluster keeps itself.
type Access struct {
	// Bindings give roles and permissions on this node, where authentication is on.
	Bindings []rbac.Binding
	// Grants is all that is granted on the administration service of durable
	// quotas; nil is everything, to everybody, where authentication is off.
	Grants []access.Grant
}

// Peer is one node of the cluster, and where the others reach it.
type Peer struct {
	ID   quota.NodeID
	Peer string // host:port
}

// Listen is the addresses that a node serves on, host:port each. Port 0 takes
// any free port.
type Listen struct {
	HTTP string
	GRPC string
	Peer string // from other nodes; this node's address in Nodes by default
}

// Connections bounds the connections of a port.
type Connections struct {
	Total      int
	PerAddress int // of one client address among them
}

// Metrics bounds what the metrics of a node name.
type Metrics struct {
	Limits  int // limits with series of their own; the others are counted together
	TopKeys int // busiest keys that are named; 0 is none
}

// History says what a node keeps of the history of limits.
type History struct {
	Keep    bool          // the same on all nodes
	Minutes time.Duration // how long points of a minute are kept
	Hours   time.Duration // how long points of an hour are kept
	MaxMiB  int           // of its files on this node; the oldest days go first
}

// Log is how the node writes its log.
type Log struct {
	Level  slog.Level
	Format string // text or json
}

// Raft is the timing of the Raft groups.
type Raft struct {
	Heartbeat time.Duration // without one for so long, a follower stands for election
	Election  time.Duration // how long a candidate waits for votes; at least Heartbeat
	Lease     time.Duration // how long a leader leads without its quorum; at most Heartbeat

	BalanceAfter time.Duration // how long a node must have been connected to be given leadership
	SlowDisk     time.Duration // appends that take so long, on average, make it give leadership away
}

// Default returns the settings of a node that is given none: a cluster of one.
func Default() Node {
	n := defaults()
	n.complete(func(string) bool { return false })
	return n
}

// defaults returns the settings before those that follow from others.
func defaults() Node {
	return Node{
		Cluster:     "quorate",
		Node:        "n1",
		Listen:      Listen{HTTP: "127.0.0.1:7411", GRPC: "127.0.0.1:7412", Peer: "127.0.0.1:7413"},
		Ranges:      64,
		Replicas:    3,
		Sync:        100 * time.Millisecond,
		MaxKeys:     1_000_000,
		Idle:        10 * time.Minute,
		Log:         Log{Level: slog.LevelInfo, Format: "text"},
		DeadAfter:   5 * time.Minute,
		TLS:         TLS{Mode: TLSAuto},
		Raft:        Raft{Heartbeat: time.Second, Election: time.Second, Lease: 500 * time.Millisecond, BalanceAfter: 10 * time.Second, SlowDisk: 500 * time.Millisecond},
		Auth:        Auth{Mode: AuthAuto},
		Connections: Connections{Total: 20_000, PerAddress: 4096},
		Metrics:     Metrics{Limits: series.DefaultLimits},
		History:     History{Keep: true, Minutes: 30 * 24 * time.Hour, Hours: 2 * 365 * 24 * time.Hour, MaxMiB: 4096},
		Protocols:   Protocols{EnvoyRLS: true, EnvoyRLSHeaders: HeadersIETF, EnvoyRLQS: true, ForwardAuth: true},
	}
}

// complete derives what is not given from what is.
func (n *Node) complete(given func(path string) bool) {
	if n.Data == "" {
		n.Data = filepath.Join("data", string(n.Node))
	}
	if len(n.Nodes) == 0 {
		n.Nodes = []Peer{{ID: n.Node, Peer: n.Listen.Peer}}
		return
	}
	for _, p := range n.Nodes {
		if p.ID == n.Node && !given("listen.peer") {
			n.Listen.Peer = p.Peer
		}
	}
}

// LoadNode returns the defaults, overridden by the file, overridden by the
// environment (see [Variables]). An empty path reads no file. Its error holds
// a *FileError for the file, for the environment, or both, unless the file
// cannot be read at all.
func LoadNode(path string) (Node, error) {
	return loadNode(path, os.Environ())
}

func loadNode(path string, environ []string) (Node, error) {
	s := newSettings(path, nil)
	if path != "" {
		data, err := readFile(path)
		if err != nil {
			return Node{}, err
		}
		s = newSettings(path, data)
		s.readFile()
	}
	s.readEnviron(environ)
	return s.finish()
}

// LoadNodeText is LoadNode for a text instead of a file. source names it in errors;
// relative paths in it start from the directory of source.
func LoadNodeText(source string, data []byte) (Node, error) {
	s := newSettings(source, data)
	s.readFile()
	s.readEnviron(os.Environ())
	return s.finish()
}

// ParseNode reads node settings over the defaults, without the environment.
// Its error is a *FileError with every fault, in which source names the file;
// relative paths in it start from the directory of source.
func ParseNode(source string, data []byte) (Node, error) {
	s := newSettings(source, data)
	s.readFile()
	return s.finish()
}
