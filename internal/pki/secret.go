package pki

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
)

// redacted is the formatted form of a secret.
const redacted = "[secret]"

// Hash is the SHA-256 of a secret or of a CA's certificate.
type Hash [sha256.Size]byte

// String returns the hash in lower-case hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses the result of Hash.String.
func ParseHash(s string) (h Hash, err error) {
	if len(s) != hex.EncodedLen(len(h)) {
		return h, fmt.Errorf("hash: has %d characters; must be %d hex digits", len(s), hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil || h.String() != s {
		return Hash{}, fmt.Errorf("hash: is not %d lower-case hex digits", hex.EncodedLen(len(h)))
	}
	return h, nil
}

// Fingerprint returns the SHA-256 of a certificate, as "openssl x509 -fingerprint -sha256" shows
// it.
func Fingerprint(cert *x509.Certificate) Hash { return sha256.Sum256(cert.Raw) }

// Secret is a bearer secret of 32 random bytes. It formats as "[secret]" with every verb, in logs
// and in JSON.
type Secret [32]byte

// Hash returns the stored form of a secret. SHA-256 is sufficient: the secret has 256 bits of
// entropy, so no dictionary attack is possible, and a slow hash would only cost the verifier.
func (s Secret) Hash() Hash { return sha256.Sum256(s[:]) }

// Matches reports in constant time whether h is the secret's hash.
func (s Secret) Matches(h Hash) bool {
	have := s.Hash()
	return subtle.ConstantTimeCompare(have[:], h[:]) == 1
}

// Format prints "[secret]".
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue prints "[secret]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText prints "[secret]", also in JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// KeyPEM is a private key as PEM. Like [Secret] it never prints. Convert it to []byte to store or
// send it.
type KeyPEM []byte

// Format prints "[secret]".
func (k KeyPEM) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue prints "[secret]".
func (k KeyPEM) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText prints "[secret]", also in JSON.
func (k KeyPEM) MarshalText() ([]byte, error) { return []byte(redacted), nil }
