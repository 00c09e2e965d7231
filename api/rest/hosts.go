package rest

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
)

// hosts decides which names in the header Host belong to this node. It protects nodes without
// authentication from DNS rebinding: a page of another site points its own name at the node's
// address, and a user's browser then treats the node as the page's own origin.
type hosts struct {
	names []string // nil: accept any name
	last  atomic.Pointer[string]
}

// privateNames are suffixes that nobody can register in the public DNS.
var privateNames = []string{".localhost", ".local", ".internal", ".svc", ".home.arpa", ".test"}

func (h *hosts) has(header string) bool {
	if h.names == nil {
		return true
	}
	if last := h.last.Load(); last != nil && *last == header {
		return true
	}
	name := header
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err != nil {
		same := func(have string) bool { return strings.EqualFold(strings.TrimSuffix(have, "."), name) }
		private := func(end string) bool { return strings.HasSuffix(name, end) }
		if strings.Contains(name, ".") && !slices.ContainsFunc(h.names, same) && !slices.ContainsFunc(privateNames, private) {
			return false
		}
	}
	h.last.Store(&header)
	return true
}

// hostFault returns an error if a request names another host. It exempts the routes that the table
// of permissions marks AnyHost: probes, and the check for proxies, which forward the Host header of
// their clients (see fromHere).
func (r *router) hostFault(req *http.Request) error {
	if r.Guard != nil || r.hosts.has(req.Host) {
		return nil
	}
	return &apierr.Error{
		Code: codes.PermissionDenied, HTTP: http.StatusMisdirectedRequest, Reason: "UNKNOWN_HOST", Field: "Host",
		Detail: "is " + apierr.Quoted(apierr.Clip(req.Host)) + ", which is not a name of this node; without authentication, use its address, localhost, or a name in the setting listen.hosts",
	}
}
