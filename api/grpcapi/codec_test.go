package grpcapi

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// parts splits bytes as a connection does.
func parts(data []byte) mem.BufferSlice {
	half := len(data) / 2
	return mem.BufferSlice{mem.SliceBuffer(data[:half]), mem.SliceBuffer(data[half:])}
}

// sameCheck compares a decoded check with the result of the generated code.
func sameCheck(t *testing.T, got api.Check, gotFault error, req *quoratev1.AllowRequest) {
	t.Helper()
	var want api.Check
	err := want.From(req)
	if (err == nil) != (gotFault == nil) || err != nil && err.Error() != gotFault.Error() {
		t.Fatalf("fault %v, want %v", gotFault, err)
	}
	if !want.Costs && got.Costs { // the short form of a batch sets the default explicitly
		want.Cost, want.Costs = 1, true
	}
	if want.Key.Key == "" && got.Key.Key == quota.WholeKey {
		want.Key.Key = quota.WholeKey
	}
	if err == nil && got != want {
		t.Fatalf("read %+v, want %+v", got, want)
	}
}

// FuzzReadCheck checks that any bytes decode as with the generated code.
func FuzzReadCheck(f *testing.F) {
	for _, req := range []*quoratev1.AllowRequest{
		{},
		{Namespace: "web", Limit: "per_client", Key: "203.0.113.7"},
		{Namespace: "web", Limit: "per_client", Key: "k", Cost: proto.Int64(3)},
		{Namespace: "web", Limit: "l", Key: strings.Repeat("k", 300), Cost: proto.Int64(-1), MaxWait: durationpb.New(time.Second)},
		{Namespace: "slas", Method: "GET", Path: "/a"},
	} {
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{tagKey, 1, 0xff})
	f.Add([]byte{tagCost, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02})
	f.Add([]byte{tagCost, 0x80, 0x00, tagKey, 0x81, 0x00, 'k', tagKey, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newCodec()
		var req quoratev1.AllowRequest
		m := single{check: api.Check{Key: quota.Key{Key: "of the check before"}, Costs: true}}
		wrong, err := c.Unmarshal(parts(data), &req), c.Unmarshal(parts(data), &m)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("error %v, want %v", err, wrong)
		}
		if err == nil {
			sameCheck(t, m.check, m.fault, &req)
		}
	})
}

// FuzzReadBatch does the same for all checks of a batch.
func FuzzReadBatch(f *testing.F) {
	ok := &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "203.0.113.7"}
	for _, checks := range [][]*quoratev1.AllowRequest{
		nil,
		{ok, ok, {Namespace: "web", Limit: "other", Key: "k", Cost: proto.Int64(7)}, ok},
		{ok, {Namespace: "web", Limit: "per_client", MaxWait: durationpb.New(-1)}, ok},
		{{}, {}, {Namespace: "a b"}, {Namespace: "a b"}},
	} {
		data, err := proto.Marshal(&quoratev1.AllowBatchRequest{Checks: checks})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newCodec()
		var req quoratev1.AllowBatchRequest
		m := checkBatch{checks: make([]api.Check, 3, 8), faults: make([]error, 2)}
		m.plain.spends, m.plain.runs = make([]quota.Spend, 3, 8), make([]run, 2)
		wrong, err := c.Unmarshal(parts(data), &req), c.Unmarshal(parts(data), &m)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("error %v, want %v", err, wrong)
		}
		if err != nil {
			return
		}
		got := all(&m)
		if m.count != len(req.Checks) || len(got) != min(m.count, apiproto.MaxBatch) {
			t.Fatalf("%d checks, %d kept; want %d", m.count, len(got), len(req.Checks))
		}
		for i := range got {
			var fault error
			if m.faults != nil {
				fault = m.faults[i]
			}
			sameCheck(t, got[i], fault, req.Checks[i])
		}
	})
}

// all returns the checks of a batch, in either form.
func all(m *checkBatch) []api.Check {
	out, spends := m.checks, m.plain.spends
	for _, r := range m.plain.runs {
		for _, spend := range spends[:r.count] {
			out = append(out, api.Check{Key: quota.Key{LimitName: r.name, Key: spend.Key}, Cost: spend.Cost, Costs: true})
		}
		spends = spends[r.count:]
	}
	return out
}

func TestBatchOfTooMany(t *testing.T) {
	var req quoratev1.AllowBatchRequest
	for range apiproto.MaxBatch + 5 {
		req.Checks = append(req.Checks, &quoratev1.AllowRequest{Namespace: "web", Limit: "l", Key: "k"})
	}
	data, err := proto.Marshal(&req)
	if err != nil {
		t.Fatal(err)
	}
	var m checkBatch
	if err := newCodec().Unmarshal(parts(data), &m); err != nil || m.count != apiproto.MaxBatch+5 || len(all(&m)) != apiproto.MaxBatch {
		t.Fatalf("%v: %d checks, %d kept", err, m.count, len(all(&m)))
	}
}

// TestAnswersOnTheWire checks that answers equal the bytes of the generated code.
func TestAnswersOnTheWire(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 22))
	long := strings.Repeat("n", quota.MaxNameLen)
	all := apitest.MustLimits(t, 1, "web/l 10/s 20", long+"/"+long+" 5/m 5 hard").All()
	limits := []*quota.Limit{&all[0], &all[1]}
	durations := []time.Duration{0, -1, 1, time.Millisecond, time.Second, 90*time.Second + 5, 366 * 24 * time.Hour, apiproto.Never}
	any := func() time.Duration { return durations[rng.IntN(len(durations))] }
	for i := range 5000 {
		d := quota.Decision{
			Allowed: rng.IntN(2) == 0, Remaining: []int64{0, 1, 127, 128, 1 << 40, -3}[rng.IntN(6)], RetryAfter: max(any(), 0), Why: quota.Why(rng.IntN(23)),
			Wait: any(), Shadow: rng.IntN(4) == 0, Near: rng.IntN(4) == 0, ResetAfter: any(), Tier: rng.IntN(3),
		}
		r := api.NoRule
		if n := rng.IntN(3); n < len(limits) {
			d.Limit = limits[n]
			r = api.Prepare(d.Limit, &api.Counts{})
		}
		res := r.Response(&d)
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		got := appendWire(nil, r, &d)
		if string(got) != string(want) {
			t.Fatalf("%d: %+v\n got %x\nwant %x", i, d, got, want)
		}
		result := &quoratev1.AllowResult{Response: res}
		var f error
		if i%3 == 0 {
			f = apierr.Invalid("limit", "is %s", strings.Repeat("x", rng.IntN(200)))
			result = &quoratev1.AllowResult{Error: f.Error()}
		}
		many, err := proto.Marshal(&quoratev1.AllowBatchResponse{Results: []*quoratev1.AllowResult{result}})
		if err != nil {
			t.Fatal(err)
		}
		if got := appendResult(nil, got, f); string(got) != string(many) {
			t.Fatalf("%d: result\n got %x\nwant %x", i, got, many)
		}
		if got := appendDecision(nil, r, &d); f == nil && string(got) != string(many) {
			t.Fatalf("%d: result of a decision\n got %x\nwant %x", i, got, many)
		}
	}
	if _, n := varint(string(protowire.AppendVarint(nil, 1<<63))); n != 10 {
		t.Errorf("a number of 64 bits has %d bytes", n)
	}
}
