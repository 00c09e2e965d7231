package rest

import (
	"net/http"
	"strings"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// getEvents streams events: one JSON object per line, or server-sent events if the caller accepts
// text/event-stream.
func (r *router) getEvents(w http.ResponseWriter, req *http.Request) int {
	watch := &quoratev1.WatchRequest{}
	if err := readQuery(req, watch); err != nil {
		return writeFault(w, err)
	}
	if err := api.AuthorizeRequest(req.Context(), watch); err != nil {
		return writeFault(w, err)
	}
	prefix, end, contentType := "", "\n", "application/x-ndjson"
	if strings.Contains(req.Header.Get("Accept"), "text/event-stream") {
		prefix, end, contentType = "data: ", "\n\n", "text/event-stream"
	}
	conn := http.NewResponseController(w)
	var line []byte
	started := false
	err := r.Events.Stream(req.Context(), watch, func(m *quoratev1.WatchResponse) error {
		line = append(apijson.AppendMessage(append(line[:0], prefix...), m.ProtoReflect()), end...)
		_, err := w.Write(line)
		return err
	}, func() error {
		if !started {
			started = true
			// The stream has no end of its own, so the deadlines of ordinary calls do not apply. A
			// caller that takes nothing for too long is still cut off.
			_ = conn.SetReadDeadline(time.Time{}) // a recorder in tests has none
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(api.EventWriteTimeout + r.Heartbeat))
		return conn.Flush()
	})
	return streamed(w, req, started, err)
}

// streamed ends a stream over HTTP. It logs the error of a stream that has begun; its caller learns
// the error from its next call.
func streamed(w http.ResponseWriter, req *http.Request, started bool, err error) int {
	switch {
	case err == nil:
	case started:
		api.CallOf(req.Context()).Ended(nil, err)
	default:
		return writeFault(w, err)
	}
	return http.StatusOK
}
