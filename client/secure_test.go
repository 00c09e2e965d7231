package client

import (
	"errors"
	"strings"
	"testing"
)

// TestSecureRefusals checks that New refuses unusable files and names the field.
func TestSecureRefusals(t *testing.T) {
	for _, c := range []struct {
		field, want string
		opts        []Option
	}{
		{"tls_dir", "ca.crt", []Option{WithTLSDir(t.TempDir())}},
		{"token_file", "over TLS only", []Option{WithTokenFile("token")}},
	} {
		_, err := New(t.Context(), []string{"127.0.0.1:1"}, c.opts...)
		e, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(e.Kind, ErrInvalid) || e.Field != c.field || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want field %s, and %q", err, c.field, c.want)
		}
	}
}
