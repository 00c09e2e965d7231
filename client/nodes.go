package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// maxMessage bounds the messages of a node; the largest carries all limits of a file of 4 MiB.
const maxMessage = 16 << 20

// nodes are the known nodes: given ones, and those that the node lists to which the client attached last.
// At most MaxAddresses.
type nodes struct {
	dial    []grpc.DialOption
	current atomic.Uint32 // index of the node to ask first

	mu   sync.Mutex // held while the list is replaced
	list atomic.Pointer[[]*node]
	shut bool
}

type node struct {
	addr  string
	given bool // to New
	conn  *grpc.ClientConn
	quota quoratev1.QuotaServiceClient
}

func newNodes(addrs []string, opts []grpc.DialOption) (*nodes, error) {
	n := &nodes{dial: append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
	}, opts...)}
	n.list.Store(&[]*node{})
	for _, addr := range addrs {
		if err := n.add(addr, true); err != nil {
			n.close() //nolint:errcheck // the error below is the one that matters
			return nil, &Error{Kind: ErrInvalid, Field: "addrs", Detail: fmt.Sprintf("%q: %v", addr, err), Cause: err}
		}
	}
	return n, nil
}

func (n *nodes) all() []*node { return *n.list.Load() }

// learn forgets the learned nodes that the node at the address from does not list, and adds those that it
// lists. A node without a table of the members lists none, and changes nothing.
func (n *nodes) learn(from string, others []string) {
	if len(others) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shut {
		return
	}
	var keep []*node
	for _, o := range n.all() {
		if o.given || o.addr == from || slices.Contains(others, o.addr) {
			keep = append(keep, o)
			continue
		}
		_ = o.conn.Close() // it is not a member: calls to it go to another node
	}
	n.list.Store(&keep)
	for _, addr := range others {
		_ = n.add(addr, false) // an invalid address is of no use
	}
}

// add adds a node unless it is known or there are too many. The caller holds n.mu, if others know n.
func (n *nodes) add(addr string, given bool) error {
	old := n.all()
	if n.shut || len(old) >= MaxAddresses {
		return nil
	}
	for _, o := range old {
		if o.addr == addr {
			return nil
		}
	}
	conn, err := grpc.NewClient(addr, n.dial...)
	if err != nil {
		return err
	}
	next := slices.Concat(old, []*node{{addr: addr, given: given, conn: conn, quota: quoratev1.NewQuotaServiceClient(conn)}})
	n.list.Store(&next)
	return nil
}

// prefer makes the node at the address the first to be asked.
func (n *nodes) prefer(addr string) {
	for i, o := range n.all() {
		if o.addr == addr {
			n.current.Store(uint32(i))
		}
	}
}

func (n *nodes) find(addr string) *node {
	for _, o := range n.all() {
		if o.addr == addr {
			return o
		}
	}
	return nil
}

// open opens a stream to attach to a node.
func (n *nodes) open(ctx context.Context, addr string) (stream, error) {
	o := n.find(addr)
	if o == nil {
		return nil, errClosed()
	}
	s, err := quoratev1.NewMemberServiceClient(o.conn).Attach(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// addrs returns the addresses of all nodes.
func (n *nodes) addrs() []string {
	all := n.all()
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = o.addr
	}
	return out
}

func (n *nodes) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shut = true
	var errs []error
	for _, o := range n.all() {
		errs = append(errs, o.conn.Close())
	}
	return errors.Join(errs...)
}
