package client

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/internal/pki"
)

// WithTLSDir secures all connections with the files in a directory, as written by "quorate init"
// and "quorate cert": ca.crt and, for mutual TLS, client.crt and client.key. Any node of that CA's
// cluster is accepted, whatever its address. The files are checked again during handshakes, so a
// renewed certificate needs no restart. New returns ErrInvalid if they are unusable.
func WithTLSDir(dir string) Option { return func(o *options) { o.tlsDir = dir } }

// WithTokenFile sends the bearer token from a file with every call. It requires [WithTLSDir], whose
// directory then needs only ca.crt. A replaced token is used within ten seconds. New returns
// ErrInvalid if there is no token.
func WithTokenFile(path string) Option { return func(o *options) { o.tokenFile = path } }

// secure returns the dial options for TLS and tokens.
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
