package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of what a caller sends. Together they bound the memory of a connection: the reader has one
// buffer of at most 2*maxCommand bytes, however long the pipeline is.
const (
	maxArgs    = 64
	maxArg     = 16 << 10 // bytes: a JWT of AUTH
	maxCommand = 32 << 10 // bytes on the wire
	maxLine    = 1 << 10  // bytes of a command that is typed as a line
	firstRead  = 4 << 10
)

// protocolError describes malformed bytes. Nothing after them can be parsed.
type protocolError string

// Error implements error.
func (e protocolError) Error() string { return string(e) }

func malformed(format string, args ...any) error {
	return protocolError(fmt.Sprintf(format, args...))
}

// errMore says that the command is incomplete.
var errMore = errors.New("incomplete")

// parse parses the command at the beginning of data: an array of strings, or a line. args are
// slices of data, appended to the given args. n is the length of the command in bytes; line says
// that it was typed as a line. The error is errMore or a protocolError.
func parse(data []byte, args [][]byte) (out [][]byte, n int, line bool, err error) {
	if len(data) == 0 {
		return args, 0, false, errMore
	}
	if data[0] != '*' {
		out, n, err = parseLine(data, args)
		return out, n, true, err
	}
	count, n, err := parseNumber(data, 1, maxArgs, "arguments")
	if err != nil {
		return args, 0, false, err
	}
	for range count {
		var arg []byte
		if arg, n, err = parseString(data, n); err != nil {
			return args, 0, false, err
		}
		args = append(args, arg)
	}
	return args, n, false, nil
}

// parseString parses $length, and that many bytes, from data[at:].
func parseString(data []byte, at int) (arg []byte, next int, err error) {
	if at >= len(data) {
		return nil, 0, errMore
	}
	if data[at] != '$' {
		return nil, 0, malformed("expected '$', got %q", data[at])
	}
	size, at, err := parseNumber(data, at+1, maxArg, "bytes in an argument")
	if err != nil {
		return nil, 0, err
	}
	next = at + size + 2
	if next > maxCommand {
		return nil, 0, malformed("a command of more than %d bytes", maxCommand)
	}
	if len(data) < next {
		return nil, 0, errMore
	}
	if data[next-2] != '\r' || data[next-1] != '\n' {
		return nil, 0, malformed("an argument is longer than its length says")
	}
	return data[at : at+size : at+size], next, nil
}

// parseNumber parses digits and the end of their line from data[at:]. It refuses signs, leading
// zeros and numbers above most.
func parseNumber(data []byte, at, most int, what string) (value, next int, err error) {
	begin := at
	for ; at < len(data) && data[at] != '\r'; at++ {
		c := data[at]
		if c < '0' || c > '9' || at > begin && data[begin] == '0' {
			return 0, 0, malformed("invalid number of %s", what)
		}
		if value = value*10 + int(c-'0'); value > most {
			return 0, 0, malformed("too many %s; at most %d", what, most)
		}
	}
	switch {
	case at+1 >= len(data):
		return 0, 0, errMore
	case at == begin || data[at+1] != '\n':
		return 0, 0, malformed("invalid number of %s", what)
	}
	return value, at + 2, nil
}

// parseLine parses words up to the end of the line. It has no quotes: an argument with a space must
// be sent as an array.
func parseLine(data []byte, args [][]byte) (out [][]byte, n int, err error) {
	end := bytes.IndexByte(data[:min(len(data), maxLine)], '\n')
	switch {
	case end < 0 && len(data) >= maxLine:
		return args, 0, malformed("a line of more than %d bytes", maxLine)
	case end < 0:
		return args, 0, errMore
	}
	for _, c := range bytes.TrimSuffix(data[:end], []byte{'\r'}) {
		if c < ' ' && c != '\t' || c == '"' || c == '\'' || c > '~' {
			return args, 0, malformed("byte %q in a line; send arrays of strings", c)
		}
	}
	words := bytes.Fields(data[:end])
	if len(words) > maxArgs {
		return args, 0, malformed("too many arguments; at most %d", maxArgs)
	}
	return append(args, words...), end + 1, nil
}

// reader splits the bytes of a connection into commands.
type reader struct {
	src  io.Reader
	buf  []byte // the bytes read
	at   int    // how many of them next has consumed
	args [][]byte
	line bool // the last command was typed as a line
}

// next returns the next command, which is valid until fill is called. It returns errMore if fill
// must be called first, or a protocolError. It skips empty commands.
func (r *reader) next() ([][]byte, error) {
	for {
		args, n, line, err := parse(r.buf[r.at:], r.args[:0])
		if err != nil {
			return nil, err
		}
		r.args, r.line = args, line
		r.at += n
		if len(args) > 0 {
			return args, nil
		}
	}
}

// partial reports whether a part of a command has been read.
func (r *reader) partial() bool { return r.at < len(r.buf) }

// fill reads more bytes.
func (r *reader) fill() error {
	r.buf = append(r.buf[:0], r.buf[r.at:]...)
	r.at = 0
	switch {
	case len(r.buf) == 0 && cap(r.buf) > firstRead:
		r.buf = nil // a large command is rare: its buffer is not kept
		fallthrough
	case cap(r.buf)-len(r.buf) < firstRead/2:
		// No command for which parse still needs more bytes is larger.
		grown := make([]byte, len(r.buf), min(max(firstRead, 2*cap(r.buf)), 2*maxCommand))
		copy(grown, r.buf)
		r.buf = grown
	}
	n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if n > 0 {
		return nil
	}
	return err
}
