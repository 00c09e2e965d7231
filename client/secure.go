package client

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/internal/pki"
)

// WithTLSDir secures all connections by the files in a directory, as "quorate init" and
// "quorate cert" write them: ca.crt, and, for mutual TLS, client.crt and client.key. Any node
// of that CA's cluster may answer, whatever its address. The files are looked at again
// in handshakes: a certificate that is renewed needs no restart. New fails with
// ErrInvalid when they cannot be used.
func WithTLSDir(dir string) Option { return func(o *options) { o.tlsDir = dir } }

// WithTokenFile sends the bearer token in a file with every call. It needs
// [WithTLSDir], whose directory then needs ca.crt alone. A token that is
// replaced is sent within ten seconds. New fails with ErrInvalid when there is none.
func WithTokenFile(path string) Option { return func(o *options) { o.tokenFile = path } }

// secure returns the dial options of the files that were named.
func (o *options) secure() ([]grpc.DialOption, error) {
	if o.tlsDir == "" {
		if o.tokenFile != "" {
			return nil, &Error{Kind: ErrInvalid, Field: "token_file", Detail: "token_file: a token is sent over TLS only; name the CA's directory by WithTLSDir"}
		}
		return nil, nil
	}
	store, err := pki.OpenCaller(o.tlsDir)
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, Field: "tls_dir", Detail: "tls_dir " + o.tlsDir + ": " + err.Error(), cause: err}
	}
	o.whyRefused = store.WhyRefused
	conf := store.ClientConfig(pki.Want{})
	conf.NextProtos = []string{"h2"}
	out := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(conf))}
	if o.tokenFile == "" {
		return out, nil
	}
	token, err := pki.NewTokenFile(o.tokenFile)
	if err != nil {
		return nil, &Error{Kind: ErrInvalid, Field: "token_file", Detail: "token_file: " + err.Error(), cause: err}
	}
	return append(out, grpc.WithPerRPCCredentials(token)), nil
}
