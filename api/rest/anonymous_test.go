package rest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/internal/rbac"
)

// begin sends the head of a request and a part of its announced body. It returns the status of the
// answer, or 0 if the server still waits for the rest of the body after 30 s.
func begin(t *testing.T, srv *httptest.Server, head string, announced, sent int) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() { // the server may close the connection during the write
		_, _ = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", head, announced, strings.Repeat(" ", sent))
	}()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

// TestStrangersBodies checks that a call without a credential is refused after 32 KiB of body, that all
// such bodies of one address are bounded, and that calls that need a credential are refused before
// their bodies arrive.
func TestStrangersBodies(t *testing.T) {
	s := newSecured(t, everyRole())
	srv := httptest.NewUnstartedServer(nil)
	h := newRouter(api.New(s, s.opts), s.web)
	srv.Config.Handler = h // without the timeouts of New: no body may end before all have been judged
	srv.Start()
	t.Cleanup(srv.Close)
	const large = 4 << 20
	for _, c := range []struct {
		head string
		want int
	}{
		{"POST /v1/cluster/join", http.StatusRequestEntityTooLarge},
		{"POST /v1/admin/accounts:get", http.StatusUnauthorized},
		{"PUT /v1/admin/policies", http.StatusUnauthorized},
		{"PUT /v1/limits", http.StatusUnauthorized},
	} {
		if got := begin(t, srv, c.head, large, 40<<10); got != c.want {
			t.Errorf("%s of an anonymous caller, whose body has not come: %d; want %d", c.head, got, c.want)
		}
	}
	// One after another, or bodies that grow together would refuse each other and leave room again.
	until(t, "the bodies that were refused to be released", func() bool { return h.bodies.anonymous.Held() == 0 })
	const each = maxAnonymousBody - 1
	for i := range int64(anonymousBytesEach / maxAnonymousBody) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /v1/cluster/join HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", each+1, strings.Repeat(" ", each))
		until(t, "a body to be held", func() bool { return h.bodies.anonymous.Held() == (i+1)*each })
	}
	if got := begin(t, srv, "POST /v1/cluster/join", 1000, 1000); got != http.StatusServiceUnavailable {
		t.Errorf("a body of an address that holds %d of %d bytes: %d", h.bodies.anonymous.Held(), anonymousBytesEach, got)
	}
	if w := s.do(srv.Config.Handler, "admin", "POST", "/v1/keys:reset", `{"namespace":"web","limit":"login","key":"k"}`+strings.Repeat(" ", 100<<10)); w.Code != http.StatusOK {
		t.Errorf("a caller who is known: %d %s", w.Code, w.Body)
	}
}

// TestBodiesUnderWay checks that one identity cannot exhaust the memory for bodies, or block the
// bodies of others.
func TestBodiesUnderWay(t *testing.T) {
	s := newSecured(t, everyRole())
	h := newRouter(api.New(s, s.opts), s.web)
	hold := make(chan struct{})
	parts := callerBytes/(4<<20) + 2
	codes := make(chan int, parts)
	for range parts {
		go func() {
			body, feed := io.Pipe()
			go func() {
				_, _ = feed.Write([]byte(strings.Repeat(" ", 4<<20-1)))
				<-hold
				_ = feed.Close()
			}()
			req := httptest.NewRequest(http.MethodPost, "/v1/limits:diff", body)
			req.Header.Set("Authorization", "Bearer "+s.tokens["admin"])
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			_ = body.Close()
			codes <- w.Code
		}()
	}
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("too many bodies of one identity: %d", code)
	}
	if w := s.do(h, "limit-writer", "POST", "/v1/keys:reset", `{"namespace":"web","limit":"login","key":"k"}`+strings.Repeat(" ", 100<<10)); w.Code != http.StatusOK {
		t.Errorf("another identity: %d %s", w.Code, w.Body)
	}
	close(hold)
	for range parts - 1 {
		<-codes
	}
	if held := h.bodies.callers.Held(); held != 0 {
		t.Errorf("%d bytes are held after all has ended", held)
	}
}

// TestSmallBodies checks which small bodies are charged, and to whom: bodies of anonymous callers always,
// bodies of known callers over HTTP/2, where one connection carries many.
func TestSmallBodies(t *testing.T) {
	s := newSecured(t, everyRole())
	s.web.Mount[Console] = http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { _, _ = io.ReadAll(req.Body) })
	h := newRouter(api.New(s, s.opts), s.web)
	for _, c := range []struct {
		path, who          string
		http               int
		anonymous, callers bool
	}{
		{"/console/sign-in", "", 1, true, false},
		{"/console/sign-in", "", 2, true, false},
		{"/console/limits/apply", "", 1, false, false}, // read if signed in
		{"/console/limits/apply", "", 2, false, true},
		{"/v1/cluster/join", "", 1, true, false},
		{"/v1/keys:reset", "admin", 1, false, false},
		{"/v1/keys:reset", "admin", 2, false, true},
	} {
		body, feed := io.Pipe()
		req := httptest.NewRequest(http.MethodPost, c.path, body)
		req.ContentLength, req.ProtoMajor = api.MaxCheckBody, c.http
		if c.who != "" {
			req.Header.Set("Authorization", "Bearer "+s.tokens[c.who])
		}
		done := make(chan struct{})
		go func() { h.ServeHTTP(httptest.NewRecorder(), req); close(done) }()
		if _, err := feed.Write(make([]byte, api.MaxCheckBody-1)); err != nil { // returns after the server has read it
			t.Fatal(err)
		}
		if anonymous, callers := h.bodies.anonymous.Held() > 0, h.bodies.callers.Held() > 0; anonymous != c.anonymous || callers != c.callers {
			t.Errorf("%s of %q over HTTP/%d: charged to anonymous %v, to known callers %v", c.path, c.who, c.http, anonymous, callers)
		}
		_ = feed.Close()
		<-done
	}
	if h.bodies.anonymous.Held() != 0 || h.bodies.callers.Held() != 0 {
		t.Error("bytes are held after all has ended")
	}
}

// TestStrangersMessages checks the bound of 32 KiB for gRPC messages without a credential.
func TestStrangersMessages(t *testing.T) {
	for name, o := range map[string]api.Options{"secured": newSecured(t, everyRole()).opts, "open": {}} {
		t.Run(name, func(t *testing.T) {
			conn := dialGRPC(t, apitest.New(t), o)
			long := strings.Repeat("x", grpcapi.MaxAnonymousMessage)
			_, health := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: long})
			_, join := quoratev1.NewClusterServiceClient(conn).Join(t.Context(), &quoratev1.JoinRequest{Node: long})
			who := &quoratev1.WhoAmIRequest{}
			who.ProtoReflect().SetUnknown(append([]byte{0xfa, 0x07, 0x80, 0x80, 0x02}, long...)) // field 127, 32 KiB
			_, whoami := quoratev1.NewSecurityServiceClient(conn).WhoAmI(t.Context(), who)
			watch, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: long})
			if err == nil {
				_, err = watch.Recv()
			}
			for call, err := range map[string]error{"health": health, "join": join, "whoami": whoami, "watch": err} {
				if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "at most 32768 are read") {
					t.Errorf("%s with more than 32 KiB: %v", call, err)
				}
			}
			if res, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil || res.Status != healthv1.HealthCheckResponse_SERVING {
				t.Errorf("a short message: %v %v", res, err)
			}
			if _, err := quoratev1.NewSecurityServiceClient(conn).WhoAmI(t.Context(), &quoratev1.WhoAmIRequest{}); err != nil {
				t.Errorf("a short message: %v", err)
			}
		})
	}
}

// TestNobodyIsNotRead checks that the node reads no message of a caller who may not make the call,
// with or without a credential, and little of a call that every caller with a credential may make.
func TestNobodyIsNotRead(t *testing.T) {
	s := newSecured(t, everyRole())
	conn := s.dial(t)
	large := &quoratev1.ApplyLimitsRequest{Yaml: strings.Repeat("x", grpcapi.MaxGRPCMessage)}
	small := &quoratev1.ApplyLimitsRequest{Yaml: strings.Repeat("x", grpcapi.MaxAnonymousMessage)}
	const apply, roles = "/quorate.v1.LimitService/ApplyLimits", "/quorate.v1.SecurityService/ListRoles"
	const accounts, reflection = "/quorate.v1.AccountAdminService/ApplyOps", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	for _, c := range []struct {
		who, method string
		message     *quoratev1.ApplyLimitsRequest
		want        string
	}{
		{"", apply, large, "carries no credential"},
		{"stranger", apply, large, "needs limits.write"},
		{"checker", apply, large, "needs limits.write"},
		{"admin", apply, large, "larger than max"},
		{"stranger", "/quorate.v1.QuotaService/Allow", large, "needs check"},
		{"stranger", accounts, large, "needs quota.accounts.write"},
		{"stranger", roles, small, "at most 32768 are read"},
		{"stranger", reflection, small, "at most 32768 are read"},
	} {
		stream, err := conn.NewStream(s.as(t.Context(), c.who), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, c.method)
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.SendMsg(c.message)
		_ = stream.CloseSend()
		if err := stream.RecvMsg(&quoratev1.ApplyLimitsResponse{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q calls %s: %v; want %q", c.who, c.method, err, c.want)
		}
	}
}

// TestStrangersWatches checks the bound of open calls per connection without a credential: calls of
// other connections still work, and so do new ones of this connection after some have ended.
func TestStrangersWatches(t *testing.T) {
	s := newSecured(t, everyRole())
	srv := grpcapi.New(api.New(s, s.opts), s.others)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	defer srv.Stop()
	dial := func() healthv1.HealthClient {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return healthv1.NewHealthClient(conn)
	}
	open := func(ctx context.Context, c healthv1.HealthClient) error {
		w, err := c.Watch(ctx, &healthv1.HealthCheckRequest{})
		if err == nil {
			_, err = w.Recv()
		}
		return err
	}
	first, cancel := context.WithCancel(t.Context())
	defer cancel()
	one := dial()
	for i := range grpcapi.MaxAnonymousOfConn {
		if err := open(first, one); err != nil {
			t.Fatalf("watch %d: %v", i, err)
		}
	}
	if err := open(t.Context(), one); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("watch %d of an anonymous connection: %v", grpcapi.MaxAnonymousOfConn+1, err)
	}
	if err := open(s.as(t.Context(), "checker"), one); err != nil {
		t.Errorf("a caller who is known, on the same connection: %v", err)
	}
	for range grpcapi.MaxAnonymousOfAddress/grpcapi.MaxAnonymousOfConn - 1 {
		c := dial()
		for range grpcapi.MaxAnonymousOfConn {
			if err := open(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := open(t.Context(), dial()); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("one more of the address: %v", err)
	}
	cancel()
	until(t, "room after some have ended", func() bool { return open(t.Context(), one) == nil })
}

// keyIssuer is an OIDC issuer with one key.
type keyIssuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

func newKeyIssuer(t *testing.T) *keyIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &keyIssuer{key: key}
	mux := http.NewServeMux()
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["ES256"]}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		text := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.FillBytes(make([]byte, 32))) }
		fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","alg":"ES256","x":%q,"y":%q}]}`, text(key.X), text(key.Y))
	})
	return i
}

// jwt returns a JWT of a user that is valid for an hour.
func (i *keyIssuer) jwt(t *testing.T, user string) string {
	t.Helper()
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	signed := part(`{"alg":"ES256","kid":"k"}`) + "." + part(fmt.Sprintf(`{"iss":%q,"aud":"quorate","sub":%q,"exp":%d}`, i.URL, user, time.Now().Add(time.Hour).Unix()))
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// TestKnownJWTs checks that a JWT that was valid before is not charged as unverified when it must
// be verified again: 100 calls of one address are open at once, and all are served. A call that its
// user may not make is refused before its message is read.
func TestKnownJWTs(t *testing.T) {
	issuer := newKeyIssuer(t)
	s := newSecured(t, everyRole())
	var later atomic.Int64
	guard, err := auth.New(auth.Config{
		Bindings: []rbac.Binding{{Identity: "user:*", Role: "checker", Scope: rbac.Everywhere}},
		OIDC:     &auth.OIDC{Issuer: issuer.URL, Audience: "quorate"},
		Now:      func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.opts.Guard = guard
	conn := s.dial(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+issuer.jwt(t, "ann"))
	check := &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k"}
	if _, err := quoratev1.NewQuotaServiceClient(conn).Allow(ctx, check); err != nil {
		t.Fatal(err)
	}
	later.Store(int64(6 * time.Minute)) // the guard has to verify the JWT again
	if _, err := quoratev1.NewLimitServiceClient(conn).ApplyLimits(ctx, &quoratev1.ApplyLimitsRequest{Yaml: strings.Repeat("x", grpcapi.MaxGRPCMessage)}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a change of limits by somebody who may only check: %v", err)
	}
	var calls [100]grpc.ClientStream
	for i := range calls {
		if calls[i], err = conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, quoratev1.QuotaService_Allow_FullMethodName); err != nil {
			t.Fatal(err)
		}
	}
	for i, call := range calls { // all are open
		if err := errors.Join(call.SendMsg(check), call.CloseSend(), call.RecvMsg(&quoratev1.AllowResponse{})); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestUnverifiedAreBounded checks the bound of concurrent messages with an unverified JWT, and that such
// calls end if their message does not arrive in time.
func TestUnverifiedAreBounded(t *testing.T) {
	s := newSecured(t, everyRole())
	guard, err := auth.New(auth.Config{Table: func() *rbac.Table { return s.table }, OIDC: &auth.OIDC{Issuer: "http://127.0.0.1:1", Audience: "quorate"}})
	if err != nil {
		t.Fatal(err)
	}
	s.opts.Guard = guard
	conn := s.dial(t)
	desc := &grpc.StreamDesc{ClientStreams: true}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call := func(ctx context.Context) grpc.ClientStream {
		stream, err := conn.NewStream(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer a.b.c"), desc, "/quorate.v1.LimitService/ApplyLimits")
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	for range grpcapi.UnverifiedBytesOfOne / grpcapi.MaxGRPCMessage {
		call(ctx) // its message never arrives
	}
	refused := func() bool {
		stream := call(t.Context())
		_ = stream.SendMsg(&quoratev1.ApplyLimitsRequest{})
		_ = stream.CloseSend()
		err := stream.RecvMsg(&quoratev1.ApplyLimitsResponse{})
		return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "as many bytes of requests")
	}
	until(t, "one too many to be refused", refused)
	cancel()
	until(t, "room after they have ended", func() bool { return !refused() })
}
