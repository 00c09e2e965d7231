package console

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

func eventsPage() Page {
	return Page{Path: "events", Title: "Events", Group: "Operations", Template: "events", Need: rbac.EventsRead, Load: loadEvents, Stream: streamEvents}
}

// Bounds of live events: a busy node has more than anybody can read.
const (
	eventsEvery = 500 * time.Millisecond // interval of messages
	eventsRows  = 40                     // rows per message: the newest
)

// eventKinds are the kinds that can be selected.
var eventKinds = []Option{
	{"", "all kinds"},
	{"7", "refused"},
	{"1", "served"},
	{"2", "refused: wait too long"},
	{"3", "refused: over the limit of one request"},
	{"4", "unknown limit"},
	{"5", "bucket created"},
	{"6", "bucket removed"},
	{"8", "limits changed"},
}

type eventsView struct {
	Namespace, Limit, Key, Kind string
	Kinds                       []Option
	Node                        string // only of this one
	Names                       names
}

func loadEvents(r *Request) (any, error) {
	v := &eventsView{Namespace: r.Query("namespace"), Limit: r.Query("limit"), Key: r.URL.Query().Get("key"), Kind: r.Query("kind"), Kinds: eventKinds, Node: r.Query("node")}
	v.Names = namesFor(r, v.Namespace)
	_, err := v.request()
	return v, err
}

func (v *eventsView) request() (*quoratev1.WatchRequest, error) {
	req := &quoratev1.WatchRequest{Namespace: v.Namespace, Limit: v.Limit, Key: v.Key, Node: v.Node}
	if v.Kind != "" {
		n, err := strconv.ParseInt(v.Kind, 10, 32)
		if err != nil || !slices.ContainsFunc(eventKinds, func(o Option) bool { return o.Value == v.Kind }) {
			return nil, &Problem{Status: 400, Title: "Invalid value", Detail: "Unknown kind of event " + strconv.Quote(phrase.Clip(v.Kind, 20)) + "."}
		}
		req.Kinds = []quoratev1.EventKind{quoratev1.EventKind(n)}
	}
	return req, nil
}

// eventRows are the rows of one message, the newest first.
type eventRows struct {
	Events  []eventRow
	Missing string // nodes that have stopped answering
	Back    bool   // all nodes answer again
	Skipped uint64 // not shown, or lost because there were too many
}

// eventRow is an event and the node on which it happened.
type eventRow struct {
	*quoratev1.Event
	Node string
}

// streamEvents collects events and sends the newest at each interval.
func streamEvents(r *Request, send func(string, any) error) error {
	data, err := loadEvents(r)
	if err != nil {
		return err
	}
	req, err := data.(*eventsView).request()
	if err != nil {
		return err
	}
	watch, err := r.Events.Watch(r.Context(), req)
	if err != nil {
		return err
	}
	if err := send("", nil); err != nil { // the headers: the page is live
		return err
	}
	got, failed := receive(r.Context(), watch)
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	var rows eventRows
	var lost uint64
	missing := ""
	for {
		select {
		case <-r.Context().Done():
			return nil
		case err := <-failed:
			return err
		case m := <-got:
			rows.add(m, &lost)
			if now := strings.Join(m.MissingNodes, ", "); now != missing {
				missing, rows.Missing, rows.Back = now, now, now == ""
			}
		case <-tick.C:
			name := "rows"
			if len(rows.Events) == 0 && rows.Skipped == 0 && rows.Missing == "" && !rows.Back {
				name = ""
			}
			slices.Reverse(rows.Events)
			if err := send(name, &rows); err != nil {
				return err
			}
			rows = eventRows{}
		}
	}
}

func (e *eventRows) add(m *quoratev1.WatchResponse, lost *uint64) {
	if m.Lost > *lost {
		e.Skipped += m.Lost - *lost
		*lost = m.Lost
	}
	if m.Event == nil {
		return
	}
	if len(e.Events) >= eventsRows {
		e.Events = e.Events[1:]
		e.Skipped++
	}
	e.Events = append(e.Events, eventRow{m.Event, m.Node})
}

// receive forwards the messages of a watch; the goroutine ends with ctx.
func receive(ctx context.Context, watch interface {
	Recv() (*quoratev1.WatchResponse, error)
},
) (<-chan *quoratev1.WatchResponse, <-chan error) {
	got, failed := make(chan *quoratev1.WatchResponse), make(chan error, 1)
	go func() {
		for {
			m, err := watch.Recv()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed <- err
				}
				return
			}
			select {
			case got <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return got, failed
}

// eventState returns the badge of an event.
func eventState(e *quoratev1.Event) Badge {
	switch e.GetKind() {
	case quoratev1.EventKind_EVENT_KIND_TOKENS_SERVED:
		if e.GetShadow() {
			return Badge{"warn", "served, shadow"}
		}
		if e.GetNear() {
			return Badge{"warn", "served, near"}
		}
		return Badge{"good", "served"}
	case quoratev1.EventKind_EVENT_KIND_REFUSED:
		return Badge{"bad", "refused"}
	case quoratev1.EventKind_EVENT_KIND_TIMEOUT_SERVING_TOKENS:
		return Badge{"bad", "wait too long"}
	case quoratev1.EventKind_EVENT_KIND_TOO_MANY_TOKENS_REQUESTED:
		return Badge{"bad", "too many at once"}
	case quoratev1.EventKind_EVENT_KIND_BUCKET_MISS:
		return Badge{"warn", "unknown limit"}
	case quoratev1.EventKind_EVENT_KIND_BUCKET_CREATED:
		return Badge{"idle", "bucket created"}
	case quoratev1.EventKind_EVENT_KIND_BUCKET_REMOVED:
		return Badge{"idle", "bucket removed"}
	case quoratev1.EventKind_EVENT_KIND_LIMITS_CHANGED:
		return Badge{"warn", "limits changed"}
	}
	return Badge{"idle", "unknown"}
}
