package extract

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Request is the input of keys and costs: an HTTP request or a gRPC call. Exactly one of the two is
// set.
type Request struct {
	HTTP *http.Request
	Call *Call
}

// Call is a gRPC call.
type Call struct {
	Context context.Context // of the call
	Method  string          // full: /package.Service/Method
	Message any             // the request; nil when a stream opens
	// Outgoing means that this process makes the call: the metadata is that which it sends, and
	// Target is the callee.
	Outgoing bool
	Target   string
}

// Context returns the context of the request, never nil.
func (r Request) Context() context.Context {
	switch {
	case r.HTTP != nil:
		return r.HTTP.Context()
	case r.Call != nil && r.Call.Context != nil:
		return r.Call.Context
	}
	return context.Background()
}

// field is the name of a header field in both spellings.
type field struct{ http, grpc string }

func fieldOf(name string) field { return field{http.CanonicalHeaderKey(name), strings.ToLower(name)} }

// values returns the values of a header field or of metadata, incoming or outgoing.
func (r Request) values(f field) []string {
	switch {
	case r.HTTP != nil:
		return r.HTTP.Header[f.http]
	case r.Call == nil:
		return nil
	case r.Call.Outgoing:
		md, _ := metadata.FromOutgoingContext(r.Call.Context)
		return md.Get(f.grpc)
	}
	return metadata.ValueFromIncomingContext(r.Call.Context, f.grpc)
}

// remote returns the remote address of the connection, host:port.
func (r Request) remote() string {
	if r.HTTP != nil {
		return r.HTTP.RemoteAddr
	}
	if p, ok := peer.FromContext(r.Context()); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// tls returns the TLS state of the connection; nil without TLS.
func (r Request) tls() *tls.ConnectionState {
	if r.HTTP != nil {
		return r.HTTP.TLS
	}
	if p, ok := peer.FromContext(r.Context()); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			return &info.State
		}
	}
	return nil
}

// method returns the method of the request: GET, or /package.Service/Method.
func method(r Request) string {
	switch {
	case r.HTTP != nil:
		return r.HTTP.Method
	case r.Call != nil:
		return r.Call.Method
	}
	return ""
}
