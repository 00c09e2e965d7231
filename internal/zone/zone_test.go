package zone

import "testing"

func TestLoad(t *testing.T) {
	a, err := Load("Europe/Berlin")
	if err != nil || a.String() != "Europe/Berlin" || Name(a) != "Europe/Berlin" {
		t.Fatalf("Load = %v, %v", a, err)
	}
	if b, err := Load("Europe/Berlin"); err != nil || b != a {
		t.Errorf("loaded again: another pointer, %v", err)
	}
	for _, name := range []string{"", "UTC"} {
		if l, err := Load(name); err != nil || l != nil || Name(l) != "UTC" {
			t.Errorf("Load(%q) = %v, %v; want nil for UTC", name, l, err)
		}
	}
	for _, name := range []string{"Local", "Europe/Bärlin", " UTC", "../etc/passwd", "Mars/Olympus"} {
		if l, err := Load(name); err == nil {
			t.Errorf("Load(%q) = %v, want an error", name, l)
		}
	}
}
