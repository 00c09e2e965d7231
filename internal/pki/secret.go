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

// redacted stands for a secret wherever one is printed.
const redacted = "[secret]"

// Hash is a SHA-256: of a secret, or of a CA's certificate.
type Hash [sha256.Size]byte

// String returns it in lower-case hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String writes.
func ParseHash(s string) (h Hash, err error) {
	if len(s) != hex.EncodedLen(len(h)) {
		return h, fmt.Errorf("hash: has %d characters; must be %d hex digits", len(s), hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil || h.String() != s {
		return Hash{}, fmt.Errorf("hash: is not %d lower-case hex digits", hex.EncodedLen(len(h)))
	}
	return h, nil
}

// Fingerprint returns the SHA-256 of a certificate, as openssl x509 -fingerprint
// -sha256 shows it.
func Fingerprint(cert *x509.Certificate) Hash { return sha256.Sum256(cert.Raw) }

// Secret is 32 random bytes that whoever holds them may use. It prints as
// "[secret]" with every verb, in logs and in JSON.
type Secret [32]byte

// Hash returns what is stored of a secret. A plain SHA-256 does: the secret has
// 256 bits of entropy, so there is no dictionary to try, and a slow hash would
// only slow down who checks it.
func (s Secret) Hash() Hash { return sha256.Sum256(s[:]) }

// Matches says whether h is the secret's hash, in a time that does not depend on
// how much of it is right.
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

// KeyPEM is a private key, PEM-encoded. Like [Secret] it never prints; what
// stores or sends it converts it to []byte.
type KeyPEM []byte

// Format prints "[secret]".
func (k KeyPEM) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue prints "[secret]".
func (k KeyPEM) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText prints "[secret]", also in JSON.
func (k KeyPEM) MarshalText() ([]byte, error) { return []byte(redacted), nil }
