package rest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// forwardPath is the check for proxies that ask before they forward a request: nginx auth_request,
// Caddy forward_auth, Traefik ForwardAuth, HAProxy. The query says what to check, so that it comes
// from the proxy's configuration and no client can choose it. The headers come from the client's
// request, as the proxy forwards them.
const forwardPath = "/v1/forward-auth"

func (r *router) forwardRoutes() []route {
	if !r.options.ForwardAuth {
		return nil
	}
	return []route{{
		method: http.MethodGet, path: forwardPath, serve: r.forwardAuth,
		summary: "Check for proxies: 200, or deny_status. Query: namespace and limit (without it the limits that match X-Forwarded-Method and X-Forwarded-Uri), key or key_header (several make one key; none is the client's address, of IPv6 its /64 network, hops from the end of X-Forwarded-For), cost, deny_status (429), fail (open, closed).",
	}}
}

// forwardQuery holds the parsed query.
type forwardQuery struct {
	namespace, limit string
	keys             []string // headers that make up the key; empty: the client's address
	key              *string  // replaces keys
	hops             int      // position of the client's address from the end of X-Forwarded-For
	cost             int64
	deny             int
	closed           bool // deny if the limit cannot be decided
}

// Bounds of a check for proxies.
const (
	maxForwardKeys = 8
	maxForwardHops = 16
)

var forwardFields = []string{"namespace", "limit", "key", "key_header", "hops", "cost", "deny_status", "fail"}

func readForward(query string) (f forwardQuery, err error) {
	q, err := url.ParseQuery(query) // which leaves out what it cannot read
	if err != nil {
		return f, apierr.Invalid("query", "cannot be read: %v", err)
	}
	f = forwardQuery{namespace: quota.HTTPNamespace, hops: 1, cost: 1, deny: http.StatusTooManyRequests, keys: q["key_header"]}
	for name, values := range q {
		if !slices.Contains(forwardFields, name) {
			return f, apierr.Invalid(apierr.Clip(name), "unknown field; must be one of %s", strings.Join(forwardFields, ", "))
		}
		if name != "key_header" && len(values) > 1 {
			return f, apierr.Invalid(name, "given %d times; give it once", len(values))
		}
	}
	if q.Has("namespace") {
		f.namespace = q.Get("namespace")
	}
	f.limit = q.Get("limit")
	if q.Has("key") {
		key := q.Get("key")
		f.key = &key
	}
	for _, h := range f.keys {
		if !isToken(h) {
			return f, apierr.Invalid("key_header", "is %q; must be the name of a header", apierr.Clip(h))
		}
	}
	switch {
	case len(f.keys) > maxForwardKeys:
		return f, apierr.Invalid("key_header", "given %d times; at most %d", len(f.keys), maxForwardKeys)
	case f.key != nil && len(f.keys) > 0:
		return f, apierr.Invalid("key", "cannot be combined with key_header; give one of them")
	}
	if err := f.checkNames(); err != nil {
		return f, err
	}
	err = f.readRest(q)
	return f, err
}

// checkNames returns an error for a namespace, limit or key that no check can have.
func (f *forwardQuery) checkNames() error {
	if err := quota.CheckName("namespace", f.namespace); err != nil {
		return apierr.InvalidName("namespace", err)
	}
	if f.limit != "" {
		if err := quota.CheckName("limit", f.limit); err != nil {
			return apierr.InvalidName("limit", err)
		}
	}
	if f.key == nil {
		return nil
	}
	return apiproto.CheckKey(f.key)
}

func (f *forwardQuery) readRest(q url.Values) error {
	if err := readNumber(q, "hops", &f.hops, 1, maxForwardHops); err != nil {
		return err
	}
	if err := readNumber(q, "cost", &f.cost, 0, quota.MaxTokens); err != nil {
		return err
	}
	if err := readNumber(q, "deny_status", &f.deny, 400, 499); err != nil {
		return err
	}
	switch fail := q.Get("fail"); fail {
	case "", "open":
	case "closed":
		f.closed = true
	default:
		return apierr.Invalid("fail", "is %q; must be open or closed", apierr.Clip(fail))
	}
	return nil
}

func readNumber[T int | int64](q url.Values, field string, to *T, low, high T) error {
	if !q.Has(field) {
		return nil
	}
	n, err := strconv.ParseInt(q.Get(field), 10, 64)
	if err != nil || n < int64(low) || n > int64(high) {
		return apierr.Invalid(field, "is %q; must be a whole number from %d to %d", apierr.Clip(q.Get(field)), low, high)
	}
	*to = T(n)
	return nil
}

func isToken(s string) bool {
	return s != "" && len(s) <= quota.MaxNameLen && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// checkOf returns the check of a client's request. No input of a client makes the check invalid: if
// undecided checks pass, an invalid check would let the client pass. The check takes no tokens to come,
// because no answer makes a proxy wait for them.
func (f *forwardQuery) checkOf(req *http.Request) api.Check {
	c := api.Check{
		Key:  quota.Key{LimitName: quota.LimitName{Namespace: f.namespace, Limit: f.limit}, Key: f.keyOf(req)},
		Cost: f.cost, Costs: true, Waits: true,
	}
	if f.key == nil && (len(c.Key.Key) > quota.MaxKeyLen || !utf8.ValidString(c.Key.Key)) {
		c.Key.Key = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(c.Key.Key)))
	}
	if f.limit == "" {
		c.Method = headerOr(req, http.MethodGet, "X-Forwarded-Method", "X-Original-Method")
		uri := headerOr(req, "/", "X-Forwarded-Uri", "X-Original-Uri")
		if end := strings.IndexAny(uri, "?#"); end >= 0 { // proxies and services also end a path at "#", which no client should send
			uri = uri[:end]
		}
		c.Path = quota.WholePath(unescaped(uri))
		c.Method, c.Path = c.Method[:min(len(c.Method), quota.MaxNameLen)], c.Path[:min(len(c.Path), api.MaxPath)]
		if !strings.HasPrefix(c.Path, "/") {
			c.Path = "/" + c.Path[:min(len(c.Path), api.MaxPath-1)]
		}
	}
	return c
}

// unescaped decodes a path, as the service behind the proxy does: otherwise %6Cogin would not match the limit of
// login. It keeps escapes that are not valid.
func unescaped(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if i+3 <= len(path) {
			if one, err := url.PathUnescape(path[i : i+3]); err == nil && len(one) == 1 {
				out = append(out, one[0])
				i += 2
				continue
			}
		}
		out = append(out, path[i])
	}
	return string(out)
}

// keyOf joins headers with "/". It escapes their values, so that no client can forge the key of
// another. A missing header is empty.
func (f *forwardQuery) keyOf(req *http.Request) string {
	switch {
	case f.key != nil:
		return *f.key
	case len(f.keys) == 0:
		return f.address(req)
	case len(f.keys) == 1:
		return headerOr(req, "", f.keys[0])
	}
	parts := make([]string, len(f.keys))
	for i, h := range f.keys {
		parts[i] = url.PathEscape(headerOr(req, "", h))
	}
	return strings.Join(parts, "/")
}

// address returns the client's address, and of IPv6 its network, as extract.RemoteIP does: the last
// entry of X-Forwarded-For, which the asking proxy added, or with hops 2 the entry before, and so on.
// The client may have written the entries further left itself. Without the header, address returns
// the peer's address.
func (f *forwardQuery) address(req *http.Request) string {
	all := strings.Join(req.Header[textproto.CanonicalMIMEHeaderKey("X-Forwarded-For")], ",")
	if all == "" {
		return api.WithoutHost(req.RemoteAddr)
	}
	hops := strings.Split(all, ",")
	return api.WithoutHost(strings.TrimSpace(hops[max(0, len(hops)-f.hops)]))
}

func headerOr(req *http.Request, or string, names ...string) string {
	for _, name := range names {
		if v := req.Header.Get(name); v != "" {
			return v
		}
	}
	return or
}

// forwardAuth answers 200, or a status that makes the proxy deny the request. A bad query is always
// 400, whatever the proxy makes of it: it is bad for every request.
func (r *router) forwardAuth(w http.ResponseWriter, req *http.Request) (int, error) {
	code, status, err := r.forward(w, req)
	if count := r.options.Forwarded; count != nil {
		count(code)
	}
	return status, err
}

// forward returns the outcome to count, and what a handler returns.
func (r *router) forward(w http.ResponseWriter, req *http.Request) (code string, status int, err error) {
	f, err := readForward(req.URL.RawQuery)
	if err != nil {
		return "invalid", 0, err
	}
	c := f.checkOf(req)
	if err := r.AuthorizeChecks(req.Context(), c); err != nil {
		return "denied", 0, err
	}
	d, rule, err := r.Quota.Decide(&c)
	if err != nil {
		return "fault", f.undecided(w, err), nil
	}
	setRateLimit(w.Header(), rule, &d)
	setXRateLimit(w.Header(), rule, &d)
	if d.Allowed {
		w.WriteHeader(http.StatusOK)
		return "allowed", http.StatusOK, nil
	}
	return "refused", writeProblem(w, f.deny, quotaExceeded, "Too many requests", fmt.Sprintf("%s is used up (%s)", d.Limit.LimitName, d.Why)), nil
}

// undecided answers a check that no limit can decide.
func (f *forwardQuery) undecided(w http.ResponseWriter, err error) int {
	w.Header().Set("Quorate-Fault", err.Error())
	if f.closed {
		return writeProblem(w, f.deny, "about:blank", "The limit cannot be decided", err.Error())
	}
	w.WriteHeader(http.StatusOK)
	return http.StatusOK
}

// quotaExceeded is the problem type of draft-ietf-httpapi-ratelimit-headers.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// writeProblem answers with an RFC 9457 problem.
func writeProblem(w http.ResponseWriter, status int, kind, title, detail string) int {
	b := apijson.AppendString([]byte(`{"type":`), kind)
	b = apijson.AppendString(append(b, `,"title":`...), title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	b = append(apijson.AppendString(append(b, `,"detail":`...), detail), '}', '\n')
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(b) //nolint:errcheck // as in writeJSON
	return status
}
