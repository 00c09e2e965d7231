package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestEscape checks that what controls a display is escaped, and that nothing else changes.
func TestEscape(t *testing.T) {
	for _, s := range []string{"", "plain", "é 漢 \U0001f600", "\u009b31m", "a\u202eb\u2066c\u200f", "\x7f\u0085\ufeff\u061c", "\xff\u009d0;x\a"} {
		marshalled, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got := Escape(marshalled)
		if strings.ContainsFunc(string(got), IsDisplayControl) || strings.ContainsAny(string(got), "\x7f\u0085\u009b\u009d\u061c\u200f\u202e\u2066\ufeff") {
			t.Errorf("%q: %q", s, got)
		}
		var back, want string
		if json.Unmarshal(marshalled, &want) != nil || json.Unmarshal(got, &back) != nil || back != want {
			t.Errorf("%q became %q", want, back)
		}
	}
	if text := []byte(`{"a":"é"}`); &Escape(text)[0] != &text[0] {
		t.Error("what needs nothing is copied")
	}
}
