package aggregator

import "github.com/quorate/quorate/internal/quota"

// sent remembers the lines of a range's last reports until they are answered, so that answers refer to lines instead
// of keys. An answer to a forgotten report is lost, and its keys are reported again. Reports have consecutive
// numbers, so each has a place by its number.
type sent struct {
	reports []sentReport // its length is a power of two
	lines   int          // lines of all reports
	oldest  quota.Seq    // no earlier report is remembered
}

const (
	// leastSent and maxSent bound the reports of one range that may be answered by lines: as many as a busy member
	// sends while an answer takes a second or two.
	leastSent = 16
	maxSent   = 512
	// maxSentLines bounds the lines of all of them: a megabyte.
	maxSentLines = 1 << 16
	// maxSpare bounds the lists of lines that are kept for reuse.
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

// spareLines holds lists of lines for reuse.
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

// begin remembers a report in progress; add adds its lines.
func (s *sent) begin(now quota.Time, seq quota.Seq, spare *spareLines) *sentReport {
	if len(s.reports) == 0 {
		s.reports, s.oldest = make([]sentReport, leastSent), seq
	}
	if s.place(seq).seq != 0 && len(s.reports) < maxSent { // an earlier report there is not answered yet
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

// of returns a report; nil if it is unknown or answered.
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
