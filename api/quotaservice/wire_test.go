package quotaservice

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/internal/quota"
)

// rawCodec sends bytes unchanged.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (rawCodec) Name() string                       { return "proto" }

func dial(t *testing.T, n Node) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	Register(srv, n, nil)
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
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
	full := num(num(num(str(str(nil, 1, "named"), 2, "one"), 3, 3), 4, 250), 5, 1)
	short := slices.Clip(str(str(nil, 1, "named"), 2, "one"))
	for _, c := range []struct {
		what string
		req  []byte
		d    quota.Decision
		want []byte
		cost int64
		wait time.Duration
	}{
		{"granted", full, quota.Decision{Allowed: true, Why: quota.WhyHeld}, num(nil, 2, 3), 3, 250 * time.Millisecond},
		{"granted with a wait", full, quota.Decision{Allowed: true, Why: quota.WhyReserved, Wait: 200 * time.Millisecond}, num(num(nil, 2, 3), 3, 200), 3, 250 * time.Millisecond},
		{"defaults", short, quota.Decision{Allowed: true, Why: quota.WhyHeld}, num(nil, 2, 1), 1, quota.LimitsWait},
		{"a field of a newer client", num(short, 99, 1), quota.Decision{Allowed: true, Why: quota.WhyHeld}, num(nil, 2, 1), 1, quota.LimitsWait},
		{"timeout", full, quota.Decision{Why: quota.WhyWaitTooLong}, num(nil, 1, 1), 3, 250 * time.Millisecond},
		{"no bucket", full, quota.Decision{Why: quota.WhyNoLimit}, num(nil, 1, 2), 3, 250 * time.Millisecond},
		{"too many buckets", full, quota.Decision{Why: quota.WhyTooManyKeys}, num(nil, 1, 3), 3, 250 * time.Millisecond},
		{"too many tokens", full, quota.Decision{Why: quota.WhyOverBurst}, num(nil, 1, 4), 3, 250 * time.Millisecond},
		{"invalid", num(short, 3, 1<<64-1), quota.Decision{}, num(nil, 1, 5), 0, 0},
		{"server error", full, quota.Decision{}, num(nil, 1, 6), 3, 250 * time.Millisecond},
	} {
		n := &fakeNode{limits: set(t, 1, usual()...), decision: c.d}
		conn := dial(t, n)
		var res []byte
		if err := conn.Invoke(t.Context(), "/quotaservice.QuotaService/Allow", &c.req, &res, grpc.ForceCodec(rawCodec{})); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if string(res) != string(c.want) {
			t.Errorf("%s: answered % x; want % x", c.what, res, c.want)
		}
		if c.cost > 0 && (len(n.asked) != 1 || n.asked[0].Cost != c.cost || n.asked[0].MaxWait != c.wait) {
			t.Errorf("%s: read as %+v; want cost %d, wait %v", c.what, n.asked, c.cost, c.wait)
		}
	}
}
