package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// The first word of a token is its kind and the version of its form.
const (
	joinPrefix   = "quorate1"
	bearerPrefix = "quorate1t"
)

const (
	idBytes    = 6  // of a token's ID, which distinguishes tokens and is not secret
	secretText = 43 // characters of 32 bytes in base64url
	maxToken   = 256
)

// secretCode is unpadded base64url in canonical form: unused bits must be zero.
var secretCode = base64.RawURLEncoding.Strict()

// JoinToken allows a new node to join a cluster:
//
//	quorate1.<id, 12 hex>.<secret, 43 base64url>.<SHA-256 of the CA's certificate, 64 hex>
//
// The secret proves to the cluster that the node was invited; the hash proves to the node that it
// talks to the cluster that invited it. The secret never prints.
type JoinToken struct {
	ID     string
	Secret Secret
	CAHash Hash
}

// Seed is the random input for the ID and the secret of a join token.
type Seed [idBytes + len(Secret{})]byte

// NewSeed returns a random seed.
func NewSeed() (s Seed) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// NewJoinToken returns a token for the cluster whose certificates ca signs. It is a function of its
// arguments. The token is shown once; the cluster stores the ID and the hash.
func NewJoinToken(ca *x509.Certificate, seed Seed) (token, id string, hash Hash) {
	id, secret := hex.EncodeToString(seed[:idBytes]), Secret(seed[idBytes:])
	token = strings.Join([]string{joinPrefix, id, secretCode.EncodeToString(secret[:]), Fingerprint(ca).String()}, ".")
	return token, id, secret.Hash()
}

// ParseJoinToken parses a token. Its errors contain no part of it.
func ParseJoinToken(s string) (JoinToken, error) {
	part, err := tokenParts(s, joinPrefix, "join token", "quorate1.<id>.<secret>.<hash of the CA>", 4)
	if err != nil {
		return JoinToken{}, err
	}
	var t JoinToken
	if t.ID, t.Secret, err = parseSecret("join token", part[1], part[2]); err != nil {
		return JoinToken{}, err
	}
	if t.CAHash, err = ParseHash(part[3]); err != nil {
		return JoinToken{}, fmt.Errorf("join token: the last part: %w; is the token complete?", err)
	}
	return t, nil
}

// Bearer is a token that authenticates a client:
//
//	quorate1t.<id, 12 hex>.<secret, 43 base64url>
//
// Any holder of the token is that client, so it must only be sent over TLS.
type Bearer struct {
	ID     string
	Secret Secret
}

// NewBearer returns a random token. It is shown once; the cluster stores the ID and the hash.
func NewBearer() (token, id string, hash Hash) {
	var b [idBytes]byte
	var secret Secret
	_, _ = rand.Read(b[:]) // never fails
	_, _ = rand.Read(secret[:])
	id = hex.EncodeToString(b[:])
	return strings.Join([]string{bearerPrefix, id, secretCode.EncodeToString(secret[:])}, "."), id, secret.Hash()
}

// ParseBearer parses a token. Its errors contain no part of it.
func ParseBearer(s string) (Bearer, error) {
	part, err := tokenParts(s, bearerPrefix, "bearer token", "quorate1t.<id>.<secret>", 3)
	if err != nil {
		return Bearer{}, err
	}
	var t Bearer
	t.ID, t.Secret, err = parseSecret("bearer token", part[1], part[2])
	if err != nil {
		return Bearer{}, err
	}
	return t, nil
}

func tokenParts(s, prefix, what, form string, parts int) ([]string, error) {
	switch {
	case s == "":
		return nil, fmt.Errorf("%s: is empty; must be %s", what, form)
	case len(s) > maxToken:
		return nil, fmt.Errorf("%s: has %d characters; at most %d", what, len(s), maxToken)
	case strings.ContainsAny(s, " \t\r\n"):
		return nil, fmt.Errorf("%s: has spaces or line breaks in it; must be %s in one piece", what, form)
	}
	part := strings.Split(s, ".")
	switch {
	case part[0] != prefix && part[0] == joinPrefix:
		return nil, fmt.Errorf("%s: this is a join token, which is for nodes; must be %s", what, form)
	case part[0] != prefix && part[0] == bearerPrefix:
		return nil, fmt.Errorf("%s: this is a bearer token, which is for clients; must be %s", what, form)
	case part[0] != prefix:
		return nil, fmt.Errorf("%s: does not begin with %s.; must be %s", what, prefix, form)
	case len(part) != parts:
		return nil, fmt.Errorf("%s: has %d parts; must have %d, as in %s; was it copied whole?", what, len(part), parts, form)
	}
	return part, nil
}

func parseSecret(what, id, secret string) (string, Secret, error) {
	var s Secret
	if b, err := hex.DecodeString(id); err != nil || len(b) != idBytes || hex.EncodeToString(b) != id {
		return "", s, fmt.Errorf("%s: the id is not 12 lower-case hex digits", what)
	}
	if len(secret) != secretText {
		return "", s, fmt.Errorf("%s: the secret has %d characters; must be %d; is the token complete?", what, len(secret), secretText)
	}
	raw, err := secretCode.DecodeString(secret)
	if err != nil {
		return "", s, fmt.Errorf("%s: the secret is not %d characters of base64url; a character was changed", what, secretText)
	}
	copy(s[:], raw)
	return id, s, nil
}
