package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/pki"
)

// Credentials returns the options of a connection to a node: TLS and, optionally, a bearer token.
func (t *Targets) Credentials(addr string) ([]grpc.DialOption, error) {
	if err := t.settle(); err != nil {
		return nil, err
	}
	dir, file := t.TLSDirectory(), t.BearerFile()
	if dir == "" {
		if file != "" {
			return nil, exit.Usagef("--token-file: a token is sent only over TLS; name the CA with --tls-dir")
		}
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, nil
	}
	store, err := OpenCredentials(dir)
	if err != nil {
		return nil, err
	}
	t.store.Store(store)
	host, _, _ := net.SplitHostPort(addr)
	out := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(WithH2(store.ClientConfig(pki.Want{Host: host}))))}
	if file == "" {
		return out, nil
	}
	token, err := pki.NewTokenFile(file)
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("--token-file: %w", err))
	}
	return append(out, grpc.WithPerRPCCredentials(token)), nil
}

// OpenCredentials opens a directory with ca.crt and, optionally, a certificate.
func OpenCredentials(dir string) (*pki.Store, error) {
	const right = "it must be a directory with ca.crt and, for a certificate, client.crt and client.key; " +
		"\"quorate init\" writes one to DATA/admin, \"quorate cert issue\" others"
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Errorf(exit.Usage, "--tls-dir %s: no such directory; %s", dir, right)
	case err == nil && !info.IsDir():
		return nil, exit.Errorf(exit.Usage, "--tls-dir %s: is a file; %s", dir, right)
	}
	store, err := pki.OpenCaller(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; %s", err, right)
	}
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("--tls-dir %s: %w", dir, err))
	}
	return store, nil
}
