package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// addGolden seeds a fuzz test with the golden files of its kind.
func addGolden(f *testing.F, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatal(pattern, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 4096 {
			f.Add(data)
		}
	}
}

// checkFaults requires a *FileError whose faults have plausible places.
func checkFaults(t *testing.T, data []byte, err error) {
	t.Helper()
	var fe *FileError
	if !errors.As(err, &fe) || len(fe.Faults) == 0 {
		t.Fatalf("not a *FileError: %v", err)
	}
	lines := strings.Count(string(data), "\n") + 1
	for _, f := range fe.Faults {
		if f.Line < 0 || f.Line > lines+1 || (f.Line > 0) != (f.Column > 0) || f.Message == "" {
			t.Errorf("%d lines: %+v", lines, f)
		}
	}
	if i := strings.IndexFunc(err.Error(), func(r rune) bool { return r < ' ' && r != '\n' }); i >= 0 {
		t.Errorf("control character in the error: %q", err.Error())
	}
}

func FuzzParseLimits(f *testing.F) {
	addGolden(f, "testdata/limits-*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		limits, err := ParseLimits("f", data)
		if err != nil {
			checkFaults(t, data, err)
			return
		}
		if _, err := quota.NewLimits(1, limits); err != nil {
			t.Fatalf("accepted, but not valid: %v", err)
		}
		text := FormatLimits(limits)
		again, err := ParseLimits("again", text)
		if err != nil {
			t.Fatalf("%v\nin what was written:\n%s", err, text)
		}
		if !slices.EqualFunc(limits, again, func(a, b quota.Limit) bool { return a.Equal(&b) }) {
			t.Fatalf("read %v\nwritten and read again %v", limits, again)
		}
		if !slices.Equal(Lint(limits), Lint(again)) {
			t.Fatalf("other findings in what was written: %v", Lint(again))
		}
	})
}

func FuzzParseNode(f *testing.F) {
	addGolden(f, "testdata/node-*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := ParseNode("f", data)
		if err != nil {
			checkFaults(t, data, err)
			return
		}
		if n.Data == "" || len(n.Nodes) == 0 || n.Raft.Lease > n.Raft.Heartbeat || n.Idle <= n.Sync {
			t.Fatalf("accepted, but not complete: %+v", n)
		}
		if files := n.TLS.CA + n.TLS.Cert + n.TLS.Key + n.TLS.CAKey; n.TLS.Mode == TLSOff && files != "" || (n.TLS.Cert == "") != (n.TLS.Key == "") {
			t.Fatalf("accepted, but not of use: %+v", n.TLS)
		}
	})
}

func FuzzParseOverrides(f *testing.F) {
	addGolden(f, "testdata/overrides-*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		overrides, err := ParseOverrides("f", data, goldenNow)
		if err != nil {
			checkFaults(t, data, err)
			return
		}
		for i := range overrides {
			if err := overrides[i].Validate(); err != nil {
				t.Fatalf("accepted, but not valid: %v", err)
			}
		}
		text := FormatOverrides(overrides)
		again, err := ParseOverrides("again", text, goldenNow)
		if err != nil || !slices.Equal(overrides, again) {
			t.Fatalf("%v\nread %v\nwritten and read again %v\nas\n%s", err, overrides, again, text)
		}
	})
}

func FuzzParsePolicies(f *testing.F) {
	addGolden(f, "testdata/policies-*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		policies, err := ParsePolicies("f", data)
		if err != nil {
			checkFaults(t, data, err)
			return
		}
		for k, p := range policies {
			if err := errors.Join(k.Validate(), p.Validate()); err != nil {
				t.Fatalf("accepted, but %v is not valid: %v", k, err)
			}
		}
		text := FormatPolicies(policies)
		if again, err := ParsePolicies("written", text); err != nil || !maps.Equal(again, policies) {
			t.Fatalf("%s\nread back as %v, %v; want %v", text, again, err, policies)
		}
	})
}

func FuzzParseOps(f *testing.F) {
	addGolden(f, "testdata/ops-*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		ops, err := ParseOps("f", data, account.ConfigID{App: "cv", Realm: "r"})
		if err != nil {
			checkFaults(t, data, err)
			return
		}
		call := account.Request{ID: ops.RequestID, TTL: ops.TTL, Ops: ops.Ops}
		if err := call.Validate(); err != nil {
			t.Fatalf("accepted, but not valid: %v", err)
		}
	})
}
