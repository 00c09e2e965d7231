package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Bounds of reading.
const (
	readChunk = 256 << 10 // bytes per read; longer than any line
	readMost  = 8 << 20   // bytes per file that one call of NewestOfAll reads
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

// NewestOfAll returns up to most matching entries of a log, changes and attempts, newest first,
// starting at from. It reads at most 8 MiB per file, so it may return fewer entries although more
// exist. next is the cursor to continue at, nil after the oldest entry. Concurrent writes lose no
// entries; if the files are rotated between two calls, the second may repeat some. Invalid lines
// are skipped. It is safe for concurrent use.
func NewestOfAll(path string, from Cursor, most int, match func(*Entry) bool) (out []Entry, next *Cursor, err error) {
	at := from
	var both [2][]placed
	var further [2]*Place
	places := [2]**Place{&at.Done, &at.Attempts}
	for i, p := range [2]string{path, AttemptsPath(path)} {
		if *places[i] == nil {
			continue
		}
		both[i], further[i], err = newest(p, **places[i], most, match)
		if i == 1 && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for len(out) < most && len(both[0])+len(both[1]) > 0 {
		i := 0
		if len(both[0]) == 0 || len(both[1]) > 0 && both[1][0].Time.After(both[0][0].Time) {
			i = 1
		}
		out = append(out, both[i][0].Entry)
		*places[i], both[i] = &both[i][0].older, both[i][1:]
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

func newest(path string, from Place, most int, match func(*Entry) bool) (out []placed, next *Place, err error) {
	left := int64(readMost)
	for file := from.File; file <= maxFiles; file++ {
		at := Place{File: file}
		if file == from.File {
			at.Before = from.Before
		}
		out, err = newestOf(path, &at, out, most, match, &left)
		switch {
		case errors.Is(err, fs.ErrNotExist) && (file > 0 || from != Place{}):
			return out, nil, nil
		case err != nil:
			return nil, nil, err
		case at.Before > 0:
			return out, &at, nil
		case len(out) >= most || left <= 0:
			return out, &Place{File: file + 1}, nil
		}
	}
	return out, nil, nil
}

// newestOf reads one file backwards and moves at.
func newestOf(path string, at *Place, out []placed, most int, match func(*Entry) bool, left *int64) ([]placed, error) {
	if at.File > 0 {
		path = fmt.Sprintf("%s.%d", path, at.File)
	}
	f, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return out, err
	}
	if at.Before <= 0 || at.Before > info.Size() {
		at.Before = info.Size()
	}
	chunk := make([]byte, readChunk)
	for at.Before > 0 && len(out) < most && *left > 0 {
		start := max(0, at.Before-readChunk)
		part := chunk[:at.Before-start]
		if _, err := f.ReadAt(part, start); err != nil && !errors.Is(err, io.EOF) {
			return out, err
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
		out = lastOf(part, start, at, out, most, match)
	}
	return out, nil
}

// lastOf appends the matching entries of complete lines, the last first, and moves at.
func lastOf(part []byte, start int64, at *Place, out []placed, most int, match func(*Entry) bool) []placed {
	for len(part) > 0 && len(out) < most {
		begin := bytes.LastIndexByte(bytes.TrimSuffix(part, []byte{'\n'}), '\n') + 1
		e := placed{older: Place{File: at.File, Before: start + int64(begin)}}
		if e.older.Before == 0 {
			e.older.File++
		}
		if json.Unmarshal(part[begin:], &e.Entry) == nil && (match == nil || match(&e.Entry)) {
			out = append(out, e)
		}
		part = part[:begin]
		at.Before = start + int64(begin)
	}
	return out
}
