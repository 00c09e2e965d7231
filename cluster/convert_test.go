package cluster

import (
	"reflect"
	"testing"

	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/quota"
)

func TestConvertLevel(t *testing.T) {
	want := filltest.Filled[quota.KeyLevel](t)
	got := decodeLevel(encodeLevel(want))
	got.At = want.At // an entry's time is that of its checkpoint
	want.Applied = 0 // every replica has its own
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stored:\n%+v\nbefore:\n%+v", got, want)
	}
}
