package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/internal/pki"
)

// credentials are what a connection to a node is made with.
func (t *targets) credentials(addr string) ([]grpc.DialOption, error) {
	dir, file := orEnv(t.tlsDir, "QUORATE_TLS_DIR"), orEnv(t.tokenFile, "QUORATE_TOKEN_FILE")
	if dir == "" {
		if file != "" {
			return nil, usagef("--token-file: a token is sent only over TLS; name the CA with --tls-dir")
		}
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, nil
	}
	store, err := openCredentials(dir)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(addr)
	out := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(withH2(store.ClientConfig(pki.Want{Host: host}))))}
	if file == "" {
		return out, nil
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	return append(out, grpc.WithPerRPCCredentials(bearer(strings.TrimSpace(string(token))))), nil
}

// openCredentials opens a directory of ca.crt and, perhaps, a certificate.
func openCredentials(dir string) (*pki.Store, error) {
	files := pki.Files{CA: filepath.Join(dir, trustFile), Cert: filepath.Join(dir, clientFile), Key: filepath.Join(dir, clientKeyFile)}
	if _, err := os.Stat(files.Cert); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("--tls-dir: %w", err)
		}
		files.Cert, files.Key = "", ""
	}
	store, err := pki.OpenFiles(files, pki.Options{})
	if err != nil {
		return nil, fmt.Errorf("--tls-dir %s: %w", dir, err)
	}
	return store, nil
}

func orEnv(flag, variable string) string {
	if flag != "" {
		return flag
	}
	return os.Getenv(variable)
}

// bearer is a token that goes with every call, over TLS only.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return true }
