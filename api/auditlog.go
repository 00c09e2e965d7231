package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit"
)

// Bounds of ListAuditEntries.
const (
	maxAuditPage    = 500
	usualAuditPage  = 100
	maxAuditMethods = 64
	maxAuditText    = 256       // bytes of a text of the filter
	maxAuditToken   = 256 << 10 // bytes; a place for each node
	maxNodesNamed   = 10        // by an error
)

// ListAuditEntries implements quoratev1.SecurityServiceServer.
func (s *SecurityService) ListAuditEntries(ctx context.Context, req *quoratev1.ListAuditEntriesRequest) (*quoratev1.ListAuditEntriesResponse, error) {
	results := []string{string(audit.OK), string(audit.Denied), string(audit.Failed)}
	switch {
	case req.PageSize < 0 || req.PageSize > maxAuditPage:
		return nil, apierr.Invalid("page_size", "is %d; must be 1 to %d, or 0 for %d", req.PageSize, maxAuditPage, usualAuditPage)
	case req.Result != "" && !slices.Contains(results, req.Result):
		return nil, apierr.Invalid("result", "is %q; must be one of %s", apierr.Clip(req.Result), strings.Join(results, ", "))
	case len(req.Methods) > maxAuditMethods:
		return nil, apierr.Invalid("methods", "are %d; at most %d", len(req.Methods), maxAuditMethods)
	case req.Since != nil && req.Since.CheckValid() != nil:
		return nil, apierr.Invalid("since", "is not a time")
	}
	for _, f := range append([]string{req.Identity, req.Text}, req.Methods...) {
		if err := checkLength("identity, text and methods", f, maxAuditText); err != nil {
			return nil, err
		}
	}
	if err := checkLength("page_token", req.PageToken, maxAuditToken); err != nil {
		return nil, err
	}
	if err := s.checkNode(req.Node); err != nil {
		return nil, err
	}
	ask := proto.CloneOf(req)
	if ask.PageSize == 0 {
		ask.PageSize = usualAuditPage
	}
	res, err := s.log.ListAuditEntries(ctx, ask)
	if err != nil {
		return nil, apierr.From(err)
	}
	return res, nil
}

// checkNode returns an error if a node is named that is not in the cluster.
func (s *core) checkNode(id string) error {
	if id == "" {
		return nil
	}
	var names []string
	for _, n := range s.node.Status().GetNodes() {
		if n.Id == id {
			return nil
		}
		names = append(names, n.Id)
	}
	if len(names) > maxNodesNamed {
		names = append(names[:maxNodesNamed], "...")
	}
	return &apierr.Error{
		Code: codes.NotFound, HTTP: http.StatusNotFound, Reason: "NO_SUCH_NODE", Field: "node",
		Detail: "unknown node " + apierr.Quoted(id) + "; known: " + strings.Join(names, ", "),
	}
}
