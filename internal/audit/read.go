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
	readChunk = 256 << 10 // bytes at a time; longer than any line
	readMost  = 8 << 20   // bytes that one call of Newest looks at
	maxFiles  = 99
)

// Place is a place in a log's files, between two entries. The zero value is the end.
type Place struct {
	File   int   // 0 is the current file, 1 the one before
	Before int64 // bytes of it that are older
}

// Newest reads a log from its files, the newest entry first: up to most entries that
// match, from a place on towards older ones. It looks at 8 MiB at most, so it may return
// fewer although there are more. next is where to go on, nil at the oldest entry. While
// the log is written, entries are not lost; when its files are rotated between two calls,
// the second may repeat some. What is no entry is left out. Any goroutine may call it.
func Newest(path string, from Place, most int, match func(*Entry) bool) (out []Entry, next *Place, err error) {
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

// newestOf reads one file, and moves at to where it has come.
func newestOf(path string, at *Place, out []Entry, most int, match func(*Entry) bool, left *int64) ([]Entry, error) {
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

// lastOf adds the entries of whole lines, the last first, and moves at.
func lastOf(part []byte, start int64, at *Place, out []Entry, most int, match func(*Entry) bool) []Entry {
	for len(part) > 0 && len(out) < most {
		begin := bytes.LastIndexByte(bytes.TrimSuffix(part, []byte{'\n'}), '\n') + 1
		var e Entry
		if json.Unmarshal(part[begin:], &e) == nil && (match == nil || match(&e)) {
			out = append(out, e)
		}
		part = part[:begin]
		at.Before = start + int64(begin)
	}
	return out
}
