package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/api/auth"
	gubernatorpb "github.com/quorate/quorate/api/gen/pb/gubernator"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	pb "github.com/quorate/quorate/api/gen/quotaservice"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/rbac"
)

// securedNode keeps bindings and tokens, in addition to what a fakeNode does.
type securedNode struct {
	*apitest.Node
	mu       sync.Mutex
	bindings []rbac.Binding
	tokens   []rbac.Token
}

var _ api.SecurityStore = (*securedNode)(nil)

func (n *securedNode) Security() *rbac.Table {
	n.mu.Lock()
	defer n.mu.Unlock()
	table, err := rbac.NewTable(n.bindings)
	if err != nil {
		panic(err)
	}
	for i := range n.tokens {
		table, _ = table.Apply(addTokenChange(&n.tokens[i]))
	}
	return table
}

func (n *securedNode) SetBinding(_ context.Context, b rbac.Binding) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bindings = append(n.bindings, b)
	return true, nil
}

func (n *securedNode) DeleteBinding(_ context.Context, b rbac.Binding) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := len(n.bindings)
	n.bindings = slices.DeleteFunc(n.bindings, func(have rbac.Binding) bool {
		return have.Identity == b.Identity && have.Role == b.Role && have.Scope == b.Scope
	})
	return len(n.bindings) < before, nil
}

func (n *securedNode) AddToken(_ context.Context, t rbac.Token) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tokens = append(n.tokens, t)
	return nil
}

func (n *securedNode) RevokeToken(_ context.Context, id string) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := len(n.tokens)
	n.tokens = slices.DeleteFunc(n.tokens, func(t rbac.Token) bool { return t.ID == id })
	return len(n.tokens) < before, nil
}

// secured is a node with authentication, and a token for each of some callers.
type secured struct {
	*securedNode
	opts   api.Options
	web    Options
	others func(grpc.ServiceRegistrar)
	tokens map[string]string // by the token's name
	table  *rbac.Table       // cached, as on a node
}

// newSecured binds the identity token:NAME of each name as bindings says.
func newSecured(t testing.TB, bindings map[string]rbac.Binding) *secured {
	t.Helper()
	s := &secured{securedNode: &securedNode{Node: apitest.New(t).WithAccounts()}, tokens: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		text, id, hash := pki.NewBearer()
		s.tokens[name] = text
		s.securedNode.tokens = append(s.securedNode.tokens, rbac.Token{ID: id, Name: name, Hash: hash})
		if b := bindings[name]; b.Role != "" || b.Permissions != nil {
			b.Identity = "token:" + name
			s.bindings = append(s.bindings, b)
		}
	}
	s.table = s.Security()
	guard, err := auth.New(auth.Config{Table: func() *rbac.Table { return s.table }})
	if err != nil {
		t.Fatal(err)
	}
	s.opts = api.Options{Guard: guard, ParseLimits: apitest.ParseLimits, FormatLimits: apitest.FormatLimits, Lint: apitest.LintLimits}
	s.others = func(srv grpc.ServiceRegistrar) {
		pb.RegisterQuotaServiceServer(srv, pb.UnimplementedQuotaServiceServer{})
		gubernatorpb.RegisterV1Server(srv, gubernatorpb.UnimplementedV1Server{})
	}
	s.web = Options{ForwardAuth: true, Mount: map[string]http.Handler{"/api": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}}
	return s
}

// dial connects to the node over gRPC.
func (s *secured) dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	return dialService(t, api.New(s, s.opts), s.others)
}

// handler returns a handler of the node's HTTP server.
func (s *secured) handler() http.Handler { return New(api.New(s, s.opts), s.web).Handler }

// both returns the two of one service.
func (s *secured) both(t testing.TB) (*grpc.ClientConn, http.Handler) {
	t.Helper()
	svc := api.New(s, s.opts)
	return dialService(t, svc, s.others), New(svc, s.web).Handler
}

// as returns a context in which a name calls; "" means no credential.
func (s *secured) as(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.tokens[name])
}

// do makes an HTTP call.
func (s *secured) do(h http.Handler, name, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if name != "" {
		req.Header.Set("Authorization", "Bearer "+s.tokens[name])
	}
	h.ServeHTTP(w, req)
	return w
}

const nobodyAtAll = "" // a caller without a credential

// everyRole has one caller per role, one caller without roles, and nobodyAtAll.
func everyRole() map[string]rbac.Binding {
	out := map[string]rbac.Binding{"stranger": {}}
	for _, r := range rbac.Roles() {
		out[r.Name] = rbac.Binding{Role: r.Name, Scope: rbac.Everywhere}
	}
	return out
}

func (s *secured) try(t *testing.T, conn *grpc.ClientConn, role, method string, stream bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.as(t.Context(), role), time.Minute)
	defer cancel()
	if !stream {
		return conn.Invoke(ctx, method, sample(t, method), outputOf(t, method))
	}
	cs, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	_ = cs.SendMsg(sample(t, method)) // the answer has the error
	_ = cs.CloseSend()
	if strings.HasSuffix(method, "EventService/Watch") { // nothing happens, but a caller who is let in gets headers at once
		if md, err := cs.Header(); err != nil || md != nil {
			return err
		}
	}
	if err := cs.RecvMsg(outputOf(t, method)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// fullNode has as many bindings as there may be.
type fullNode struct {
	*secured
	full *rbac.Table
}

func (n *fullNode) Security() *rbac.Table { return n.full }

func (n *fullNode) SetBinding(_ context.Context, b rbac.Binding) (bool, error) {
	var res rbac.Result
	n.full, res = n.full.Apply(setBindingChange(&b))
	return res.Changed, res.Err
}

// TestFullBindings: where there is no room for a further binding, the permissions of one can still be cut.
func TestFullBindings(t *testing.T) {
	stored := &raftlogv1.Security{Revision: 1}
	for i := range rbac.MaxBindings {
		b := rbac.Binding{Identity: fmt.Sprintf("user:%05d", i), Permissions: []string{"cluster.admin", "cluster.read"}}
		stored.Bindings = append(stored.Bindings, rbac.EncodeBinding(&b))
	}
	full, err := rbac.Decode(stored)
	if err != nil {
		t.Fatal(err)
	}
	n := &fullNode{newSecured(t, map[string]rbac.Binding{"boss": {Role: rbac.Admin}}), full}
	client := quoratev1.NewSecurityServiceClient(dialService(t, api.New(n, n.opts), n.others))
	set := func(identity string) (*quoratev1.SetBindingResponse, error) {
		return client.SetBinding(n.as(t.Context(), "boss"), &quoratev1.SetBindingRequest{Binding: &quoratev1.Binding{Identity: identity, Permissions: []string{"cluster.read"}}})
	}
	if got, err := set("user:00007"); err != nil || !got.GetChanged() || n.full.Has([]string{"user:00007"}, rbac.ClusterAdmin, rbac.Everywhere) {
		t.Errorf("a binding that is there: %v, %v", got, err)
	}
	if _, err := set("user:new"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a further binding: %v", err)
	}
}
