package api

import (
	"net/http"
	"net/url"
	"time"

	"github.com/quorate/quorate/internal/missing"
)

func getHealth(w http.ResponseWriter, _ *http.Request) int {
	w.Header()["Content-Type"] = textType
	w.Write([]byte("ok\n")) //nolint:errcheck // as in writeJSON
	return http.StatusOK
}

// getReady is 503 with the reason while the node is not ready, as its status says.
func (r *router) getReady(w http.ResponseWriter, _ *http.Request) int {
	st := r.node.Status()
	if !st.GetReady() {
		reason := st.GetReason()
		if reason == "" {
			reason = "the node does not say why"
		}
		return writeFault(w, &fault{http: http.StatusServiceUnavailable, reason: "NOT_READY", detail: "not ready: " + reason, retry: time.Second})
	}
	w.Header()["Content-Type"] = textType
	w.Write([]byte("ready\n")) //nolint:errcheck // as in writeJSON
	return http.StatusOK
}

// query parses the query strictly: only the given parameters, each once.
func query(req *http.Request, known ...string) (url.Values, *fault) {
	if req.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil, badField("query", "cannot be read: %v", err)
	}
	for name, values := range q {
		if index(known, name) < 0 {
			there := "none are"
			if len(known) > 0 {
				there = "there are: " + missing.List(known, false)
			}
			return nil, badField(clip(name), "unknown query parameter;%s %s", missing.DidYouMean(name, known, ""), there)
		}
		if len(values) > 1 {
			return nil, badField(name, "is there %d times; give it once", len(values))
		}
	}
	return q, nil
}
