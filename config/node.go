package config

import (
	"log/slog"
	"os"
	"time"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/series"
)

// Node holds the settings of one node, which `quorate serve --config` reads.
type Node struct {
	// Cluster is the name that all nodes of a cluster share. A node never
	// joins a cluster of another name.
	Cluster string
	// Node is this node's id, unique in the cluster.
	Node quota.NodeID
	// Data is the directory for all durable data; data/<node> by default.
	Data string
	// Nodes lists all nodes of the cluster, including this one; the list must be the same on every
	// node. The default is this node alone.
	Nodes []Peer
	// Listen is where this node serves.
	Listen Listen
	// Limits is the path of a limit file that the node loads if the cluster has no limits yet;
	// empty for none.
	Limits string
	// Ranges is the number of ranges that the keys are split into, 1 to 256. It is fixed when the
	// cluster is created.
	Ranges int
	// Replicas is the number of nodes that keep each range: 1, 3 or 5. A smaller cluster keeps
	// every range on each of its nodes.
	Replicas int
	// Sync is how often a member reports to the leaders, 10ms to 10s.
	Sync time.Duration
	// MaxKeys bounds the keys that this node counts at once.
	MaxKeys int
	// Idle is how long a key may stay unused before the node drops it.
	Idle time.Duration
	Log  Log
	Raft Raft
	// Debug is the address that serves profiles to admins; empty for none.
	Debug string
	// Redis is the address that serves the Redis protocol; empty for none.
	Redis string
	// Hosts are the names that HTTP callers may use for the node, besides addresses, localhost
	// and names outside the public DNS. They apply while authentication is off, against DNS
	// rebinding: another site could otherwise point its own name at this node.
	Hosts []string
	// Protocols are the protocols of other systems that the node serves.
	Protocols Protocols
	// Connections bounds the connections of the HTTP port and of the gRPC port, each.
	Connections Connections
	// Metrics bounds the contents of GET /metrics.
	Metrics Metrics
	// History configures the history of demand on every limit.
	History History
	// Auth configures the authentication of API callers.
	Auth Auth
	// Access configures authorization.
	Access Access
	// Join lists addresses (gRPC, host:port) of members through which a node without data joins.
	// The node tries every address that a host name resolves to.
	Join []string
	// TokenFile holds the join token; empty if a node certificate authenticates the node.
	TokenFile string
	// Bootstrap names the node that creates the cluster if it has no data and no member answers at
	// Join; empty for none.
	Bootstrap string
	// Zone labels the node's location. Replicas are spread over zones.
	Zone string
	// Advertise is the host at which others reach this node, with the ports of Listen. The default
	// is the hosts of Listen.
	Advertise string
	// DeadAfter is how long a node must be silent before its replicas move to others; 0 is never.
	DeadAfter time.Duration
	// Linger is how long a stopping node keeps answering, not ready and without leaderships, so
	// that load balancers and proxies notice; 0 to 1m.
	Linger time.Duration
	TLS    TLS
}

// Protocols are the protocols of other systems that a node serves on its gRPC and HTTP ports.
type Protocols struct {
	// EnvoyRLS enables envoy.service.ratelimit.v3 and POST /json.
	EnvoyRLS bool
	// EnvoyRLSConfig is the path of an envoyproxy/ratelimit configuration, a file or a directory of
	// files, that the node serves unchanged; empty for none.
	EnvoyRLSConfig string
	// EnvoyRLSHeaders selects the fields that the node asks Envoy to add to its answers:
	// HeadersIETF, HeadersLegacy, HeadersBoth or HeadersNone.
	EnvoyRLSHeaders string
	// EnvoyRLSOverrides lets callers of EnvoyRLS send limits with their requests.
	EnvoyRLSOverrides bool
	// EnvoyRLQS enables envoy.service.rate_limit_quota.v3.
	EnvoyRLQS bool
	// Gubernator enables pb.gubernator.V1 and its HTTP paths.
	Gubernator bool
	// ForwardAuth enables the HTTP check for proxies.
	ForwardAuth bool
}

// Values of Protocols.EnvoyRLSHeaders.
const (
	HeadersIETF   = "ietf"   // RateLimit, RateLimit-Policy
	HeadersLegacy = "legacy" // RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset
	HeadersBoth   = "both"
	HeadersNone   = "none"
)

// TLS configures the security of connections.
type TLS struct {
	// Mode is auto or off. Auto uses the certificates in Data/pki, which "quorate init" and joining
	// put there, or the operator's files below.
	Mode string
	// CA, Cert and Key are files of the operator's own: the trusted CA, and the certificate and key
	// of this node. The node reads them again when they change.
	CA, Cert, Key string
	// CAKey is the key of CA. With it and without Cert, the node signs its own certificate, and the
	// cluster signs those of other nodes.
	CAKey string
}

// Values of TLS.Mode.
const (
	TLSAuto = "auto"
	TLSOff  = "off"
)

// Values of Auth.Mode.
const (
	AuthAuto = "auto" // on if the API ports have TLS
	AuthOn   = "on"
	AuthOff  = "off"
)

// Auth configures the authentication of API callers.
type Auth struct {
	Mode string // AuthAuto, AuthOn or AuthOff
	OIDC OIDC   // the accepted JWTs; without an issuer, none
}

// OIDC is an OpenID Connect issuer.
type OIDC struct {
	Issuer, Audience           string
	IdentityClaim, GroupsClaim string // empty for the usual claims
}

// Access configures authorization, in addition to what the cluster stores.
type Access struct {
	// Bindings grant roles and permissions on this node while authentication is on.
	Bindings []rbac.Binding
	// Grants lists all grants on the administration service of durable quotas while authentication
	// is off; nil grants everything to everybody.
	Grants []access.Grant
}

// Peer is one node of the cluster, and the address at which the others reach it.
type Peer struct {
	ID   quota.NodeID
	Peer string // host:port
}

// Listen holds the addresses that a node serves on, host:port each. Port 0 takes any free port.
type Listen struct {
	HTTP string
	GRPC string
	Peer string // for other nodes; this node's address in Nodes by default
}

// Connections bounds the connections of a port.
type Connections struct {
	Total      int
	PerAddress int // from one client address
}

// Metrics bounds what the metrics of a node name.
type Metrics struct {
	Limits  int // limits with their own series; the others are counted together
	TopKeys int // how many of the busiest keys are named; 0 names no keys
}

// History configures the history of limits that a node keeps.
type History struct {
	Keep    bool          // must be the same on all nodes
	Minutes time.Duration // how long minute points are kept
	Hours   time.Duration // how long hour points are kept
	MaxMiB  int           // of the history files on this node; the oldest days are deleted first
}

// Log configures the node's log.
type Log struct {
	Level  slog.Level
	Format string // text or json
}

// Raft is the timing of the Raft groups.
type Raft struct {
	Heartbeat time.Duration // a follower that hears no heartbeat for this long becomes a candidate
	Election  time.Duration // how long a candidate waits for votes; at least Heartbeat
	Lease     time.Duration // how long a leader stays leader without contact to a quorum; at most Heartbeat

	BalanceAfter time.Duration // how long a node must be connected before leaderships are transferred to it
	SlowDisk     time.Duration // a node hands over its leaderships if appends take this long on average
}

// Default returns the settings of a node without any configuration: a cluster of one.
func Default() Node {
	n := defaults()
	n.complete(func(string) bool { return false })
	return n
}

// defaults returns the defaults, without the settings that complete derives.
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

// complete derives missing settings from the given ones.
func (n *Node) complete(given func(path string) bool) {
	if n.Data == "" {
		n.Data = "data/" + string(n.Node)
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

// LoadNodeText is LoadNode for a text instead of a file. source names the text in errors; relative
// paths in it start from the directory of source.
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
