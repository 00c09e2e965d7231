package httplimit

import (
	"net/http"
	"strconv"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/internal/fields"
	"github.com/quorate/quorate/client/internal/gate"
)

// Refusal says why a request does not pass.
type Refusal struct {
	Status int           // 429; 400 without a key or with an invalid cost; 503 without an answer
	Result client.Result // with 429
	Err    error         // with 400 and 503; that of 400 may be shown
}

type handler struct {
	asking
	fields  Fields
	shadow  string
	refused func(http.ResponseWriter, *http.Request, Refusal)
	writer  fields.Writer
}

// New returns middleware that checks every request. See the package documentation.
func New(l client.Limiter, opts ...Option) func(http.Handler) http.Handler {
	h := &handler{fields: IETF, refused: writeProblem}
	h.Limiter, h.Gate.Key = l, extract.RemoteIP(extract.Proxies{})
	for _, o := range opts {
		o.server(h)
	}
	if err := h.Validate(h.rules); err != nil {
		panic("httplimit: New: " + err.Error()) // invariant: the program's own options
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h.skips(r) {
				next.ServeHTTP(w, r)
				return
			}
			if leave, ok := h.admit(w, r); ok {
				defer leave()
				next.ServeHTTP(w, r)
			}
		})
	}
}

// admit reports whether the request may proceed, and what to call at its end. Otherwise it has been
// answered.
func (h *handler) admit(w http.ResponseWriter, r *http.Request) (leave func(), ok bool) {
	res, leave, outcome, err := h.Enter(extract.Request{HTTP: r}, r.Method, r.URL.Path)
	switch outcome {
	case gate.Pass:
		h.setHeaders(w.Header(), &res)
		return leave, true
	case gate.Refuse:
		h.setHeaders(w.Header(), &res)
		if s, ok := fields.RetryAfter(&res); ok {
			w.Header()["Retry-After"] = []string{strconv.FormatInt(s, 10)}
		}
		h.refused(w, r, Refusal{Status: http.StatusTooManyRequests, Result: res})
	case gate.Fault:
		h.refused(w, r, Refusal{Status: http.StatusBadRequest, Err: err})
	default: // nobody may be there to read it
		w.Header()["Retry-After"] = []string{"1"}
		h.refused(w, r, Refusal{Status: http.StatusServiceUnavailable, Err: err})
	}
	return leave, false
}

// setHeaders sets the fields. If other middleware has set its own, lists are extended, and of the others
// the stricter one remains.
func (h *handler) setHeaders(header http.Header, res *client.Result) {
	if h.shadow != "" && res.Shadow {
		header[h.shadow] = append(header[h.shadow], res.Limit.Name)
	}
	if len(res.Policies) == 0 {
		return
	}
	if h.fields&IETF != 0 {
		var buf [128]byte
		value := string(fields.RateLimit(buf[:0], res))
		header["Ratelimit"] = appendField(header["Ratelimit"], value)
		if policy := h.writer.Policy(res); len(header["Ratelimit-Policy"]) == 0 {
			header["Ratelimit-Policy"] = policy
		} else {
			header["Ratelimit-Policy"] = append(header["Ratelimit-Policy"], policy...)
		}
	}
	if h.fields&XRateLimit != 0 {
		tellLegacy(header, fields.Tightest(res))
	}
}

func appendField(to []string, value string) []string {
	if len(to) == 0 {
		return []string{value}
	}
	return append(to, value)
}

func tellLegacy(header http.Header, p *client.Policy) {
	if v := header["X-Ratelimit-Remaining"]; len(v) > 0 {
		if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n <= p.Remaining {
			return
		}
	}
	values := []string{
		strconv.FormatInt(p.Quota, 10), strconv.FormatInt(p.Remaining, 10), strconv.FormatInt(fields.Seconds(p.ResetAfter), 10),
	}
	header["X-Ratelimit-Limit"] = values[0:1:1]
	header["X-Ratelimit-Remaining"] = values[1:2:2]
	header["X-Ratelimit-Reset"] = values[2:3:3]
}
