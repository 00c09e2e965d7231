package pki

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTokenFile: what is sent is what the file has, within ten seconds; while it cannot be
// read it is what it had.
func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{"": "is empty", "open sesame": "one word", strings.Repeat("x", maxBearer+1): "at most 16384 bytes"} {
		put(text)
		if _, err := NewTokenFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v; want %q", text, err, want)
		}
	}
	if _, err := NewTokenFile(path + ".none"); err == nil {
		t.Error("a file that is not there is taken")
	}
	put("first\n")
	f, err := NewTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sent := func() string {
		m, err := f.GetRequestMetadata(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m["authorization"]
	}
	put("second\n")
	if got := sent(); got != "Bearer first" {
		t.Errorf("%q at once", got)
	}
	f.read = f.read.Add(-tokenLook)
	if got := sent(); got != "Bearer second" {
		t.Errorf("%q after a while", got)
	}
	f.read = time.Time{}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := sent(); got != "Bearer second" {
		t.Errorf("%q without the file", got)
	}
	if !f.RequireTransportSecurity() {
		t.Error("it would be sent in the clear")
	}
}

// TestOpenCaller: the CA is needed, the certificate is not, half of one is an error.
func TestOpenCaller(t *testing.T) {
	ca, err := NewCA("prod", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	own, err := ca.Pair()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(Identity{Cluster: "prod", Kind: Client, Name: "ann"}, nil, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, step := range []struct {
		file string
		text []byte
		ok   bool
	}{{CallerTrust, own.CertPEM, true}, {CallerCert, pair.CertPEM, false}, {CallerKey, []byte(pair.KeyPEM), true}} {
		if err := os.WriteFile(filepath.Join(dir, step.file), step.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenCaller(dir); (err == nil) != step.ok {
			t.Errorf("with %s: %v", step.file, err)
		}
	}
	if _, err := OpenCaller(t.TempDir()); err == nil || !strings.Contains(err.Error(), CallerTrust) {
		t.Errorf("an empty directory: %v", err)
	}
}
