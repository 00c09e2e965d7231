package rest

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// getEvents streams events: one JSON object per line, or server-sent events if the caller accepts
// text/event-stream.
func (r *router) getEvents(w http.ResponseWriter, req *http.Request) (int, error) {
	watch := &quoratev1.WatchRequest{}
	if err := readAuthorized(req, watch); err != nil {
		return 0, err
	}
	out := newStream(w, req)
	ctx, stop := r.WhileAuthorized(req.Context())
	err := r.Events.Stream(ctx, watch, func(m *quoratev1.WatchResponse) error { return out.write(m.ProtoReflect()) }, func() error {
		out.start()
		_ = out.conn.SetWriteDeadline(time.Now().Add(api.EventWriteTimeout + r.Heartbeat))
		return out.flush()
	})
	return out.ended(cmp.Or(stop(), err))
}

// stream is a response without an end of its own: one JSON object per line, or server-sent events if
// the caller accepts text/event-stream.
type stream struct {
	w                        http.ResponseWriter
	conn                     *http.ResponseController
	prefix, end, contentType string
	line                     []byte
	started                  bool
	head                     bool // HEAD asks only for the headers
}

// errHeadersOnly ends a stream after its headers.
var errHeadersOnly = errors.New("the caller asked only for the headers")

func newStream(w http.ResponseWriter, req *http.Request) *stream {
	s := &stream{w: w, conn: http.NewResponseController(w), end: "\n", contentType: "application/x-ndjson", head: req.Method == http.MethodHead}
	if strings.Contains(req.Header.Get("Accept"), "text/event-stream") {
		s.prefix, s.end, s.contentType = "data: ", "\n\n", "text/event-stream"
	}
	return s
}

// start writes the headers, once. The deadlines of ordinary calls do not apply to a stream: the code
// that writes it sets a write deadline, which cuts off a caller that takes nothing for too long.
func (s *stream) start() {
	if s.started {
		return
	}
	s.started = true
	_ = s.conn.SetReadDeadline(time.Time{}) // a recorder in tests has none
	s.w.Header().Set("Content-Type", s.contentType)
	s.w.Header().Set("Cache-Control", "no-store")
	s.w.WriteHeader(http.StatusOK)
}

func (s *stream) write(m protoreflect.Message) error {
	s.line = append(apijson.AppendMessage(append(s.line[:0], s.prefix...), m), s.end...)
	_, err := s.w.Write(s.line)
	return err
}

func (s *stream) flush() error {
	if s.head {
		return errHeadersOnly
	}
	return s.conn.Flush()
}

// ended returns what the handler of a stream returns when the stream ended with err. The caller of a
// stream that has begun learns the error from its next call.
func (s *stream) ended(err error) (status int, _ error) {
	if err != nil && !s.started {
		return 0, err
	}
	return http.StatusOK, err
}
