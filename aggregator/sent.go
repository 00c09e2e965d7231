package aggregator

import "github.com/quorate/quorate/internal/quota"

// sent remembers what the last reports of a range were about until they are answered,
// so that answers need not name it. An answer to one that is forgotten is lost: its keys
// are reported again. Reports are numbered in order, so each has a place by its number.
type sent struct {
	reports []sentReport // as many as a power of two
	lines   int          // of all of them
	oldest  quota.Seq    // none before it is remembered
}

const (
	// leastSent and maxSent bound the reports of one range that may be answered by lines:
	// as many as a busy member sends while an answer is under way for a second or two.
	leastSent = 16
	maxSent   = 512
	// maxSentLines bounds their lines: a megabyte.
	maxSentLines = 1 << 16
	// maxSpare bounds the memory kept for lines of later reports.
	maxSpare = 64
)

type sentReport struct {
	seq   quota.Seq
	at    quota.Time
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

func (s *sent) place(seq quota.Seq) *sentReport { return &s.reports[int(seq)&(len(s.reports)-1)] }

// begin remembers a report that is being made: its lines are to follow, by add.
func (s *sent) begin(now quota.Time, seq quota.Seq, spare *spareLines) *sentReport {
	if len(s.reports) == 0 {
		s.reports, s.oldest = make([]sentReport, leastSent), seq
	}
	if s.place(seq).seq != 0 && len(s.reports) < maxSent { // one is not answered yet
		old := s.reports
		s.reports = make([]sentReport, 2*len(old))
		for i := range old {
			if old[i].seq != 0 {
				*s.place(old[i].seq) = old[i]
			}
		}
	}
	for s.lines > maxSentLines-maxEntries && s.oldest < seq {
		s.answered(s.oldest, spare)
		s.oldest++
	}
	r := s.place(seq)
	s.answered(r.seq, spare)
	*r = sentReport{seq: seq, at: now, lines: spare.take()}
	return r
}

func (s *sent) add(r *sentReport, l sentLine) {
	r.lines = append(r.lines, l)
	s.lines++
}

// of returns a report; nil if it is not known, or answered.
func (s *sent) of(seq quota.Seq) *sentReport {
	if seq == 0 || len(s.reports) == 0 {
		return nil
	}
	if r := s.place(seq); r.seq == seq {
		return r
	}
	return nil
}

// answered forgets a report.
func (s *sent) answered(seq quota.Seq, spare *spareLines) {
	if r := s.of(seq); r != nil {
		s.lines -= len(r.lines)
		spare.give(r.lines)
		*r = sentReport{}
	}
}
