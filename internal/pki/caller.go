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

// The files of a caller's directory, as "quorate init" and "quorate cert" write them.
const (
	CallerTrust = "ca.crt"     // trusted CAs
	CallerCert  = "client.crt" // its certificate, optional
	CallerKey   = "client.key"
)

// OpenCaller opens the directory of a caller: ca.crt and, for mutual TLS, client.crt and
// client.key. The files are checked again during handshakes, so renewal needs no restart.
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

// tokenLook is how long a token is used before its file is read again.
const tokenLook = 10 * time.Second

// maxBearer bounds the size of a token file in bytes; JWTs are the longest tokens.
const maxBearer = 16 << 10

// TokenFile sends the bearer token from a file with every call, over TLS only. It implements gRPC's
// PerRPCCredentials. A replaced token is used within ten seconds. It is safe for concurrent use.
type TokenFile struct {
	path string

	mu    sync.Mutex
	token string
	read  time.Time
}

// NewTokenFile returns an error if the file cannot be read or contains no token.
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
		err = fmt.Errorf("%s: is empty; must contain a bearer token", t.path)
	case err == nil && (len(b) > maxBearer || strings.ContainsAny(token, " \t\r\n")):
		err = fmt.Errorf("%s: is not a bearer token; must be one word of at most %d bytes", t.path, maxBearer)
	}
	if err != nil {
		return "", err
	}
	t.token, t.read = token, now
	return token, nil
}

// GetRequestMetadata returns the authorization header. While the file cannot be read, it uses the
// last token that could be.
func (t *TokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := t.current(time.Now())
	if err != nil {
		t.mu.Lock()
		token = t.token
		t.mu.Unlock()
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity returns true: the token is sent over TLS only.
func (*TokenFile) RequireTransportSecurity() bool { return true }
