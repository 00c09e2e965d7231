package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/fairshare"
)

// Bounds of live updates.
const (
	maxViewers      = 100              // live pages per node
	maxViewersOfOne = 25               // live pages per identity, if callers are identified
	liveEvery       = 2 * time.Second  // default interval of a page
	liveWrite       = 20 * time.Second // write timeout
	liveBeat        = 10 * time.Second // longest pause between messages
)

// Point is a new point of a chart: a time in seconds, and a value for each series.
type Point struct {
	At     float64   `json:"at"`
	Values []float64 `json:"values"`
}

// serveLive sends the changing parts of a page as server-sent events: the event's name is the
// part's, its data the HTML. "points" has new points of charts, and "trouble" says why there is
// nothing new.
func (c *Console) serveLive(w http.ResponseWriter, r *Request) {
	if r.Method == http.MethodHead { // asks only for the headers
		newLiveWriter(w)
		return
	}
	owner := ""
	if r.Caller != nil {
		owner = r.Caller.Identity
	}
	if full := c.viewers.TryAcquire(owner, 1); full != fairshare.NotFull {
		text := "too many pages are open on this node"
		if full == fairshare.Each && owner != "" {
			text = "too many pages of " + owner + " are open on this node"
		}
		http.Error(w, text, http.StatusServiceUnavailable)
		return
	}
	defer c.viewers.Release(owner, 1)
	l := newLiveWriter(w)
	_ = l.conn.SetReadDeadline(time.Time{}) // the stream has no end of its own
	if r.page.Stream != nil {
		c.stream(l, r)
		return
	}
	every := r.page.Every
	if every == 0 {
		every = liveEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for c.sendChanges(l, r) == nil {
		select {
		case <-r.Context().Done():
			return
		case <-c.closing:
			return
		case <-tick.C:
		}
		if !c.still(r) {
			l.goodbye()
			return
		}
	}
}

// stream sends the output of a page's Stream until the reader leaves or loses access.
func (c *Console) stream(l *liveWriter, r *Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var out atomic.Bool // signed out
	go func() {
		check := time.NewTicker(liveEvery)
		defer check.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.closing:
				cancel()
			case <-check.C:
				if !c.still(r) {
					out.Store(true)
					cancel()
				}
			}
		}
	}()
	in := *r
	in.Request = r.WithContext(ctx)
	err := r.page.Stream(&in, func(name string, data any) error {
		if name != "" {
			var b bytes.Buffer
			if err := r.page.set.ExecuteTemplate(&b, name, data); err != nil {
				return err
			}
			l.last = map[string]string{} // the same again is sent again
			l.changed(name, b.String())
		}
		return l.flush()
	})
	switch {
	case out.Load():
		l.goodbye()
	case err != nil && ctx.Err() == nil:
		l.changed("trouble", problemOf(err).Detail)
		_ = l.flush()                    // the reader may have gone
		_ = backoff.Sleep(ctx, liveBeat) // or the browser would ask again at once
	}
}

// still reports whether the session or certificate of a stream is still valid.
func (c *Console) still(r *Request) bool {
	if c.Guard == nil {
		return true
	}
	if !r.signed {
		who, err := c.Guard.Identify(r.Context(), r.TLS, nil)
		return err == nil && who.Credential != auth.None
	}
	cookie, err := r.Cookie(c.cookie(r.Request))
	if err != nil {
		return false
	}
	credential := c.sessions.credential(cookie.Value, c.Now(), false)
	if credential == "" {
		return false
	}
	_, err = c.Guard.Identify(r.Context(), r.TLS, []string{"Bearer " + credential})
	return err == nil
}

// sendChanges sends what has changed. It returns an error if the reader has left.
func (c *Console) sendChanges(l *liveWriter, r *Request) error {
	data, err := r.page.Load(r)
	if err != nil {
		l.changed("trouble", problemOf(err).Detail)
		return l.flush()
	}
	l.changed("trouble", "")
	for _, name := range r.page.Live {
		var b bytes.Buffer
		if err := r.page.set.ExecuteTemplate(&b, name, data); err != nil {
			c.Logger.Error("cannot show a part of a page", "template", name, "err", err)
			continue
		}
		l.changed(name, b.String())
	}
	if r.page.Points != nil {
		if points := r.page.Points(data); len(points) > 0 {
			if body, err := json.Marshal(points); err == nil {
				l.changed("points", string(body))
			}
		}
	}
	return l.flush()
}

type liveWriter struct {
	w    http.ResponseWriter
	conn *http.ResponseController
	last map[string]string // last data by name
	out  bytes.Buffer
	sent time.Time
}

func newLiveWriter(w http.ResponseWriter) *liveWriter {
	w.Header().Set("Content-Type", "text/event-stream")
	return &liveWriter{w: w, conn: http.NewResponseController(w), last: map[string]string{}}
}

// changed adds an event unless its data is the same as last time.
func (l *liveWriter) changed(name, data string) {
	if was, ok := l.last[name]; ok && was == data {
		return
	}
	l.last[name] = data
	fmt.Fprintf(&l.out, "event: %s\n", name)
	for line := range strings.SplitSeq(strings.ReplaceAll(data, "\r", ""), "\n") {
		fmt.Fprintf(&l.out, "data: %s\n", line)
	}
	l.out.WriteByte('\n')
}

// goodbye notifies the page that the reader is signed out: it stops updating and links to the
// sign-in page.
func (l *liveWriter) goodbye() {
	l.changed("signed-out", "You are signed out: the session has ended, or its token was revoked. Load the page again to sign in.")
	_ = l.flush() // the reader may have gone
}

func (l *liveWriter) flush() error {
	if l.out.Len() == 0 {
		if time.Since(l.sent) < liveBeat {
			return nil
		}
		l.out.WriteString(": nothing new\n\n")
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(liveWrite)) // a recorder in tests has none
	_, err := l.w.Write(l.out.Bytes())
	l.out.Reset()
	l.sent = time.Now()
	if err != nil {
		return err
	}
	return l.conn.Flush()
}
