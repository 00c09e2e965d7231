package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/phrase"
)

// Bounds of reading.
const (
	readChunk = 256 << 10 // bytes per read; longer than any line
	readMost  = 8 << 20   // bytes per file that one call of Find reads
	maxFiles  = 99
)

// Place is a position between two entries in a chain of files. The zero value is the end.
type Place struct {
	File   int   // 0 is the current file, 1 the one before
	Before int64 // offset in the file; 0 is its end
}

// Cursor is a position in both chains of a log: changes and attempts. A nil place means that the
// chain has no older entries.
type Cursor struct{ Done, Attempts *Place }

// Start returns the cursor at the newest entries.
func Start() Cursor { return Cursor{Done: &Place{}, Attempts: &Place{}} }

// String formats a cursor for ParseCursor: one place in the changes and one in the attempts, such as
// 0.4711-1.22; x means that the chain has no older entries.
func (c Cursor) String() string {
	one := func(p *Place) string {
		if p == nil {
			return "x"
		}
		return fmt.Sprintf("%d.%d", p.File, p.Before)
	}
	return one(c.Done) + "-" + one(c.Attempts)
}

// ParseCursor parses what String returns. An empty text is the cursor at the newest entries.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Start(), nil
	}
	done, attempts, ok := strings.Cut(text, "-")
	d, err1 := parsePlace(done)
	a, err2 := parsePlace(attempts)
	if !ok || err1 != nil || err2 != nil || d == nil && a == nil {
		return Cursor{}, fmt.Errorf("%q is no place in an audit log; must be one such as 0.4711-1.22", phrase.Clip(text, 40))
	}
	return Cursor{Done: d, Attempts: a}, nil
}

func parsePlace(text string) (*Place, error) {
	if text == "x" {
		return nil, nil //nolint:nilnil // nothing is older
	}
	file, before, _ := strings.Cut(text, ".")
	n, err1 := strconv.ParseUint(file, 10, 8)
	b, err2 := strconv.ParseUint(before, 10, 63)
	return &Place{File: int(n), Before: int64(b)}, errors.Join(err1, err2)
}

// Query selects entries of a log.
type Query struct {
	From  Cursor            // where to begin
	Most  int               // entries
	Since time.Time         // no older entries; zero for all
	Match func(*Entry) bool // nil matches all
}

// Found is an entry with the cursor of the next older one.
type Found struct {
	Entry
	After Cursor
}

// Find returns the matching entries of a log, changes and attempts, newest first. It reads at most
// 8 MiB per file, so it may return fewer entries although more exist. next is the cursor to continue
// at, nil after the oldest entry. Concurrent writes lose no entries; if the files are rotated
// between two calls, the second may repeat some. Invalid lines are skipped. It is safe for
// concurrent use.
func Find(path string, q Query) (out []Found, next *Cursor, err error) {
	at := q.From
	var both [2][]placed
	var further [2]*Place
	places := [2]**Place{&at.Done, &at.Attempts}
	for i, p := range [2]string{path, AttemptsPath(path)} {
		if *places[i] == nil {
			continue
		}
		both[i], further[i], err = newest(p, **places[i], &q)
		if i == 1 && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for len(out) < q.Most && len(both[0])+len(both[1]) > 0 {
		i := 0
		if len(both[0]) == 0 || len(both[1]) > 0 && both[1][0].Time.After(both[0][0].Time) {
			i = 1
		}
		*places[i] = &both[i][0].older
		out = append(out, Found{both[i][0].Entry, at})
		both[i] = both[i][1:]
	}
	for i := range both {
		if len(both[i]) == 0 { // all returned: continue where reading ended
			*places[i] = further[i]
		}
	}
	if at == (Cursor{}) {
		return out, nil, nil
	}
	return out, &at, nil
}

// placed is an entry and the position before it.
type placed struct {
	Entry
	older Place
}

func newest(path string, from Place, q *Query) (out []placed, next *Place, err error) {
	left := int64(readMost)
	var old bool
	for file := from.File; file <= maxFiles; file++ {
		at := Place{File: file}
		if file == from.File {
			at.Before = from.Before
		}
		out, old, err = newestOf(path, &at, out, q, &left)
		switch {
		case err == nil && old:
			return out, nil, nil
		case errors.Is(err, fs.ErrNotExist) && (file > 0 || from != Place{}):
			if _, err := os.Stat(fmt.Sprintf("%s.%d", path, file+1)); err != nil {
				return out, nil, nil
			} // a rotation has failed, and left a gap
		case err != nil:
			return nil, nil, err
		case at.Before > 0:
			return out, &at, nil
		case len(out) >= q.Most || left <= 0:
			return out, &Place{File: file + 1}, nil
		}
	}
	return out, nil, nil
}

// newestOf reads one file backwards and moves at. old reports that it came to an entry before
// q.Since.
func newestOf(path string, at *Place, out []placed, q *Query, left *int64) (_ []placed, old bool, err error) {
	if at.File > 0 {
		path = fmt.Sprintf("%s.%d", path, at.File)
	}
	f, err := os.Open(path)
	if err != nil {
		return out, false, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return out, false, err
	}
	if at.Before <= 0 || at.Before > info.Size() {
		at.Before = info.Size()
	}
	chunk := make([]byte, readChunk)
	for at.Before > 0 && len(out) < q.Most && *left > 0 && !old {
		start := max(0, at.Before-readChunk)
		part := chunk[:at.Before-start]
		if _, err := f.ReadAt(part, start); err != nil && !errors.Is(err, io.EOF) {
			return out, false, err
		}
		*left -= int64(len(part))
		if start > 0 { // the first line begins before the chunk
			cut := bytes.IndexByte(part, '\n') + 1
			if cut == len(part) || cut == 0 { // one long line, which is no entry
				at.Before = start
				continue
			}
			start, part = start+int64(cut), part[cut:]
		}
		out, old = lastOf(part, start, at, out, q)
	}
	return out, old, nil
}

// lastOf appends the matching entries of complete lines, the last first, and moves at. It stops at
// an entry before q.Since, and reports it.
func lastOf(part []byte, start int64, at *Place, out []placed, q *Query) (_ []placed, old bool) {
	for len(part) > 0 && len(out) < q.Most {
		begin := bytes.LastIndexByte(bytes.TrimSuffix(part, []byte{'\n'}), '\n') + 1
		e := placed{older: Place{File: at.File, Before: start + int64(begin)}}
		if e.older.Before == 0 {
			e.older.File++
		}
		if json.Unmarshal(part[begin:], &e.Entry) == nil {
			if e.Time.Before(q.Since) {
				return out, true
			}
			if q.Match == nil || q.Match(&e.Entry) {
				out = append(out, e)
			}
		}
		part = part[:begin]
		at.Before = start + int64(begin)
	}
	return out, false
}
