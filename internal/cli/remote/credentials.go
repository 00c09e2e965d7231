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
	file, from := t.BearerFile()
	store, err := t.OpenCredentials()
	if err != nil {
		return nil, err
	}
	if store == nil {
		if file != "" {
			return nil, exit.Usagef("%s: a token is sent only over TLS; name the CA with --tls-dir", from)
		}
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, nil
	}
	t.store.Store(store)
	host, _, _ := net.SplitHostPort(addr)
	out := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(WithH2(store.ClientConfig(pki.Want{Host: host}))))}
	if file == "" {
		return out, nil
	}
	token, err := pki.NewTokenFile(file)
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("%s: %w", from, err))
	}
	return append(out, grpc.WithPerRPCCredentials(token)), nil
}

// OpenCredentials opens the directory with ca.crt and, optionally, a certificate. It returns nil
// without TLS.
func (t *Targets) OpenCredentials() (*pki.Store, error) {
	dir, from := t.TLSDirectory()
	if dir == "" {
		return nil, nil //nolint:nilnil // no TLS is a valid choice
	}
	const right = "it must be a directory with ca.crt and, for a certificate, client.crt and client.key; " +
		"\"quorate init\" writes one to DATA/admin, \"quorate cert issue\" others"
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Errorf(exit.Usage, "%s %s: no such directory; %s", from, dir, right)
	case err == nil && !info.IsDir():
		return nil, exit.Errorf(exit.Usage, "%s %s: is a file; %s", from, dir, right)
	}
	store, err := pki.OpenCaller(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; %s", err, right)
	}
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("%s %s: %w", from, dir, err))
	}
	return store, nil
}
