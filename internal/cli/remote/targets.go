package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/pki"
)

// Ports of nodes: node k, from 1, serves HTTP at base+10k+1, gRPC at base+10k+2, and peers at
// base+10k+3.
const (
	DefaultBasePort = 7400
	DefaultNodes    = 3
	MaxNodes        = 100
	maxAnswer       = 64 << 20         // bytes of one answer, such as all limits
	ControlTimeout  = 12 * time.Second // longer than the ten seconds in which a node looks for a leader, so that its answer arrives
)

// GRPCPort returns the gRPC port of a node, counted from 1.
func GRPCPort(base, node int) int { return base + 10*node + 2 }

// Targets are the nodes that a command talks to.
type Targets struct {
	Addrs    []string
	basePort int
	Nodes    int
	// OwnTimeout leaves out --timeout, for a command that defines it with a default of its own.
	OwnTimeout bool
	flags      *pflag.FlagSet
	kept       map[string]*grpc.ClientConn // see Keep

	tlsDir, tokenFile string
	contextName       string        // --context
	timeout           time.Duration // --timeout; 0 means ControlTimeout

	settled   sync.Once
	context   *Context // nil without one
	unsettled error
	store     atomic.Pointer[pki.Store] // of the last connection; nil without TLS
}

// AddFlags adds the flags for the nodes' addresses and the credentials.
func (t *Targets) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	t.flags = f
	f.StringSliceVar(&t.Addrs, "addr", nil, "gRPC addresses of the nodes, host:port,... (default: $QUORATE_ADDR, else the context's, else --nodes nodes on this machine)")
	f.IntVar(&t.basePort, "base-port", DefaultBasePort, "node k is at 127.0.0.1, port base+10k+2")
	f.IntVar(&t.Nodes, "nodes", DefaultNodes, "number of nodes on this machine")
	f.StringVar(&t.tlsDir, "tls-dir", "", "`directory` with ca.crt and, for a certificate, client.crt and client.key (default: $QUORATE_TLS_DIR, else the context's, else no TLS)")
	f.StringVar(&t.tokenFile, "token-file", "", "`file` with a bearer token (default: $QUORATE_TOKEN_FILE, else the context's)")
	f.StringVar(&t.contextName, "context", "", "`name` of the context with addresses and credentials (default: $QUORATE_CONTEXT, else the current one)")
	if err := cmd.RegisterFlagCompletionFunc("context", completeContexts); err != nil {
		panic(err) // invariant: the flag exists
	}
	if !t.OwnTimeout {
		f.DurationVar(&t.timeout, "timeout", ControlTimeout, "timeout for each answer of a node")
	}
}

func completeContexts(_ *cobra.Command, _ []string, begun string) (out []string, _ cobra.ShellCompDirective) {
	c, err := ReadConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for i := range c.Contexts {
		if strings.HasPrefix(c.Contexts[i].Name, begun) {
			out = append(out, c.Contexts[i].Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// answerTime returns the longest wait for one answer.
func (t *Targets) answerTime() time.Duration {
	if t.timeout == 0 {
		return ControlTimeout
	}
	return t.timeout
}

// AddrVariable is the variable with the nodes' addresses, used if no flag says where the nodes are.
const AddrVariable = "QUORATE_ADDR"

// named returns the addresses in --addr or, if no flag says where the nodes are, those of the
// context that --context names, of the environment, or of the current context; from is the source.
func (t *Targets) named() (addrs []string, from string) {
	env := os.Getenv(AddrVariable)
	switch {
	case len(t.Addrs) > 0 || t.local():
		return t.Addrs, "--addr"
	case t.context != nil:
		return t.context.Addresses, "context " + t.context.Name
	case env == "":
		return nil, ""
	}
	for a := range strings.SplitSeq(env, ",") {
		addrs = append(addrs, strings.TrimSpace(a))
	}
	return addrs, AddrVariable
}

// Resolve returns the addresses.
func (t *Targets) Resolve() ([]string, error) {
	if t.timeout < 0 || t.timeout == 0 && !t.OwnTimeout && t.flags != nil {
		return nil, exit.Usagef("--timeout %v: must be more than 0", t.timeout)
	}
	if err := t.settle(); err != nil {
		return nil, err
	}
	if addrs, from := t.named(); len(addrs) > 0 {
		for _, a := range addrs {
			if !IsAddress(a) {
				return nil, exit.Usagef("%s %q: must be host:port, such as 127.0.0.1:7412", from, a)
			}
		}
		if len(addrs) > MaxNodes {
			return nil, exit.Usagef("%s: %d addresses; at most %d", from, len(addrs), MaxNodes)
		}
		return addrs, nil
	}
	if t.Nodes < 1 || t.Nodes > MaxNodes {
		return nil, exit.Usagef("--nodes %d: must be 1 to %d", t.Nodes, MaxNodes)
	}
	if t.basePort < 1 || GRPCPort(t.basePort, t.Nodes) > 65535 {
		return nil, exit.Usagef("--base-port %d: must be 1 to %d for %d nodes", t.basePort, 65535-GRPCPort(0, t.Nodes), t.Nodes)
	}
	addrs := make([]string, t.Nodes)
	for k := range addrs {
		addrs[k] = fmt.Sprintf("127.0.0.1:%d", GRPCPort(t.basePort, k+1))
	}
	return addrs, nil
}

// IsAddress reports whether a text is host:port, with a port by number or by name.
func IsAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return false
	}
	n, err := strconv.Atoi(port)
	return err != nil || n >= 1 && n <= 65535
}

// Dial connects to a node with the credentials that flags or environment name.
func (t *Targets) Dial(addr string) (*grpc.ClientConn, error) {
	creds, err := t.Credentials(addr)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+addr, append(creds,
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)), grpc.WithUnaryInterceptor(noteSent),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}))...)
}

// Call makes a control call to the first node that is reachable and, if the call needs a leader,
// knows one. A change that a node may have received is not repeated at the next.
func (t *Targets) Call(ctx context.Context, f func(context.Context, *grpc.ClientConn) error) error {
	addrs, err := t.Resolve()
	if err != nil {
		return err
	}
	var last, said error
	for _, addr := range addrs {
		last = t.CallOne(ctx, addr, f)
		if errors.Is(last, errMayBeDone) {
			return exit.With(exit.Unreachable, last)
		}
		if last == nil || status.Code(last) != codes.Unavailable && !Unreachable(last) || ctx.Err() != nil {
			break
		}
		if said == nil && !Unreachable(last) {
			said = last
		}
	}
	if last != nil && Unreachable(last) && said != nil {
		last = said // a node's answer helps more than the next one's absence
	}
	switch {
	case last == nil:
		return nil
	case Unreachable(last), WrongPort(last) != "":
		return t.NoneAnswers(addrs, last)
	}
	return Refusal(last)
}

// Method is a call of a service, such as quoratev1.LimitServiceClient.GetLimits.
type Method[Client, Request, Response any] = func(Client, context.Context, *Request, ...grpc.CallOption) (*Response, error)

// Invoke makes one call as Call does.
func Invoke[Client, Request, Response any](ctx context.Context, t *Targets, client func(grpc.ClientConnInterface) Client, method Method[Client, Request, Response], req *Request) (res *Response, err error) {
	err = t.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		res, err = method(client(conn), ctx, req)
		return err
	})
	return res, err
}

// noTLS is the result of WrongPort for a command with TLS that reaches a port without TLS: an HTTP port, or
// the gRPC port of a cluster without certificates.
const noTLS = "a port without TLS"

// WrongPort names the kind of port that answered instead of the gRPC port of a node, or returns "".
func WrongPort(err error) string {
	text := status.Convert(err).Message()
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("unexpected HTTP status code"), has("unexpected content-type"), has("looked like an HTTP/1"):
		return "HTTP, not gRPC"
	case has("frame too large"):
		return "a port without gRPC, such as that of the Redis protocol"
	case has("ALPN"):
		return "a port with TLS and without gRPC, such as that for peers"
	case has("first record does not look like a TLS handshake"):
		return noTLS
	}
	return ""
}

// ReuseConns makes calls reuse connections until the returned function closes them.
func (t *Targets) ReuseConns() (drop func()) {
	t.kept = map[string]*grpc.ClientConn{}
	return func() {
		for _, c := range t.kept {
			_ = c.Close() // nothing is lost
		}
		t.kept = nil
	}
}

// CallOne calls one node.
func (t *Targets) CallOne(ctx context.Context, addr string, f func(context.Context, *grpc.ClientConn) error) error {
	if t.kept == nil {
		return t.callAlone(ctx, addr, f)
	}
	if t.kept[addr] == nil {
		conn, err := t.Dial(addr)
		if err != nil {
			return err
		}
		t.kept[addr] = conn
	}
	ctx, cancel := context.WithTimeout(ctx, t.answerTime())
	defer cancel()
	return f(ctx, t.kept[addr])
}

// callAlone calls one node over its own connection.
func (t *Targets) callAlone(ctx context.Context, addr string, f func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.answerTime())
	defer cancel()
	conn, err := t.Dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	return f(ctx, conn)
}

// Unreachable reports whether the node did not answer. An answer that the node knows no leader
// counts as one.
func Unreachable(err error) bool {
	st := status.Convert(err)
	if st.Code() == codes.DeadlineExceeded {
		return true
	}
	if st.Code() != codes.Unavailable {
		return false
	}
	for _, d := range st.Details() {
		if _, ok := d.(*errdetails.ErrorInfo); ok {
			return false
		}
	}
	return true
}

// errMayBeDone says that a node received a call and did not answer. The call is not repeated at
// another node, because that could execute it twice.
var errMayBeDone = errors.New("the call may have taken effect; check before you repeat it")

// reads are the beginnings of the names of the methods that change nothing.
var reads = []string{"Get", "List", "Validate", "Diff", "WhoAmI", "TopRates", "History", "Headroom", "WhatIf", "Suggest", "Forecast", "Noisy"}

// changes reports whether a call has further effects when it is repeated.
func changes(method string, req any) bool {
	switch method {
	case quoratev1.RateService_Report_FullMethodName:
		return false
	case quoratev1.AccountService_ApplyOps_FullMethodName, quoratev1.AccountAdminService_ApplyOps_FullMethodName:
		return false // it has a request id
	}
	if check, ok := req.(*quoratev1.AllowRequest); ok && check.Cost != nil && check.GetCost() == 0 {
		return false // allow --peek
	}
	name := path.Base(method)
	return !slices.ContainsFunc(reads, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// noteSent marks the error of a change if a node may have received the call.
func noteSent(ctx context.Context, method string, req, res any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var sent peer.Peer
	err := invoke(ctx, method, req, res, conn, append(opts, grpc.Peer(&sent))...)
	if err != nil && sent.Addr != nil && Unreachable(err) && changes(method, req) {
		return fmt.Errorf("%w: %w", errMayBeDone, err)
	}
	return err
}

// AwaitLimits waits until every reachable node has the version.
func (t *Targets) AwaitLimits(ctx context.Context, addrs []string, version uint64) error {
	ctx, cancel := context.WithTimeout(ctx, ControlTimeout)
	defer cancel()
	for _, addr := range addrs {
		for {
			var have uint64
			err := t.callAlone(ctx, addr, func(ctx context.Context, conn *grpc.ClientConn) error {
				st, err := quoratev1.NewClusterServiceClient(conn).GetStatus(ctx, &quoratev1.GetStatusRequest{})
				have = st.GetLimitsVersion()
				return err
			})
			if err != nil && ctx.Err() == nil || err == nil && have >= version {
				break
			}
			if backoff.Sleep(ctx, 10*time.Millisecond) != nil {
				return fmt.Errorf("node %s still has version %d of the limits, not %d; see \"quorate status\"", addr, have, version)
			}
		}
	}
	return nil
}
