package aggregator

import "github.com/quorate/quorate/internal/quota"

// sent remembers what the last reports of a range were about until they are answered,
// so that answers need not name it. An answer to an older one is lost: its keys are
// reported again.
type sent struct {
	reports [maxSent]sentReport
	next    int
}

const (
	// maxSent bounds the reports of one range that may be answered by lines, each of
	// maxEntries lines at most.
	maxSent = 16
	// maxSpare bounds the memory kept for lines of later reports.
	maxSpare = 64
)

type sentReport struct {
	seq   quota.Seq
	lines []sentLine
}

type sentLine struct {
	b     *bucket
	epoch quota.Seq
}

// spareLines is memory for lines.
type spareLines [][]sentLine

func (s *spareLines) take() []sentLine {
	last := len(*s) - 1
	if last < 0 {
		return nil
	}
	lines := (*s)[last]
	*s = (*s)[:last]
	return lines
}

func (s *spareLines) give(lines []sentLine) {
	if clear(lines); len(*s) < maxSpare && cap(lines) > 0 {
		*s = append(*s, lines[:0])
	}
}

// begin remembers a report that is being made: its lines are to follow.
func (s *sent) begin(seq quota.Seq, spare *spareLines) *sentReport {
	r := &s.reports[s.next]
	s.next = (s.next + 1) % maxSent
	if r.lines == nil {
		r.lines = spare.take()
	}
	clear(r.lines)
	r.seq, r.lines = seq, r.lines[:0]
	return r
}

// of returns the lines of a report; none if it is not known, or answered.
func (s *sent) of(seq quota.Seq) []sentLine {
	for i := range s.reports {
		if s.reports[i].seq == seq {
			return s.reports[i].lines
		}
	}
	return nil
}

// answered forgets a report.
func (s *sent) answered(seq quota.Seq, spare *spareLines) {
	for i := range s.reports {
		if r := &s.reports[i]; r.seq == seq && seq != 0 {
			spare.give(r.lines)
			*r = sentReport{}
		}
	}
}
