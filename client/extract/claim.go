package extract

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// Claims returns the claims of a request's token after verification of its signature, issuer,
// audience and dates. A nil map means no claims.
type Claims func(Request) (map[string]any, error)

type claimsKey struct{}

// WithClaims returns a context with verified claims, for [ContextClaims]. The code that verifies
// tokens calls it, before the middleware.
func WithClaims(ctx context.Context, claims map[string]any) context.Context {
	return context.WithValue(ctx, claimsKey{}, claims)
}

// ContextClaims returns the claims that [WithClaims] put into the context of the request.
func ContextClaims(r Request) (map[string]any, error) {
	claims, _ := r.Context().Value(claimsKey{}).(map[string]any)
	return claims, nil
}

// Claim returns a claim of a verified token; several names lead into nested objects:
// Claim(verified, "realm", "tenant"). The claim must be a string, an integer or a boolean.
func Claim(verified Claims, name ...string) Key {
	if verified == nil || len(name) == 0 {
		panic("extract: Claim: needs a function that verifies, and a name") // invariant: the program's own text
	}
	what := "claim " + strings.Join(name, ".")
	none := missing(what)
	wrong := &MissingError{what, "is not a string or a whole number"}
	return func(r Request) (string, error) {
		claims, err := verified(r)
		if err != nil {
			return "", err
		}
		return claimIn(claims, name, none, wrong)
	}
}

func claimIn(claims map[string]any, name []string, none, wrong *MissingError) (string, error) {
	for _, n := range name[:len(name)-1] {
		claims, _ = claims[n].(map[string]any)
	}
	v, ok := claims[name[len(name)-1]]
	if !ok || v == nil || v == "" {
		return "", none
	}
	if s, ok := claimText(v); ok {
		return s, nil
	}
	return "", wrong
}

// claimText formats integers without a point or an exponent, however they were decoded.
func claimText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		n, err := v.Int64()
		return strconv.FormatInt(n, 10), err == nil
	case float64:
		return strconv.FormatInt(int64(v), 10), v == float64(int64(v)) && v > -1<<53 && v < 1<<53
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false
}

// maxToken bounds the bytes that UnverifiedClaim decodes.
const maxToken = 16 << 10

// UnverifiedClaim returns a claim of the bearer token in Authorization, WITHOUT VERIFYING its
// signature: the sender can write anything. It is for services behind a gateway that rejects all
// invalid tokens.
func UnverifiedClaim(name ...string) Key {
	if len(name) == 0 {
		panic("extract: UnverifiedClaim: needs a name") // invariant: the program's own text
	}
	bearer := Header("Authorization")
	return Claim(func(r Request) (map[string]any, error) {
		s, err := bearer(r)
		if err != nil {
			return nil, err
		}
		return unverified(s)
	}, name...)
}

var errToken = &MissingError{"the bearer token", "is not a JWT"}

// unverified decodes the claims of "Bearer header.claims.signature".
func unverified(authorization string) (map[string]any, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	parts := strings.SplitN(strings.TrimSpace(token), ".", 4)
	if !strings.EqualFold(scheme, "Bearer") || len(parts) != 3 || len(token) > maxToken {
		return nil, errToken
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errToken
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var claims map[string]any
	if err := dec.Decode(&claims); err != nil {
		return nil, errToken
	}
	return claims, nil
}
