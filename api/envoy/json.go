package envoy

import (
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/rbac"
)

// JSONPath is the path of the JSON form of ShouldRateLimit.
const JSONPath = "/json"

// MaxBody is the largest body of a request in JSON.
const MaxBody = 4 << 20

// maxObjects bounds the objects of a body: those that a request may have, and braces in its texts.
const maxObjects = 2 * MaxDescriptors * descriptor.MaxEntries

// Handler serves POST [JSONPath]: it answers a RateLimitRequest in protobuf's JSON form with a
// RateLimitResponse, and status 200 for OK or 429 for OVER_LIMIT. An invalid request gets 400, 405
// or 413; a request that the limits make impossible, or for whose limit there is no room, gets 500, and
// one for whose body the node has no room 503. A caller without the permission check in the namespace of the domain
// gets 401 or 403.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveJSON) }

func (s *Server) serveJSON(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	}
	req, code, err := readJSON(w, r)
	if err != nil {
		word := "invalid_argument"
		if code == http.StatusServiceUnavailable {
			word = codeWord(codes.ResourceExhausted)
		}
		s.o.Ended(word)
		http.Error(w, err.Error(), code)
		return
	}
	if err := s.o.May(r.Context(), rbac.Check, descriptor.Namespace(req.Domain)); err != nil {
		s.o.Ended(codeWord(status.Code(err)))
		http.Error(w, status.Convert(err).Message(), httpCode(err))
		return
	}
	res, err := s.ShouldRateLimit(r.Context(), req)
	if err != nil {
		http.Error(w, status.Convert(err).Message(), httpCode(err))
		return
	}
	writeJSON(w, res)
}

func httpCode(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}

func readJSON(w http.ResponseWriter, r *http.Request) (*request, int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			return nil, http.StatusRequestEntityTooLarge, badf("the body is larger than %d bytes", MaxBody)
		}
		if _, ok := status.FromError(err); ok { // the server has no room for it
			return nil, http.StatusServiceUnavailable, err
		}
		return nil, http.StatusBadRequest, err
	}
	if jsontext.TooManyObjects(body, maxObjects) {
		return nil, http.StatusBadRequest, badf("the body has more than %d braces", maxObjects)
	}
	req := &request{}
	if err := protojson.Unmarshal(body, req); err != nil {
		return nil, http.StatusBadRequest, badf("the body must be a RateLimitRequest in JSON: %w", err)
	}
	return req, 0, nil
}

func writeJSON(w http.ResponseWriter, res *response) {
	data, err := protojson.Marshal(res)
	if err != nil {
		panic(err) // invariant: every answer encodes as JSON
	}
	for _, h := range res.ResponseHeadersToAdd {
		w.Header().Set(h.Key, h.Value)
	}
	w.Header().Set("Content-Type", "application/json")
	if res.OverallCode == overCode {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	w.Write(jsontext.Escape(data)) //nolint:errcheck // the caller has gone
}
