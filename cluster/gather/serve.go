package gather

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/events"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of the watches of other nodes.
const (
	pollTime   = time.Second      // longest wait of an answer for an event
	watchIdle  = 30 * time.Second // a watch ends if nothing is asked for this long
	maxAnswer  = 256              // events in an answer
	maxBytes   = 256 << 10        // bytes of events in an answer, plus one event
	maxRoom    = 8 * events.MaxBuffer
	maxWatches = 512
)

// watchID names a watch of another node.
type watchID struct {
	from quota.NodeID
	id   uint64
}

// served is a watch of another node on the events of this one.
type served struct {
	room   int
	turn   chan struct{} // held while an answer is made
	events <-chan quota.Event
	lost   func() uint64
	stop   func()
	idle   *time.Timer
	// unsent counts events that cannot be encoded.
	unsent uint64
}

var errTooMany = errors.New("this node has reached its bound on watches of events")

// answerEvents returns the next events of a watch, and waits up to pollTime for the first.
func (s *Service) answerEvents(ctx context.Context, from quota.NodeID, c *peerv1.CallEvents) (*peerv1.CallEventsResult, error) {
	id := watchID{from, c.GetWatch()}
	if c.GetEnd() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(id)
		return &peerv1.CallEventsResult{}, nil
	}
	w, err := s.watchOf(id, c)
	if err != nil {
		return nil, err
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := &peerv1.CallEventsResult{}
	wait := time.NewTimer(pollTime)
	defer wait.Stop()
	select {
	case e := <-w.events:
		w.answer(out, e)
	case <-wait.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	out.Lost = w.lost() + w.unsent
	return out, nil
}

// watchOf returns a watch, and begins it if it is new.
func (s *Service) watchOf(id watchID, c *peerv1.CallEvents) (*served, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[id]; w != nil {
		w.idle.Reset(watchIdle)
		return w, nil
	}
	req := &quoratev1.WatchRequest{}
	if err := proto.Unmarshal(c.GetFilter(), req); err != nil {
		return nil, err
	}
	room := min(max(int(req.Buffer), events.DefaultBuffer), events.MaxBuffer)
	if len(s.watches) >= maxWatches || s.room+room > maxRoom || s.ctx.Err() != nil {
		return nil, errTooMany
	}
	w := &served{room: room, turn: make(chan struct{}, 1)}
	w.events, w.lost, w.stop = s.node.Watch(filterOf(req), room)
	w.idle = time.AfterFunc(watchIdle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.watches[id] == w {
			s.drop(id)
		}
	})
	s.watches[id] = w
	s.room += room
	return w, nil
}

// drop ends a watch. s.mu must be held.
func (s *Service) drop(id watchID) {
	if w := s.watches[id]; w != nil {
		w.idle.Stop()
		w.stop()
		s.room -= w.room
		delete(s.watches, id)
	}
}

// answer adds e and the events that wait after it, as far as an answer holds them.
func (w *served) answer(out *peerv1.CallEventsResult, e quota.Event) {
	for size := 0; ; {
		if data, err := proto.Marshal(apiproto.Event(&e)); err == nil {
			out.Events = append(out.Events, data)
			size += len(data)
		} else { // a key that is not UTF-8
			w.unsent++
		}
		if len(out.Events) >= maxAnswer || size >= maxBytes {
			return
		}
		select {
		case e = <-w.events:
		default:
			return
		}
	}
}

func filterOf(req *quoratev1.WatchRequest) quota.EventFilter {
	out := quota.EventFilter{Namespace: req.GetNamespace(), Limit: req.GetLimit(), Key: req.GetKey()}
	for _, k := range req.GetKinds() {
		out.Kinds = append(out.Kinds, quota.EventKind(min(max(k, 0), 255)))
	}
	return out
}

func requestOf(f quota.EventFilter, buffer int) *quoratev1.WatchRequest {
	out := &quoratev1.WatchRequest{Namespace: f.Namespace, Limit: f.Limit, Key: f.Key, Buffer: int32(min(max(buffer, 0), events.MaxBuffer))}
	for _, k := range f.Kinds {
		out.Kinds = append(out.Kinds, quoratev1.EventKind(k))
	}
	return out
}
