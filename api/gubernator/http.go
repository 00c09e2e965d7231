package gubernator

import (
	"errors"
	"io"
	"net/http"
	"strings"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/quorate/quorate/api/gen/pb/gubernator"
	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/rbac"
)

// Paths of the HTTP form.
const (
	PathGetRateLimits = "/v1/GetRateLimits"
	PathHealthCheck   = "/v1/HealthCheck"
	PathLiveCheck     = "/v1/LiveCheck"
)

// Bounds of the JSON body of a call.
const (
	maxBody    = 4 << 20         // bytes
	maxObjects = 4 * maxRequests // a request, its metadata, and the braces in its texts
)

// The JSON is the form of gubernator's gateway: field names as in the proto file, 64-bit numbers as
// strings, and empty fields included. Unknown fields are ignored.
var (
	toJSON   = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}
	fromJSON = protojson.UnmarshalOptions{DiscardUnknown: true}
)

// Handlers returns the handlers of the HTTP form by path.
func (s *Server) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		PathGetRateLimits: s.handler(PathGetRateLimits, http.MethodPost, s.postRateLimits),
		PathHealthCheck: s.handler(PathHealthCheck, http.MethodGet, func(r *http.Request) (proto.Message, error) {
			return s.HealthCheck(r.Context(), &pb.HealthCheckReq{})
		}),
		PathLiveCheck: s.handler(PathLiveCheck, http.MethodGet, func(r *http.Request) (proto.Message, error) {
			return s.LiveCheck(r.Context(), &pb.LiveCheckReq{})
		}),
	}
}

func (s *Server) handler(path, method string, serve func(*http.Request) (proto.Message, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != path:
			write(w, nil, status.Errorf(codes.NotFound, "unknown path; use %s", path))
		case r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead):
			w.Header().Set("Allow", method)
			write(w, nil, status.Errorf(codes.Unimplemented, "use %s", method))
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			res, err := serve(r)
			write(w, res, err)
		}
	})
}

func (s *Server) postRateLimits(r *http.Request) (proto.Message, error) {
	if err := s.opts.May(r.Context(), rbac.Check, Namespace); err != nil {
		s.opts.Ended(codeDenied)
		return nil, err
	}
	req := &pb.GetRateLimitsReq{}
	body, err := io.ReadAll(r.Body)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		s.opts.Ended(codeInvalid)
		return nil, status.Errorf(codes.OutOfRange, "the body has more than %d bytes", maxBody)
	}
	if st, ok := status.FromError(err); ok && err != nil { // the server has no room for it
		s.opts.Ended(codeInvalid)
		return nil, st.Err()
	}
	if jsontext.TooManyObjects(body, maxObjects) {
		s.opts.Ended(codeInvalid)
		return nil, status.Errorf(codes.OutOfRange, "the body has more than %d braces; at most %d requests in one call", maxObjects, maxRequests)
	}
	if err == nil && len(body) > 0 {
		err = fromJSON.Unmarshal(body, req)
	}
	if err != nil {
		s.opts.Ended(codeInvalid)
		return nil, status.Errorf(codes.InvalidArgument, "the body: %v", err)
	}
	return s.GetRateLimits(r.Context(), req)
}

// httpCodes maps gRPC codes to HTTP statuses. Other codes are 500.
var httpCodes = map[codes.Code]int{
	codes.OK: http.StatusOK, codes.InvalidArgument: http.StatusBadRequest, codes.OutOfRange: http.StatusBadRequest,
	codes.PermissionDenied: http.StatusForbidden, codes.Unauthenticated: http.StatusUnauthorized,
	codes.NotFound: http.StatusNotFound, codes.Unimplemented: http.StatusMethodNotAllowed, codes.Unavailable: http.StatusServiceUnavailable,
	codes.ResourceExhausted: http.StatusServiceUnavailable,
}

// write answers with a message, or with an error.
func write(w http.ResponseWriter, res proto.Message, err error) {
	st := status.Convert(err)
	if err != nil {
		// An error about JSON quotes a part of it, which may be invalid UTF-8.
		res = &statuspb.Status{Code: int32(st.Code()), Message: strings.ToValidUTF8(st.Message(), "?")}
	}
	code, ok := httpCodes[st.Code()]
	if !ok {
		code = http.StatusInternalServerError
	}
	data, err := toJSON.Marshal(res)
	if err != nil { // invariant: parsed texts are UTF-8, and so are the others
		code, data = http.StatusInternalServerError, []byte(`{"code":13,"message":"the answer has no JSON form","details":[]}`)
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(code)
	w.Write(jsontext.Escape(data)) //nolint:errcheck // the caller has gone
}
