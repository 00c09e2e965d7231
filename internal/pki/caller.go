package pki

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The files of a caller's directory, as quorate init and quorate cert write them.
const (
	CallerTrust = "ca.crt"     // whom it trusts
	CallerCert  = "client.crt" // its certificate, if it has one
	CallerKey   = "client.key"
)

// OpenCaller opens the directory of a caller: ca.crt, and, for mutual TLS, client.crt and
// client.key. They are looked at again in handshakes, so what is renewed needs no restart.
func OpenCaller(dir string) (*Store, error) {
	files := Files{CA: filepath.Join(dir, CallerTrust), Cert: filepath.Join(dir, CallerCert), Key: filepath.Join(dir, CallerKey)}
	if _, err := os.Stat(files.Cert); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		files.Cert, files.Key = "", ""
	}
	return OpenFiles(files, Options{})
}

// tokenLook is how long a token that was read is used before the file is looked at again.
const tokenLook = 10 * time.Second

// maxBearer bounds the file of a token: JWTs are the longest.
const maxBearer = 16 << 10

// TokenFile sends the bearer token in a file with every call, over TLS only: it is what
// gRPC calls PerRPCCredentials. A token that is replaced is sent within ten seconds.
// Safe for concurrent use.
type TokenFile struct {
	path string

	mu    sync.Mutex
	token string
	read  time.Time
}

// NewTokenFile fails when the file cannot be read, or has no token in it.
func NewTokenFile(path string) (*TokenFile, error) {
	t := &TokenFile{path: path}
	_, err := t.current(time.Now())
	return t, err
}

func (t *TokenFile) current(now time.Time) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" && now.Sub(t.read) < tokenLook {
		return t.token, nil
	}
	b, err := os.ReadFile(t.path)
	token := strings.TrimSpace(string(b))
	switch {
	case err == nil && token == "":
		err = fmt.Errorf("%s: is empty; must have a bearer token in it", t.path)
	case err == nil && (len(b) > maxBearer || strings.ContainsAny(token, " \t\r\n")):
		err = fmt.Errorf("%s: is no bearer token; must be one word of at most %d bytes", t.path, maxBearer)
	}
	if err != nil {
		return "", err
	}
	t.token, t.read = token, now
	return token, nil
}

// GetRequestMetadata returns the header of a call. While the file cannot be read, it is the
// last token that could.
func (t *TokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := t.current(time.Now())
	if err != nil {
		t.mu.Lock()
		token = t.token
		t.mu.Unlock()
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity says that the token is sent over TLS only.
func (*TokenFile) RequireTransportSecurity() bool { return true }
