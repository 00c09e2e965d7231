package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/pki"
)

// OthersTime bounds the wait for the answers of other nodes.
const OthersTime = time.Second

// Asked is a node to ask. Node is "" if its id is unknown until it answers.
type Asked struct{ Node, Addr string }

// askOthers asks all other nodes concurrently, and adds what they report of themselves to the
// status. It returns the readiness that each node reports, including the first one, in order of
// their names.
func askOthers(ctx context.Context, t *remote.Targets, st *quoratev1.GetStatusResponse) []health.Readiness {
	ctx, cancel := context.WithTimeout(ctx, OthersTime)
	defer cancel()
	list := []health.Readiness{health.ReadinessOf(st)}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, a := range OtherAddresses(t, st) {
		wg.Go(func() {
			other, err := statusAt(ctx, t, a.Addr)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && other.Cluster == st.Cluster && !slices.ContainsFunc(list, func(s health.Readiness) bool { return s.Node == other.Node }):
				addOwn(st, other)
				list = append(list, health.ReadinessOf(other))
			case err != nil && a.Node != "":
				list = append(list, health.Readiness{Node: a.Node, Fault: "at " + a.Addr + ": " + pki.ConnectionCause(status.Convert(err).Message())})
			}
		})
	}
	wg.Wait()
	slices.SortFunc(list, func(a, b health.Readiness) int { return strings.Compare(a.Node, b.Node) })
	return list
}

func statusAt(ctx context.Context, t *remote.Targets, addr string) (st *quoratev1.GetStatusResponse, err error) {
	err = t.CallOne(ctx, addr, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		st, err = quoratev1.NewClusterServiceClient(conn).GetStatus(ctx, &quoratev1.GetStatusRequest{})
		return err
	})
	return st, err
}

// OtherAddresses returns the other nodes that the answering node knows, connected or not: a
// disconnected one may know why it is.
func OtherAddresses(t *remote.Targets, st *quoratev1.GetStatusResponse) []Asked {
	var out []Asked
	for _, n := range st.Nodes {
		if n.GrpcAddress != "" && n.Id != st.Node {
			out = append(out, Asked{n.Id, n.GrpcAddress})
		}
	}
	if addrs, err := t.Resolve(); err == nil && len(out) == 0 && len(addrs) > 1 {
		for _, a := range addrs { // nodes that have not exchanged their addresses
			out = append(out, Asked{"", a})
		}
	}
	return out[:min(len(out), remote.MaxNodes)]
}

// addOwn adds what another node reports of itself. The tolerance of the cluster is the lowest that
// any node reports, because a leader knows best who votes. It ignores a node that misses leaders,
// which may be cut off and see fewer nodes than exist.
func addOwn(st, other *quoratev1.GetStatusResponse) {
	if other.Tolerates != nil && other.Leaderless == "" && (st.Tolerates == nil || *other.Tolerates < *st.Tolerates) {
		st.Tolerates = other.Tolerates
	}
	for _, n := range st.Nodes {
		i := slices.IndexFunc(other.Nodes, func(o *quoratev1.NodeStatus) bool { return o.Id == n.Id })
		if i >= 0 && n.Id == other.Node {
			n.Faults = other.Nodes[i].Faults
		}
	}
	for i, r := range st.Ranges {
		if i < len(other.Ranges) && r.Leader == other.Node {
			r.Lag = other.Ranges[i].Lag
		}
	}
}
