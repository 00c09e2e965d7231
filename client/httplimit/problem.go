package httplimit

import (
	"encoding/json"
	"net/http"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/internal/fields"
)

// QuotaExceeded is the problem type of a refusal, from draft-ietf-httpapi-ratelimit-headers.
const QuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// problem is an application/problem+json (RFC 9457). It contains nothing of the key.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

// writeProblem answers a request that does not pass.
func writeProblem(w http.ResponseWriter, _ *http.Request, f Refusal) {
	p := problem{Type: "about:blank", Title: http.StatusText(f.Status), Status: f.Status}
	switch f.Status {
	case http.StatusTooManyRequests:
		p.Type, p.Title, p.Detail = QuotaExceeded, "Quota exceeded", fields.Detail(&f.Result)
		p.Violated = violated(&f.Result)
	case http.StatusBadRequest:
		p.Detail = f.Err.Error()
	default:
		p.Detail = "the rate limiter has no answer"
	}
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte("{}") // strings and a number: it does not happen
	}
	w.Header()["Content-Type"] = []string{"application/problem+json"}
	w.Header()["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(f.Status)
	w.Write(append(body, '\n')) //nolint:errcheck // the caller has gone
}

// violated returns the name of the policy that refused.
func violated(r *client.Result) []string {
	if p := fields.Refuser(r); p != nil {
		return []string{p.Name}
	}
	return []string{r.Limit.Name}
}
