package rest

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/suggest"
)

func getHealth(w http.ResponseWriter, _ *http.Request) (int, error) {
	w.Header()["Content-Type"] = textType
	w.Write([]byte("ok\n")) //nolint:errcheck // as in writeJSON
	return http.StatusOK, nil
}

// getReady answers 503 with the reason while the node is not ready.
func (r *router) getReady(w http.ResponseWriter, _ *http.Request) (int, error) {
	return writeReady(w, "not ready: ", unready(r.Status()))
}

// getClusterReady answers like getReady, and also 503 while this node sees a group without a leader.
func (r *router) getClusterReady(w http.ResponseWriter, _ *http.Request) (int, error) {
	st := r.Status()
	return writeReady(w, "the cluster is not ready: ", cmp.Or(unready(st), st.GetLeaderless()))
}

// unready returns the reason why a node is not ready; empty if it is ready.
func unready(st *quoratev1.GetStatusResponse) string {
	if st.GetReady() {
		return ""
	}
	return cmp.Or(st.GetReason(), "the node does not say why")
}

// writeReady answers a probe. why is the reason for not being ready; empty if ready.
func writeReady(w http.ResponseWriter, what, why string) (int, error) {
	if why != "" {
		return 0, &apierr.Error{HTTP: http.StatusServiceUnavailable, Reason: "NOT_READY", Detail: what + why, Retry: time.Second}
	}
	w.Header()["Content-Type"] = textType
	w.Write([]byte("ready\n")) //nolint:errcheck // as in writeJSON
	return http.StatusOK, nil
}

// clusterReadyPath is the readiness probe of the cluster; /readyz probes the node.
const clusterReadyPath = "/readyz/cluster"

// envoyHealthPath is the path of envoyproxy/ratelimit's health check.
const envoyHealthPath = "/healthcheck"

// getEnvoyHealth answers like envoyproxy/ratelimit: OK, or 500 without a body.
func (r *router) getEnvoyHealth(w http.ResponseWriter, _ *http.Request) (int, error) {
	w.Header()["Content-Type"] = textType
	if !r.Status().GetReady() {
		w.WriteHeader(http.StatusInternalServerError)
		return http.StatusInternalServerError, nil
	}
	w.Write([]byte("OK")) //nolint:errcheck // as in writeJSON
	return http.StatusOK, nil
}

// query parses the query strictly: only the given parameters, each once, by name or in the protobuf
// JSON form.
func query(req *http.Request, known ...string) (url.Values, error) {
	if req.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil, apierr.Invalid("query", "cannot be read: %v", err)
	}
	out := url.Values{}
	for given, values := range q {
		i := apijson.FieldIndex(known, given)
		if i < 0 {
			there := "none is known"
			if len(known) > 0 {
				there = "known: " + suggest.List(known, false)
			}
			return nil, apierr.Invalid(apierr.Clip(given), "unknown query parameter;%s %s", suggest.DidYouMean(given, known, ""), there)
		}
		out[known[i]] = append(out[known[i]], values...)
	}
	for name, values := range out {
		if len(values) > 1 {
			return nil, apierr.Invalid(name, "given %d times; give it once", len(values))
		}
	}
	return out, nil
}
