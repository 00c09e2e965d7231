package client

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds and defaults.
const (
	// DefaultTimeout bounds a call whose context has no deadline, and Close.
	DefaultTimeout = time.Second
	// DefaultMaxKeys bounds the keys in the memory of a process.
	DefaultMaxKeys = 100_000
	// DefaultMaxWaiting bounds the callers in Wait.
	DefaultMaxWaiting = 1000
	// DefaultGrantWait bounds how long a decision waits for a grant.
	DefaultGrantWait = 20 * time.Millisecond
	// MaxBatch bounds the checks of one AllowBatch.
	MaxBatch = 1000
	// MaxAll bounds the checks of one AllowAll or Reserve.
	MaxAll = quota.MaxRequests
	// MaxAddresses bounds the nodes that a client knows.
	MaxAddresses = 100
)

// Mode says where a client decides.
type Mode uint8

const (
	// InProcess decides in the memory of this process; one stream to one node carries counts and
	// grants. The default.
	InProcess Mode = iota
	// Remote asks a node for every check.
	Remote
)

// Option configures a client.
type Option func(*options)

type options struct {
	mode       Mode
	timeout    time.Duration
	dial       []grpc.DialOption
	name       string
	namespaces []string
	defaults   []Default
	failClosed bool
	maxKeys    int
	maxWaiting int
	grantWait  time.Duration
	breakAfter int
	tlsDir     string
	whyRefused func(text string) string // explains why nodes refuse the certificate, "" for other texts; nil without TLS
	tokenFile  string
	logger     *slog.Logger // nil means the default
}

func defaultOptions() options {
	return options{
		timeout: DefaultTimeout, maxKeys: DefaultMaxKeys, maxWaiting: DefaultMaxWaiting, grantWait: DefaultGrantWait,
		breakAfter: defaultBreakAfter,
	}
}

// WithMode sets where the client decides. The default is [InProcess].
func WithMode(m Mode) Option { return func(o *options) { o.mode = m } }

// WithTimeout sets the deadline of calls whose context has none, and the longest duration of Close.
// The default is [DefaultTimeout].
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithDialOptions adds gRPC dial options, such as interceptors or transport credentials; they take
// precedence over those of [WithTLSDir]. Without either, connections are not encrypted.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, opts...) }
}

// WithName sets the name of the process, which must be unique among live processes: 1 to 128 of a-z
// A-Z 0-9 . _ -. The default is the host name with a random suffix.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithNamespaces sets the namespaces whose limits the process uses; it gets no others. By default
// it gets all namespaces that it has access to.
func WithNamespaces(names ...string) Option {
	return func(o *options) { o.namespaces = append(o.namespaces, names...) }
}

// WithDefaults sets the limits that apply before the first node has sent its limits and, in
// [Remote] mode, while no node answers. See [Default].
func WithDefaults(defaults ...Default) Option {
	return func(o *options) { o.defaults = append(o.defaults, defaults...) }
}

// WithFailClosed refuses checks that would otherwise pass without a decision, if none of
// [WithDefaults] applies. These are all checks before the first node has sent its limits and, in
// [Remote] mode, while no node answers; and checks that Bucket.AllowN, middleware (httplimit,
// grpclimit) and requester cannot decide, because of an unknown limit, an invalid name or a closed
// client. Use it for limits that must not be exceeded. When no node answers, known limits still
// follow their own when_cut_off.
func WithFailClosed() Option { return func(o *options) { o.failClosed = true } }

// WithMaxKeys bounds the keys in the memory of the process, 1 or more. One limit gets at most
// fifteen sixteenths of them. Keys without room share one bucket of their limit in the whole
// cluster: the key "@overflow". The default is [DefaultMaxKeys].
func WithMaxKeys(n int) Option { return func(o *options) { o.maxKeys = n } }

// WithMaxWaiting bounds the callers in Wait, over all keys; further callers get ErrTooManyWaiting.
// The callers of one key may take as many places as are free, so at most half of all. The default
// is [DefaultMaxWaiting].
func WithMaxWaiting(n int) Option { return func(o *options) { o.maxWaiting = n } }

// WithGrantWait bounds how long a decision may wait for the next grant if that grant would settle
// it; 0 disables waiting. The default is [DefaultGrantWait].
func WithGrantWait(d time.Duration) Option { return func(o *options) { o.grantWait = d } }

// WithBreaker sets the number of consecutive unanswered calls after which further calls fail at
// once, until a probe is answered; 0 disables the breaker. The default is 5.
func WithBreaker(failures int) Option { return func(o *options) { o.breakAfter = failures } }

// check returns the first error in the options.
func (o *options) check(addrs []string) error {
	bad := func(field, format string, args ...any) error {
		return &Error{Kind: ErrInvalid, Field: field, Detail: field + ": " + fmt.Sprintf(format, args...)}
	}
	switch {
	case len(addrs) == 0 || len(addrs) > MaxAddresses:
		return bad("addrs", "%d addresses; must be 1 to %d", len(addrs), MaxAddresses)
	case o.mode > Remote:
		return bad("mode", "%d; must be InProcess or Remote", o.mode)
	case o.timeout <= 0:
		return bad("timeout", "%v; must be more than 0", o.timeout)
	case o.maxKeys < 1:
		return bad("max_keys", "%d; must be 1 or more", o.maxKeys)
	case o.maxWaiting < 0:
		return bad("max_waiting", "%d; must be 0 or more", o.maxWaiting)
	case o.grantWait < 0 || o.grantWait > time.Second:
		return bad("grant_wait", "%v; must be 0 to 1s", o.grantWait)
	case o.breakAfter < 0:
		return bad("breaker", "%d failures; must be 0 or more", o.breakAfter)
	}
	for _, a := range addrs {
		if fault := addrFault(a); fault != "" {
			return bad("addrs", "%q: %s", a, fault)
		}
	}
	if o.name != "" {
		if err := quota.CheckName("name", o.name); err != nil {
			return &Error{Kind: ErrInvalid, Field: "name", Detail: err.Error()}
		}
	}
	for _, n := range o.namespaces {
		if err := quota.CheckName("namespaces", n); err != nil {
			return &Error{Kind: ErrInvalid, Field: "namespaces", Detail: err.Error()}
		}
	}
	return nil
}

// addrFault returns what is wrong with an address, or "". A gRPC target with a scheme, such as
// dns:///quorate:7412, is accepted as it is, except that of HTTP: gRPC would look up a host of that
// name, and its error would not say what is wrong.
func addrFault(addr string) string {
	web := strings.HasPrefix(addr, "http://") || strings.HasPrefix(addr, "https://")
	if !web && (strings.Contains(addr, "/") || strings.HasPrefix(addr, "unix:")) {
		return ""
	}
	if _, port, err := net.SplitHostPort(addr); web || err != nil || port == "" {
		return "must be host:port, of the gRPC port of a node, such as 127.0.0.1:7412"
	}
	return ""
}

// processName returns a unique name.
func processName() string {
	host, _ := os.Hostname()
	host = strings.Map(func(r rune) rune {
		if quota.CheckName("host", string(r)) != nil {
			return '-'
		}
		return r
	}, host[:min(len(host), 64)])
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return host + "." + hex.EncodeToString(id[:])
}

// WithTLSDir secures all connections with the files in a directory, as written by "quorate init"
// and "quorate cert": ca.crt and, for mutual TLS, client.crt and client.key. Any node of that CA's
// cluster is accepted, whatever its address. The files are checked again during handshakes, so a
// renewed certificate needs no restart. New returns ErrInvalid if they are unusable.
func WithTLSDir(dir string) Option { return func(o *options) { o.tlsDir = dir } }

// WithTokenFile sends the bearer token from a file with every call. It requires [WithTLSDir], whose
// directory then needs only ca.crt. A replaced token is used within ten seconds. New returns
// ErrInvalid if there is no token.
func WithTokenFile(path string) Option { return func(o *options) { o.tokenFile = path } }

// secure returns the dial options for TLS and tokens.
func (o *options) secure() ([]grpc.DialOption, error) {
	if o.tlsDir == "" {
		if o.tokenFile != "" {
			return nil, &Error{Kind: ErrInvalid, Field: "token_file", Detail: "token_file: a token is sent over TLS only; give the CA's directory with WithTLSDir"}
		}
		return nil, nil
	}
	store, err := pki.OpenCaller(o.tlsDir)
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, Field: "tls_dir", Detail: "tls_dir " + o.tlsDir + ": " + err.Error(), Cause: err}
	}
	o.whyRefused = store.WhyRefused
	conf := store.ClientConfig(pki.Want{})
	conf.NextProtos = []string{"h2"}
	out := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(conf))}
	if o.tokenFile == "" {
		return out, nil
	}
	token, err := pki.NewTokenFile(o.tokenFile)
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, Field: "token_file", Detail: "token_file: " + err.Error(), Cause: err}
	}
	return append(out, grpc.WithPerRPCCredentials(token)), nil
}
