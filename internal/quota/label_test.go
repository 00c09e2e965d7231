package quota

import "testing"

func TestLabels(t *testing.T) {
	for _, tc := range []struct {
		key, name, want string
		ok              bool
	}{
		{"acme/eu/7", "1", "acme", true},
		{"acme/eu/7", "3", "7", true},
		{"acme/eu/7", "4", "", false},
		{"acme/eu/7", "0", "", false},
		{"tenant=acme,region=eu", "region", "eu", true},
		{"tenant=acme/region=eu", "tenant", "acme", true},
		{"tenant=acme/region=eu", "2", "region=eu", true},
		{"tenant=a=b", "tenant", "a=b", true},
		{"tenant=a/tenant=b", "tenant", "a", true},
		{"tenant", "tenant", "", false},
		{"", "1", "", true},
		{"*", "1", "*", true},
	} {
		if got, ok := LabelOf(tc.key, tc.name); got != tc.want || ok != tc.ok {
			t.Errorf("LabelOf(%q, %q) = %q, %v; want %q, %v", tc.key, tc.name, got, ok, tc.want, tc.ok)
		}
	}
	for label, want := range map[string]bool{"": true, "1=acme": true, "1=eu": false, "region=eu": true, "region=": false, "x=y": false} {
		if got := HasLabel("acme/region=eu", label); got != want {
			t.Errorf("HasLabel(%q) = %v", label, got)
		}
	}
}
