package cluster

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// fill sets every field below v to a value of its own.
func fill(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.String:
		v.SetString("s" + time.Duration(*next).String())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*time.Location]() {
			z, err := zone.Load("Europe/Berlin")
			if err != nil {
				t.Fatal(err)
			}
			v.Set(reflect.ValueOf(z))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), next)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field, next)
		}
	default:
		t.Fatalf("a field of kind %v: teach the test", v.Kind())
	}
}

func filled[T any](t *testing.T) T {
	t.Helper()
	var out T
	next := int64(0)
	fill(t, reflect.ValueOf(&out).Elem(), &next)
	return out
}

// wired is m after a way over the wire.
func wired[M proto.Message](t *testing.T, m, to M) M {
	t.Helper()
	if err := proto.Unmarshal(encode(m), to); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestConvertReport(t *testing.T) {
	want := filled[quota.Report](t)
	got := decodeReport(want.From, wired(t, encodeReport(&want), &peerv1.Report{}))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after the wire:\n%+v\nbefore:\n%+v", got, want)
	}
	want.Entries[0].Learn, want.Full = nil, false
	got = decodeReport(want.From, wired(t, encodeReport(&want), &peerv1.Report{}))
	if got.Entries[0].Learn != nil || got.Full || !reflect.DeepEqual(got, want) {
		t.Errorf("without learn:\n%+v\nbefore:\n%+v", got, want)
	}
}

func TestConvertGrant(t *testing.T) {
	want := filled[quota.Grant](t)
	got := decodeGrant(want.From, want.To, wired(t, encodeGrant(&want), &peerv1.Grant{}))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after the wire:\n%+v\nbefore:\n%+v", got, want)
	}
}

// TestConvertNegative: a peer's learn is not trusted where it must not be
// negative; a level may be.
func TestConvertNegative(t *testing.T) {
	e := decodeReportEntry(&peerv1.ReportEntry{Learn: &peerv1.Learn{Level: -1, AgeNanos: -1, Rate: -1, Cap: -1, LeaseLeftNanos: -1}})
	if want := (quota.Learn{Level: -1}); *e.Learn != want {
		t.Errorf("got %+v, want %+v", *e.Learn, want)
	}
}

func TestConvertLimits(t *testing.T) {
	want := filled[quota.Limit](t)
	got, err := decodeLimit(wired(t, encodeLimit(&want), &raftlogv1.StoredLimit{}))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equal(&want) || !reflect.DeepEqual(got, want) {
		t.Errorf("stored:\n%+v\nbefore:\n%+v", got, want)
	}
}

func TestConvertLevel(t *testing.T) {
	want := filled[quota.KeyLevel](t)
	got := decodeLevel(encodeLevel(want))
	got.At = want.At // an entry's time is that of its checkpoint
	want.Applied = 0 // every replica has its own
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stored:\n%+v\nbefore:\n%+v", got, want)
	}
}
