package pki

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
)

func TestJoinToken(t *testing.T) {
	ca := newCA(t, "prod")
	token, id, hash := NewJoinToken(ca.Certificate, NewSeed())
	got, err := ParseJoinToken(token)
	if err != nil || got.ID != id || got.CAHash != Fingerprint(ca.Certificate) || !got.Secret.Matches(hash) {
		t.Fatalf("%v, %v", got, err)
	}
	if len(token) != 8+1+12+1+43+1+64 {
		t.Errorf("the token has %d characters", len(token))
	}
	again, otherID, otherHash := NewJoinToken(ca.Certificate, NewSeed())
	if again == token || otherID == id || otherHash == hash || got.Secret.Matches(otherHash) {
		t.Error("two tokens are alike")
	}
	for i := range hash {
		bad := hash
		bad[i] ^= 1
		if got.Secret.Matches(bad) {
			t.Errorf("a hash that differs in byte %d matches", i)
		}
	}
}

func TestBearer(t *testing.T) {
	token, id, hash := NewBearer()
	got, err := ParseBearer(token)
	if err != nil || got.ID != id || !got.Secret.Matches(hash) {
		t.Fatalf("%v, %v", got, err)
	}
}

// TestTokenErrors: each says what is wrong, and none repeats the token.
func TestTokenErrors(t *testing.T) {
	token, _, _ := NewJoinToken(newCA(t, "prod").Certificate, NewSeed())
	bearer, _, _ := NewBearer()
	part := strings.Split(token, ".")
	with := func(i int, s string) string {
		p := append([]string{}, part...)
		p[i] = s
		return strings.Join(p, ".")
	}
	// The last character carries four bits and two that must be zero.
	loose := part[2][:42] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[strings.IndexByte("AEIMQUYcgkosw048", part[2][42])*4+1])
	joins := []struct{ name, token, err string }{
		{"empty", "", "join token: is empty; must be quorate1.<id>.<secret>.<hash of the CA>"},
		{"cut off", token[:40], "has 3 parts; must have 4, as in"},
		{"cut off in the hash", token[:100], "the last part: hash: has 34 characters; must be 64 hex digits; is the token complete?"},
		{"a part too many", token + ".x", "has 5 parts"},
		{"with a space", token + " ", "has spaces or line breaks in it"},
		{"over two lines", token[:70] + "\n" + token[70:], "has spaces or line breaks in it"},
		{"another word", with(0, "quorate2"), "does not begin with quorate1."},
		{"a bearer token", bearer, "this is a bearer token, which is for clients"},
		{"short id", with(1, "abc"), "the id is not 12 lower-case hex digits"},
		{"capitals in the id", with(1, "ABCDEF012345"), "the id is not 12 lower-case hex digits"},
		{"short secret", with(2, part[2][1:]), "the secret has 42 characters; must be 43"},
		{"a secret of other characters", with(2, "+"+part[2][1:]), "the secret is not 43 characters of base64url"},
		{"loose bits in the secret", with(2, loose), "the secret is not 43 characters of base64url"},
		{"capitals in the hash", with(3, strings.Repeat("A", 64)), "is not 64 lower-case hex digits"},
		{"no hex in the hash", with(3, strings.Repeat("x", 64)), "is not 64 lower-case hex digits"},
		{"too long", strings.Repeat("x", 257), "has 257 characters; at most 256"},
	}
	for _, tc := range joins {
		got, err := ParseJoinToken(tc.token)
		wantErr(t, tc.name, err, tc.err)
		if got != (JoinToken{}) {
			t.Errorf("%s: an error and a token", tc.name)
		}
		if err != nil && (strings.Contains(err.Error(), part[2][:20]) || strings.Contains(err.Error(), part[1])) {
			t.Errorf("%s: the error repeats the token: %v", tc.name, err)
		}
	}
	_, err := ParseBearer(token)
	wantErr(t, "join token as bearer", err, "this is a join token, which is for nodes")
	_, err = ParseBearer(bearer[:30])
	wantErr(t, "bearer cut off", err, "bearer token: the secret has")
}

// TestRedaction: however secrets are printed, they do not show.
func TestRedaction(t *testing.T) {
	ca := newCA(t, "prod")
	token, _, _ := NewJoinToken(ca.Certificate, NewSeed())
	join := must[JoinToken](t)(ParseJoinToken(token))
	bearerText, _, _ := NewBearer()
	bearer := must[Bearer](t)(ParseBearer(bearerText))
	pair := must[Pair](t)(ca.Pair())
	// Bytes 78 to 92 of the PEM text encode bytes of the private key. The algorithm's name comes before
	// them, and the certificate has it too. 78 is a multiple of 3, so that the base64 form of the piece
	// is part of the base64 form of the whole.
	keyPiece := pair.KeyPEM[78:92]
	forbidden := func(secret []byte) []string {
		digits, inHex := make([]string, 4), make([]string, 4)
		for i, b := range secret[:4] {
			digits[i], inHex[i] = strconv.Itoa(int(b)), fmt.Sprintf("0x%x", b)
		}
		return []string{
			hex.EncodeToString(secret)[:16], strings.ToUpper(hex.EncodeToString(secret)[:16]), string(secret[:8]),
			strings.Join(digits, " "), strings.Join(digits, ","), strings.Join(inHex, ", "),
			secretCode.EncodeToString(secret)[:16], base64.StdEncoding.EncodeToString(secret)[:16],
		}
	}
	for _, tc := range []struct {
		name   string
		v      any
		secret []byte
	}{
		{"join token", join, join.Secret[:]},
		{"pointer to a join token", &join, join.Secret[:]},
		{"secret", join.Secret, join.Secret[:]},
		{"bearer", bearer, bearer.Secret[:]},
		{"pair", pair, keyPiece},
		{"key", pair.KeyPEM, keyPiece},
	} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&out, verb+"\n", tc.v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", tc.v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", tc.v)
		out.Write(must[[]byte](t)(json.Marshal(tc.v)))
		if !strings.Contains(out.String(), redacted) {
			t.Errorf("%s: %s, want %s in it", tc.name, out.String(), redacted)
		}
		for _, f := range forbidden(tc.secret) {
			if strings.Contains(out.String(), f) {
				t.Errorf("%s: shows %q", tc.name, f)
			}
		}
	}
	if !strings.Contains(fmt.Sprint(join), join.ID) {
		t.Errorf("%v: a token's id is not secret, and helps to find it", join)
	}
}

func FuzzParseJoinToken(f *testing.F) {
	ca := newCA(f, "prod")
	token, _, _ := NewJoinToken(ca.Certificate, NewSeed())
	f.Add(token)
	f.Add(token[:80])
	f.Add("quorate1.000000000000.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA." + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseJoinToken(s)
		if err != nil {
			if got != (JoinToken{}) {
				t.Fatalf("%q: an error and a token", s)
			}
			return
		}
		again := strings.Join([]string{joinPrefix, got.ID, secretCode.EncodeToString(got.Secret[:]), got.CAHash.String()}, ".")
		if again != s {
			t.Fatalf("%q is %q again: a token has two forms", s, again)
		}
	})
}

func FuzzParseBearer(f *testing.F) {
	token, _, _ := NewBearer()
	f.Add(token)
	f.Add("quorate1t.000000000000.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseBearer(s)
		if err != nil {
			if got != (Bearer{}) {
				t.Fatalf("%q: an error and a token", s)
			}
			return
		}
		if again := strings.Join([]string{bearerPrefix, got.ID, secretCode.EncodeToString(got.Secret[:])}, "."); again != s {
			t.Fatalf("%q is %q again: a token has two forms", s, again)
		}
	})
}
