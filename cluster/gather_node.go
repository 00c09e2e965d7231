package cluster

import (
	"context"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// WatchAll watches the events of all nodes; see gather.Service.
func (n *Node) WatchAll(f quota.EventFilter, node string, buffer int) (events <-chan *quoratev1.WatchResponse, lost func() uint64, stop func()) {
	return n.gather.WatchAll(f, node, buffer)
}

// ListAuditEntries merges the audit logs of all nodes; see gather.Service.
func (n *Node) ListAuditEntries(ctx context.Context, req *quoratev1.ListAuditEntriesRequest) (*quoratev1.ListAuditEntriesResponse, error) {
	return n.gather.ListAuditEntries(ctx, req)
}
