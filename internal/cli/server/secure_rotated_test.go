package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/pki"
)

// TestStartAfterRotation: the first node has the key of the cluster's first CA and the certificate
// of the newest. It starts if it has been a member; before that, a pair that does not match is an
// error.
func TestStartAfterRotation(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, pkiDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	first, next := authority(t), authority(t)
	for name, content := range map[string][]byte{"ca.crt": next.CertPEM, caKeyFile: []byte(first.KeyPEM)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &config.Node{Data: data}
	if _, err := openSecurity(s, "quorate", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "does not belong") {
		t.Errorf("of a node that has never run: %v", err)
	}
	if err := os.Mkdir(filepath.Join(data, "raft"), 0o700); err != nil {
		t.Fatal(err)
	}
	sec, err := openSecurity(s, "quorate", slog.New(slog.DiscardHandler))
	if err != nil || sec.authority != nil {
		t.Errorf("after a rotation: %+v, %v", sec, err)
	}
}

func authority(t *testing.T) pki.Pair {
	t.Helper()
	ca, err := pki.NewCA("quorate", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Pair()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
