package api

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/events"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of event streams.
const (
	heartbeatTime     = 15 * time.Second
	EventWriteTimeout = 30 * time.Second
	maxEventBurst     = 256 // events sent before they are flushed
)

// EventService streams the events of all nodes.
type EventService struct {
	quoratev1.UnimplementedEventServiceServer
	*core
	node EventSource
}

// filterOf validates and returns the filter of a watch.
func filterOf(req *quoratev1.WatchRequest) (quota.EventFilter, error) {
	out := quota.EventFilter{Namespace: req.Namespace, Limit: req.Limit, Key: req.Key}
	if req.Namespace != "" {
		if err := apiproto.CheckLimitName(quota.LimitName{Namespace: req.Namespace, Limit: quota.Default}); err != nil && req.Namespace != quota.Global.Namespace {
			return out, err
		}
	}
	if req.Limit != "" {
		if err := apiproto.CheckLimitName(quota.LimitName{Namespace: "any", Limit: req.Limit}); err != nil {
			return out, err
		}
	}
	if len(req.Key) > quota.MaxKeyLen {
		return out, apierr.Invalid("key", "is %d bytes; at most %d", len(req.Key), quota.MaxKeyLen)
	}
	if req.Buffer < 0 || req.Buffer > events.MaxBuffer {
		return out, apierr.Invalid("buffer", "%d; must be 1 to %d, or 0 for %d", req.Buffer, events.MaxBuffer, events.DefaultBuffer)
	}
	for _, k := range req.Kinds {
		if k < 1 || int(k) > len(quota.EventKinds()) {
			return out, apierr.Invalid("kinds", "unknown kind %d", k)
		}
		if kind := quota.EventKind(k); !slices.Contains(out.Kinds, kind) {
			out.Kinds = append(out.Kinds, kind)
		}
	}
	return out, nil
}

// Stream sends events and heartbeats until ctx ends or send fails. It calls flush when it has
// nothing more to send.
func (s *EventService) Stream(ctx context.Context, req *quoratev1.WatchRequest, send func(*quoratev1.WatchResponse) error, flush func() error) error {
	filter, err := filterOf(req)
	if err != nil {
		return err
	}
	if err := s.checkNode(req.Node); err != nil {
		return err
	}
	room := max(int64(req.Buffer), events.DefaultBuffer)
	give, err := takeShare(ctx, s.eventRoom, room, "watchers of events, or such large buffers of theirs,")
	if err != nil {
		return err
	}
	defer give()
	events, lost, stop := s.node.WatchAll(filter, req.Node, int(req.Buffer))
	defer stop()
	if flush() != nil { // sends the headers, so that the caller knows that the watch has begun
		return nil
	}
	beat := time.NewTicker(s.Heartbeat)
	defer beat.Stop()
	known := time.Now()
	var missing []string
	for {
		next := func() error { return send(&quoratev1.WatchResponse{Lost: lost(), MissingNodes: missing}) }
		select {
		case <-ctx.Done():
			return nil
		case <-s.closing:
			return nil
		case <-beat.C:
		case e := <-events:
			beat.Reset(s.Heartbeat)
			next = func() (err error) {
				missing, err = sendEvents(e, events, lost, send)
				return err
			}
		}
		if err := s.StillAuthorized(ctx, &known); err != nil {
			return err
		}
		err := next()
		if err == nil {
			err = flush()
		}
		if err != nil {
			return nil // the watcher has gone
		}
	}
}

// sendEvents sends e and the events that wait after it, up to maxEventBurst. It returns the nodes
// whose events are missing, as the last response has them.
func sendEvents(e *quoratev1.WatchResponse, events <-chan *quoratev1.WatchResponse, lost func() uint64, send func(*quoratev1.WatchResponse) error) (missing []string, err error) {
	for n := 0; ; n++ {
		e.Lost = lost()
		if err := send(e); err != nil {
			return nil, err
		}
		missing = e.MissingNodes
		if n >= maxEventBurst {
			return missing, nil
		}
		select {
		case e = <-events:
		default:
			return missing, nil
		}
	}
}

// Watch implements quoratev1.EventServiceServer.
func (s *EventService) Watch(req *quoratev1.WatchRequest, stream quoratev1.EventService_WatchServer) error {
	flush := func() error { return nil }
	first := func() error { return stream.SendHeader(nil) }
	send := func() error {
		f := first
		first = flush
		return f()
	}
	return unlessStuck(s.Stuck, func(around func(func() error) error) error {
		event := func(m *quoratev1.WatchResponse) error { return around(func() error { return stream.Send(m) }) }
		if err := s.Stream(stream.Context(), req, event, send); err != nil {
			return err
		}
		return stream.Context().Err()
	})
}
