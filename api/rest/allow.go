package rest

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// scratch holds the buffers of one call.
type scratch struct {
	in  bytes.Buffer
	out []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxPooled is the largest buffer that goes back to the pool, in bytes.
const maxPooled = 64 << 10

func (s *scratch) free() {
	if s.in.Cap() <= maxPooled && cap(s.out) <= maxPooled {
		scratches.Put(s)
	}
}

// read reads the whole body of any content type: curl -d sends JSON as a form.
func (s *scratch) read(w http.ResponseWriter, req *http.Request, limit int64) error {
	s.in.Reset()
	_, err := s.in.ReadFrom(http.MaxBytesReader(w, req.Body, limit))
	var large *http.MaxBytesError
	var full *apierr.Error
	switch {
	case errors.As(err, &large):
		return apierr.TooLarge(large.Limit)
	case errors.As(err, &full):
		return full
	case err != nil:
		return apierr.Invalid("body", "could not be read: %v", err)
	}
	return nil
}

func (r *router) postAllow(w http.ResponseWriter, req *http.Request) (int, error) {
	s := scratches.Get().(*scratch)
	defer s.free()
	if err := s.read(w, req, api.MaxCheckBody); err != nil {
		return 0, err
	}
	var c api.Check
	if err := decodeCheck(s.in.Bytes(), &c); err != nil {
		return 0, err
	}
	if err := r.AuthorizeChecks(req.Context(), c); err != nil {
		return 0, err
	}
	d, rule, err := r.Quota.Decide(&c)
	if err != nil {
		return 0, err
	}
	code := http.StatusOK
	if !d.Allowed {
		code = http.StatusTooManyRequests
	}
	setRateLimit(w.Header(), rule, &d)
	s.out = append(appendAllow(s.out[:0], rule, &d), '\n')
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(code)
	w.Write(s.out) //nolint:errcheck // as in writeJSON
	return code, nil
}

// setRateLimit sets the RateLimit fields of draft-ietf-httpapi-ratelimit-headers and, on a refusal
// that ends, Retry-After. Both are in whole seconds, rounded up. t is the time until more quota is
// available; for a window, until its end. Only limits that count set these fields.
func setRateLimit(h http.Header, r *api.Prepared, d *quota.Decision) {
	if d.Limit == nil || d.Limit.Class != quota.Counted {
		return
	}
	at := r.Decided(d)
	h["Ratelimit-Policy"] = at.Policy
	var buf [192]byte
	b := append(buf[:0], r.Quoted...)
	b = strconv.AppendInt(append(b, ";r="...), d.Remaining, 10)
	if wait := moreAfter(&at.Tier, d); wait != apiproto.Never {
		seconds := apiproto.WholeSeconds(wait)
		b = strconv.AppendInt(append(b, ";t="...), seconds, 10)
		if !d.Allowed {
			h["Retry-After"] = []string{strconv.FormatInt(max(seconds, 1), 10)}
		}
	}
	h["Ratelimit"] = []string{string(b)}
}

// setXRateLimit sets the X-RateLimit headers, which many older clients behind proxies read: limit,
// remaining tokens, and seconds until the next token.
func setXRateLimit(h http.Header, r *api.Prepared, d *quota.Decision) {
	if d.Limit == nil || d.Limit.Class != quota.Counted {
		return
	}
	at := r.Decided(d)
	h["X-Ratelimit-Limit"] = []string{strconv.FormatInt(at.Tier.Burst, 10)}
	h["X-Ratelimit-Remaining"] = []string{strconv.FormatInt(max(0, d.Remaining), 10)}
	if wait := moreAfter(&at.Tier, d); wait != apiproto.Never {
		h["X-Ratelimit-Reset"] = []string{strconv.FormatInt(apiproto.WholeSeconds(wait), 10)}
	}
}

// moreAfter returns the time until more quota is available, or apiproto.Never if unknown.
func moreAfter(t *quota.Tier, d *quota.Decision) time.Duration {
	switch {
	case !d.Allowed:
		return d.RetryAfter
	case t.Kind == quota.Concurrency:
		return apiproto.Never
	case d.Remaining >= t.Burst:
		return 0
	case t.Kind.Windowed():
		return d.ResetAfter
	}
	return t.Rate.TimeFor(quota.Token)
}

// postBatch answers 200 with one result per check. The error of a check is in its result.
func (r *router) postBatch(w http.ResponseWriter, req *http.Request) (int, error) {
	s := scratches.Get().(*scratch)
	defer s.free()
	if err := s.read(w, req, api.MaxBatchBody); err != nil {
		return 0, err
	}
	checks, err := decodeBatch(s.in.Bytes())
	if err == nil {
		err = api.CheckBatchSize(len(checks))
	}
	if err == nil {
		err = r.AuthorizeChecks(req.Context(), checks...)
	}
	if err != nil {
		return 0, err
	}
	b := s.out[:0]
	b = append(b, `{"results":[`...)
	for i, d := range r.Quota.DecideAll(checks) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"response":`...)
		if d.Err != nil {
			b = append(apijson.AppendString(append(b, `null,"error":`...), d.Err.Error()), '}')
			continue
		}
		b = append(appendAllow(b, d.Rule, &d.Decision), `,"error":""}`...)
	}
	b = append(b, "]}"...)
	s.out = b
	return writeJSON(w, http.StatusOK, s.out), nil
}
