package main

import (
	"fmt"
	"net"
	"os"

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
	t.store.Store(store)
	host, _, _ := net.SplitHostPort(addr)
	out := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(withH2(store.ClientConfig(pki.Want{Host: host}))))}
	if file == "" {
		return out, nil
	}
	token, err := pki.NewTokenFile(file)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	return append(out, grpc.WithPerRPCCredentials(token)), nil
}

// openCredentials opens a directory of ca.crt and, perhaps, a certificate.
func openCredentials(dir string) (*pki.Store, error) {
	store, err := pki.OpenCaller(dir)
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
