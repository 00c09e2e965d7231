package dataplane

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
)

// slowReport is how many sync intervals a report may wait for its answer; a slower one gets a span.
const slowReport = 5

// slowReports measures how long reports wait for their answers, if there is a tracer. Only the member
// loop uses it.
type slowReports struct {
	tracer  *tracing.Tracer
	sync    time.Duration
	waiting map[quota.RangeID]awaited // the oldest unanswered report of each range
}

type awaited struct {
	seq  quota.Seq
	to   quota.NodeID
	keys int
	at   time.Time
}

func (s *slowReports) init(cfg *Config) { s.tracer, s.sync = cfg.Tracer, cfg.Sync }

func (s *slowReports) sent(to quota.NodeID, r *quota.Report) {
	if s.tracer == nil {
		return
	}
	if s.waiting == nil {
		s.waiting = map[quota.RangeID]awaited{}
	}
	if _, there := s.waiting[r.Range]; !there && len(r.Entries) > 0 {
		s.waiting[r.Range] = awaited{r.Seq, to, len(r.Entries), time.Now()}
	}
}

func (s *slowReports) answered(g *quota.Grant) {
	w, there := s.waiting[g.Range]
	if !there || !answers(g, w.seq) {
		return
	}
	delete(s.waiting, g.Range)
	if time.Since(w.at) < slowReport*s.sync {
		return
	}
	span := s.tracer.Past("quorate.report.slow", w.at)
	span.Int("quorate.range", int64(g.Range))
	span.Int("quorate.keys", int64(w.keys))
	span.Text("quorate.to", string(w.to))
	span.Text("quorate.answered_by", string(g.From))
	span.End(nil)
}

// answers reports whether a grant answers the report seq, or a later one: by then seq itself was lost.
func answers(g *quota.Grant, seq quota.Seq) bool {
	for i := range g.Entries {
		if g.Entries[i].Ack >= seq {
			return true
		}
	}
	return false
}
