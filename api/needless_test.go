package api

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestNeedlessHasTwoBounds checks that every message with a lower bound of needless refusals has an
// upper bound too.
func TestNeedlessHasTwoBounds(t *testing.T) {
	found := 0
	for _, file := range []protoreflect.FileDescriptor{quoratev1.File_quorate_v1_rates_proto, quoratev1.File_quorate_v1_history_proto} {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			if m.Fields().ByName("needless_refusals") == nil {
				continue
			}
			found++
			if m.Fields().ByName("needless_refusals_at_most") == nil {
				t.Errorf("%s has needless_refusals and no needless_refusals_at_most: 0 reads as none, where it is 0 to 2703", m.FullName())
			}
		}
	}
	if found < 4 {
		t.Errorf("%d messages have needless_refusals; there were 4", found)
	}
}
