package gubernator

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/rbac"
)

// rawCodec sends bytes unchanged.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (rawCodec) Name() string                       { return "proto" }

// invoke calls a method by its name, with bytes.
func invoke(t *testing.T, s *Server, method string, req []byte) ([]byte, error) {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	s.Register(srv)
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var res []byte
	err = conn.Invoke(t.Context(), method, &req, &res, grpc.ForceCodec(rawCodec{}))
	return res, err
}

// TestWire uses the protocol's field numbers directly, without generated code: it fails for an
// incompatible change of the proto file, even if all our code changed with it.
func TestWire(t *testing.T) {
	str := func(b []byte, n protowire.Number, v string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	num := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	at := uint64(epoch.Add(57 * time.Second).UnixMilli()) // 3 of 60 remain
	// Every field: name, unique_key, hits, limit, duration, algorithm, behavior, burst, metadata,
	// created_at, and one of a newer client.
	full := num(num(num(num(num(num(str(str(nil, 1, "login"), 2, "ann"), 3, 2), 4, 60), 5, 60_000), 6, 1), 7, 2), 8, 5)
	full = num(num(str(full, 9, string(str(str(nil, 1, "trace"), 2, "x"))), 10, 1), 99, 7)
	over := num(num(num(num(str(str(nil, 1, "login"), 2, "bob"), 3, 6), 4, 5), 5, 60_000), 7, 32)
	req := str(str(str(nil, 1, string(full)), 1, string(over)), 1, string(str(nil, 1, "login")))
	want := str(nil, 1, string(num(num(num(nil, 2, 60), 3, 3), 4, at)))
	want = str(want, 1, string(str(num(num(num(nil, 1, 1), 2, 5), 4, uint64(epoch.Add(time.Minute).UnixMilli())), 6, string(str(str(nil, 1, "why"), 2, "over_burst")))))
	want = str(want, 1, string(str(nil, 5, "field 'unique_key' cannot be empty")))
	n := newSole(t)
	got, err := invoke(t, New(n, n.options()), "/pb.gubernator.V1/GetRateLimits", req)
	if err != nil || string(got) != string(want) {
		t.Errorf("%v\ngot  % x\nwant % x", err, got, want)
	}
	n.status = &quoratev1.GetStatusResponse{Ready: true, Nodes: make([]*quoratev1.NodeStatus, 3)}
	if got, err = invoke(t, New(n, n.options()), "/pb.gubernator.V1/HealthCheck", nil); err != nil || string(got) != string(num(str(nil, 1, "healthy"), 3, 3)) {
		t.Errorf("% x, %v", got, err)
	}
	n.status.Ready, n.status.Reason = false, "no leader"
	if got, err = invoke(t, New(n, n.options()), "/pb.gubernator.V1/HealthCheck", nil); err != nil || string(got) != string(num(str(str(nil, 1, "unhealthy"), 2, "no leader"), 3, 3)) {
		t.Errorf("% x, %v", got, err)
	}
	if got, err = invoke(t, New(n, n.options()), "/pb.gubernator.V1/LiveCheck", nil); err != nil || len(got) != 0 {
		t.Errorf("% x, %v", got, err)
	}
}

// TestHTTP compares the JSON form with that of gubernator's gateway.
func TestHTTP(t *testing.T) {
	n := newSole(t)
	n.status = &quoratev1.GetStatusResponse{Ready: true, Nodes: make([]*quoratev1.NodeStatus, 3)}
	at := "1798761660000"
	for _, c := range []struct {
		what, method, path, body string
		code                     int
		want                     string
	}{
		{
			"field names of the proto file, numbers as numbers", "POST", PathGetRateLimits,
			`{"requests":[{"name":"a","unique_key":"k","hits":1,"limit":5,"duration":60000,"algorithm":"TOKEN_BUCKET","behavior":"GLOBAL","nobody_knows":1}]}`, 200,
			`{"responses":[{"status":"UNDER_LIMIT","limit":"5","remaining":"4","reset_time":"` + at + `","error":"","metadata":{}}]}`,
		},
		{
			"names in camel case, numbers as strings, flags as a sum", "POST", PathGetRateLimits,
			`{"requests":[{"name":"a","uniqueKey":"k","hits":"4","limit":"5","duration":"60000","behavior":34,"createdAt":"5"}]}`, 200,
			`{"responses":[{"status":"UNDER_LIMIT","limit":"5","remaining":"0","reset_time":"` + at + `","error":"","metadata":{}}]}`,
		},
		{
			"over, and an error", "POST", PathGetRateLimits,
			`{"requests":[{"name":"a","unique_key":"k","hits":"1","limit":"5","duration":"60000","behavior":2},{}]}`, 200,
			`{"responses":[{"status":"OVER_LIMIT","limit":"5","remaining":"0","reset_time":"` + at + `","error":"","metadata":{"retry_after_ms":"60000","why":"over_limit"}},{"status":"UNDER_LIMIT","limit":"0","remaining":"0","reset_time":"0","error":"field 'unique_key' cannot be empty","metadata":{}}]}`,
		},
		{"no body", "POST", PathGetRateLimits, "", 200, `{"responses":[]}`},
		{"no JSON", "POST", PathGetRateLimits, "x", 400, `{"code":3,"message":"the body: `},
		{"no JSON, with controls", "POST", PathGetRateLimits, "{\"requests\":[\u009b31m\u202e]}", 400, `{"code":3,"message":"the body: proto:`},
		{"too many", "POST", PathGetRateLimits, `{"requests":[` + strings.Repeat("{},", 1000) + `{}]}`, 400, `{"code":11,"message":"requests: 1001; at most 1000 in one call","details":[]}`},
		{"crowded", "POST", PathGetRateLimits, `{"requests":[` + strings.Repeat("{},", maxObjects) + `{}]}`, 400, `{"code":11,"message":"the body has more than 4000 braces`},
		{"too large", "POST", PathGetRateLimits, strings.Repeat(" ", maxBody+1), 400, `{"code":11,"message":"the body has more than 4194304 bytes","details":[]}`},
		{"another method", "GET", PathGetRateLimits, "", 405, `{"code":12,"message":"use POST","details":[]}`},
		{"below a path", "POST", PathGetRateLimits + "/x", "", 404, `{"code":5,`},
		{"health", "GET", PathHealthCheck, "", 200, `{"status":"healthy","message":"","peer_count":3,"advertise_address":"","local_peers":[],"region_peers":[]}`},
		{"live", "GET", PathLiveCheck, "", 200, `{}`},
	} {
		w := httptest.NewRecorder()
		path := strings.TrimSuffix(c.path, "/x")
		New(n, n.options()).Handlers()[path].ServeHTTP(w, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
		got := strings.NewReplacer(`": `, `":`, `, "`, `,"`, `}, {`, `},{`).Replace(w.Body.String()) // protojson adds spaces at random
		if w.Code != c.code || !strings.HasPrefix(got, c.want) || w.Header().Get("Content-Type") != "application/json" || strings.ContainsFunc(got, jsontext.IsDisplayControl) {
			t.Errorf("%s: %d %s; want %d %s", c.what, w.Code, got, c.code, c.want)
		}
	}
	o := n.options()
	o.May = func(context.Context, rbac.Permission, string) error {
		return status.Error(codes.Unauthenticated, "who is it?")
	}
	w := httptest.NewRecorder()
	before := len(n.asked)
	New(n, o).Handlers()[PathGetRateLimits].ServeHTTP(w, httptest.NewRequest(http.MethodPost, PathGetRateLimits, strings.NewReader(`{"requests":[{"name":"a","unique_key":"k"}]}`)))
	if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" || len(n.asked) != before {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestAddresses checks that the health check lists the nodes, as gubernator does, if everybody may
// read the cluster's status, and otherwise shows no address.
func TestAddresses(t *testing.T) {
	n := newSole(t)
	n.status = &quoratev1.GetStatusResponse{Ready: true, Node: "n2", Nodes: []*quoratev1.NodeStatus{{Id: "n1", GrpcAddress: "h1:7412"}, {Id: "n2", GrpcAddress: "h2:7412"}}}
	for _, c := range []struct {
		addresses bool
		want      string
	}{
		{false, `{"status":"healthy","message":"","peer_count":2,"advertise_address":"","local_peers":[],"region_peers":[]}`},
		{true, `{"status":"healthy","message":"","peer_count":2,"advertise_address":"h2:7412","local_peers":[{"grpc_address":"h1:7412","data_center":""},{"grpc_address":"h2:7412","data_center":""}],"region_peers":[]}`},
	} {
		o := n.options()
		o.Addresses = c.addresses
		w := httptest.NewRecorder()
		New(n, o).Handlers()[PathHealthCheck].ServeHTTP(w, httptest.NewRequest(http.MethodGet, PathHealthCheck, nil))
		if got := strings.NewReplacer(`": `, `":`, `, "`, `,"`, `}, {`, `},{`).Replace(w.Body.String()); got != c.want {
			t.Errorf("addresses %t: %s; want %s", c.addresses, got, c.want)
		}
	}
}

// FuzzHTTP checks that any posted body gets a JSON answer with a known status.
func FuzzHTTP(f *testing.F) {
	for _, s := range []string{
		`{"requests":[{"name":"a","unique_key":"k","hits":1,"limit":5,"duration":60000}]}`, `{"requests":[{"name":"a","unique_key":"k","hits":-1,"limit":5,"duration":4,"behavior":44,"algorithm":1,"burst":9}]}`, `{"requests":null}`, `[]`,
	} {
		f.Add(s)
	}
	n := newSole(f)
	h := New(n, n.options()).Handlers()[PathGetRateLimits]
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, PathGetRateLimits, strings.NewReader(body)))
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Fatalf("%q: %d %s", body, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), `"remaining":"-`) || strings.Contains(w.Body.String(), `"reset_time":"-`) {
			t.Fatalf("%q: %s", body, w.Body)
		}
	})
}
