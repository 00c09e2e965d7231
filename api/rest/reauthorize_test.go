package rest

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/rbac"
)

// revocable returns a node on which ann may watch, back up and profile everything, and a function that removes her token or her
// role.
func revocable(t *testing.T, take string) (*secured, func()) {
	t.Helper()
	s := newSecured(t, map[string]rbac.Binding{"ann": {Permissions: []string{"check", "rates.read", "events.read", "cluster.backup", "debug.read"}, Scope: rbac.Everywhere}})
	guard, err := auth.New(auth.Config{Table: s.Security})
	if err != nil {
		t.Fatal(err)
	}
	s.opts.Guard = guard
	return s, func() {
		ctx := t.Context()
		if take == "token" {
			_, _ = s.RevokeToken(ctx, s.securedNode.tokens[0].ID) // never fails
		} else {
			_, _ = s.DeleteBinding(ctx, rbac.Binding{Identity: "token:ann", Scope: rbac.Everywhere}) // never fails
		}
	}
}

// TestRevokedCalls checks that a stream does not outlive the token or the role that it began with,
// on either wire.
func TestRevokedCalls(t *testing.T) {
	for take, want := range map[string]codes.Code{"token": codes.Unauthenticated, "role": codes.PermissionDenied} {
		for _, what := range []string{"events", "rates"} {
			t.Run(take+" "+what+" over gRPC", func(t *testing.T) {
				t.Parallel() // rates come once a second
				s, gone := revocable(t, take)
				conn := dialService(t, s.service(), nil)
				recv := watchOverGRPC(s.as(t.Context(), "ann"), t, conn, what)
				if err := recv(); err != nil {
					t.Fatal(err)
				}
				gone()
				if err := ends(recv); status.Code(err) != want {
					t.Errorf("ends with %v; want %v", err, want)
				}
			})
			t.Run(take+" "+what+" over HTTP", func(t *testing.T) {
				t.Parallel()
				s, gone := revocable(t, take)
				srv := httptest.NewServer(New(s.service(), Options{}).Handler)
				t.Cleanup(srv.Close)
				recv := watchOverHTTP(t, s, srv.URL+map[string]string{"events": "/v1/events", "rates": "/v1/rates/watch"}[what]+"?namespace=web")
				if err := recv(); err != nil {
					t.Fatal(err)
				}
				gone()
				if err := ends(recv); err == nil {
					t.Error("goes on")
				}
			})
		}
	}
}

// TestRevokedAttachment checks that a silent process receives nothing more once its token is
// revoked.
func TestRevokedAttachment(t *testing.T) {
	s, gone := revocable(t, "token")
	h := newFakeHost(t)
	svc := api.New(securedHost{s, h}, s.opts)
	svc.ReauthorizeEvery = 0
	ctx, cancel := context.WithTimeout(s.as(t.Context(), "ann"), time.Minute)
	defer cancel()
	stream, err := quoratev1.NewMemberServiceClient(dialService(t, svc, nil)).Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(asks(clientHello())) // Recv returns the error
	if m, err := stream.Recv(); err != nil {
		t.Fatalf("%v, %v", m, err)
	}
	gone()
	h.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Settled{Settled: &quoratev1.Settled{}}})
	if m, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("is told %v, %v", m, err)
	}
}

// TestRevokedInSilence checks that a stream on which neither side sends anything ends, and gives back its place, once its
// token is revoked.
func TestRevokedInSilence(t *testing.T) {
	for _, what := range []string{"attachment", "quotas", "checks", "reflection", "rates over HTTP", "events over HTTP"} {
		t.Run(what, func(t *testing.T) {
			s, gone := revocable(t, "token")
			svc := api.New(securedHost{s, newFakeHost(t)}, s.opts)
			svc.ReauthorizeEvery, svc.Heartbeat = 0, time.Hour
			ctx, cancel := context.WithTimeout(s.as(t.Context(), "ann"), 20*time.Second)
			defer cancel()
			served := &sender{more: make(chan struct{})}
			var err error
			var recv func() error
			switch what {
			case "attachment":
				stream, e := quoratev1.NewMemberServiceClient(dialService(t, svc, nil)).Attach(ctx)
				if err = e; err == nil {
					err = stream.Send(asks(clientHello()))
				}
				recv = func() error { _, err := stream.Recv(); return err }
			case "quotas":
				conn := dialService(t, svc, func(r grpc.ServiceRegistrar) { quotav3.RegisterRateLimitQuotaServiceServer(r, served) })
				stream, e := quotav3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
				if err = e; err == nil {
					err = stream.Send(&quotav3.RateLimitQuotaUsageReports{Domain: "web"})
				}
				recv = func() error { _, err := stream.Recv(); return err }
			case "checks":
				stream, e := quoratev1.NewQuotaServiceClient(dialService(t, svc, nil)).AllowStream(ctx)
				if err = e; err == nil {
					err = stream.Send(&quoratev1.AllowRequest{Namespace: "web", Limit: "login", Key: "k"})
				}
				recv = func() error { _, err := stream.Recv(); return err }
			case "reflection":
				stream, e := reflectionv1.NewServerReflectionClient(dialService(t, svc, nil)).ServerReflectionInfo(ctx)
				if err = e; err == nil {
					err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
				}
				recv = func() error { _, err := stream.Recv(); return err }
			default:
				srv := httptest.NewServer(New(svc, Options{}).Handler)
				t.Cleanup(srv.Close)
				t.Cleanup(srv.CloseClientConnections)
				path := "/v1/rates/watch?namespace=web&interval=60s"
				if what == "events over HTTP" {
					path = "/v1/events?namespace=web"
				}
				recv = watchOverHTTP(t, s, srv.URL+path)
			}
			if err == nil && what != "events over HTTP" { // which begins with the headers alone
				err = recv()
			}
			if err != nil {
				t.Fatal(err)
			}
			gone()
			ended := make(chan error, 1)
			go func() { ended <- ends(recv) }()
			select {
			case err := <-ended:
				if err == nil || !strings.HasSuffix(what, " over HTTP") && status.Code(err) != codes.Unauthenticated {
					t.Errorf("ends with %v", err)
				}
			case <-ctx.Done():
				t.Error("it does not end")
			}
		})
	}
}

// endlessBackup is a node whose backup sends two pieces and then takes as long as it may.
type endlessBackup struct{ *secured }

func (endlessBackup) Backup(ctx context.Context, w io.Writer, _ func(done, total int)) error {
	_, err := w.Write(make([]byte, 2*api.BackupPiece))
	<-ctx.Done()
	return cmp.Or(err, ctx.Err())
}

// TestRevokedBackup checks that a backup breaks off, on either wire, once its caller's token or role is gone.
func TestRevokedBackup(t *testing.T) {
	for take, want := range map[string]codes.Code{"token": codes.Unauthenticated, "role": codes.PermissionDenied} {
		t.Run(take+" over gRPC", func(t *testing.T) {
			s, gone := revocable(t, take)
			svc := api.New(endlessBackup{s}, s.opts)
			svc.ReauthorizeEvery = 0
			ctx, cancel := context.WithTimeout(s.as(t.Context(), "ann"), 20*time.Second)
			defer cancel()
			stream, err := quoratev1.NewBackupServiceClient(dialService(t, svc, nil)).Backup(ctx, &quoratev1.BackupRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
			gone()
			if err := ends(func() error { _, err := stream.Recv(); return err }); status.Code(err) != want {
				t.Errorf("ends with %v; want %v", err, want)
			}
		})
		t.Run(take+" over HTTP", func(t *testing.T) {
			s, gone := revocable(t, take)
			svc := api.New(endlessBackup{s}, s.opts)
			svc.ReauthorizeEvery = 0
			srv := httptest.NewServer(New(svc, Options{}).Handler)
			t.Cleanup(srv.Close)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			res, err := http.DefaultClient.Do(s.get(ctx, t, srv.URL+"/v1/backup"))
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v", res, err)
			}
			defer res.Body.Close()
			gone()
			if n, err := io.Copy(io.Discard, res.Body); err == nil || ctx.Err() != nil {
				t.Errorf("%d bytes, %v; want the server to break off", n, err)
			}
		})
	}
}

// TestRevokedProfile checks that a profile ends early once its caller's token is revoked.
func TestRevokedProfile(t *testing.T) {
	s, gone := revocable(t, "token")
	svc := api.New(s, s.opts)
	svc.ReauthorizeEvery = 0
	srv := httptest.NewServer(NewDebug(svc).Handler)
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	time.AfterFunc(100*time.Millisecond, gone)
	res, err := http.DefaultClient.Do(s.get(ctx, t, srv.URL+"/debug/pprof/goroutine?seconds=30"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		t.Errorf("%v", res)
	}
}

// get returns a request of ann.
func (s *secured) get(ctx context.Context, t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.tokens["ann"])
	return req
}

// TestLateRequest checks that the caller of a stream is checked while the stream waits for its request.
func TestLateRequest(t *testing.T) {
	s, _ := revocable(t, "token")
	svc := api.New(securedHost{s, newFakeHost(t)}, s.opts)
	svc.ReauthorizeEvery = 0
	ctx, cancel := context.WithTimeout(s.as(t.Context(), "ann"), 20*time.Second)
	defer cancel()
	method := quoratev1.EventService_Watch_FullMethodName
	stream, err := dialService(t, svc, nil).NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // some checks run by the real clock: the connection is a real one
	err = stream.SendMsg(&quoratev1.WatchRequest{Namespace: "web"})
	if err == nil {
		_, err = stream.Header()
	}
	if err != nil {
		t.Error(err)
	}
	time.Sleep(50 * time.Millisecond) // and some after the request
}

// sender serves Envoy's rate limit quota service. It answers each report, and then once more.
type sender struct {
	quotav3.UnimplementedRateLimitQuotaServiceServer
	more chan struct{}
}

func (s *sender) StreamRateLimitQuotas(g quotav3.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	_, err := g.Recv()
	if err == nil {
		err = g.Send(&quotav3.RateLimitQuotaResponse{})
	}
	select {
	case <-s.more:
	case <-g.Context().Done():
		return g.Context().Err()
	}
	if err == nil {
		err = g.Send(&quotav3.RateLimitQuotaResponse{})
	}
	return err
}

// TestRevokedProtocol checks that a silent stream of another protocol receives nothing more once its
// token is revoked.
func TestRevokedProtocol(t *testing.T) {
	s, gone := revocable(t, "token")
	served := &sender{more: make(chan struct{})}
	conn := dialService(t, s.service(), func(r grpc.ServiceRegistrar) { quotav3.RegisterRateLimitQuotaServiceServer(r, served) })
	stream, err := quotav3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(s.as(t.Context(), "ann"))
	if err == nil {
		err = stream.Send(&quotav3.RateLimitQuotaUsageReports{Domain: "web"})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	gone()
	close(served.more)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("receives %v, %v", m, err)
	}
}

func watchOverGRPC(ctx context.Context, t *testing.T, conn *grpc.ClientConn, what string) func() error {
	t.Helper()
	var stream interface{ RecvMsg(any) error }
	var m any
	var err error
	if what == "events" {
		stream, err = quoratev1.NewEventServiceClient(conn).Watch(ctx, &quoratev1.WatchRequest{Namespace: "web"})
		m = &quoratev1.WatchResponse{}
	} else {
		stream, err = quoratev1.NewRateServiceClient(conn).WatchRates(ctx, &quoratev1.WatchRatesRequest{Namespace: "web"})
		m = &quoratev1.WatchRatesResponse{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() error { return stream.RecvMsg(m) }
}

func watchOverHTTP(t *testing.T, s *secured, url string) func() error {
	t.Helper()
	res, err := http.DefaultClient.Do(s.get(t.Context(), t, url))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	t.Cleanup(func() { res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	return func() error {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, "about:blank") {
			t.Errorf("a problem amid the stream: %s", line)
		}
		return err
	}
}

// ends receives until an error, and returns that.
func ends(recv func() error) error {
	for range 30 { // messages that were already sent
		if err := recv(); err != nil {
			return err
		}
	}
	return nil
}

func (s *secured) service() *api.Service {
	svc := api.New(s, s.opts)
	svc.ReauthorizeEvery, svc.Heartbeat = 0, 5*time.Millisecond
	return svc
}
