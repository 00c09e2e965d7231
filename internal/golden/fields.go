package golden

import (
	"encoding/json"
	"testing"
)

// HasFields fails the test for every name that v's JSON lacks.
func HasFields(t testing.TB, v any, names ...string) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if _, ok := m[n]; !ok {
			t.Errorf("JSON has no %s", n)
		}
	}
}
