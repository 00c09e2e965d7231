package replica

import (
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/quota"
)

func TestConvertLevel(t *testing.T) {
	want := filltest.Filled[quota.KeyLevel](t)
	got := DecodeLevel(EncodeLevel(want))
	got.At = want.At // an entry has the time of its checkpoint
	want.Applied = 0 // every replica sets its own
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stored:\n%+v\nbefore:\n%+v", got, want)
	}
}

// TestMaxSize checks that no encoded level exceeds the size assumed when checkpoints and snapshots are cut.
func TestMaxSize(t *testing.T) {
	kl := filltest.Filled[quota.KeyLevel](t)
	for _, value := range []int64{-1, math.MaxInt64} { // the longest varints
		set := func(v reflect.Value) {
			for _, f := range v.Fields() {
				switch f.Kind() {
				case reflect.Int64:
					f.SetInt(value)
				case reflect.Uint64:
					f.SetUint(math.MaxUint64)
				}
			}
		}
		set(reflect.ValueOf(&kl).Elem())
		for i := range kl.Marks {
			set(reflect.ValueOf(&kl.Marks[i]).Elem())
		}
		line := EncodeLevel(kl)
		line.AtUnixNanos = value
		if size := proto.Size(&raftlogv1.Checkpoint{Levels: []*raftlogv1.KeyLevel{line}}); size > kl.MaxSize() {
			t.Errorf("%d bytes, counted as %d", size, kl.MaxSize())
		}
	}
}
