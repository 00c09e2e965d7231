package load

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds on an access log.
const (
	maxLogLine     = 64 << 10 // bytes; longer lines are invalid
	maxLogRequests = 5_000_000
	maxBadShown    = 3
)

// hit is one line of an access log in combined format.
type hit struct {
	time                              time.Time
	ip, user, method, path, userAgent string
	status                            string
}

// keyOf holds the fields that a key can be made from.
var keyOf = map[string]func(*hit) string{
	"ip":         func(h *hit) string { return h.ip },
	"path":       func(h *hit) string { return h.path },
	"method":     func(h *hit) string { return h.method },
	"status":     func(h *hit) string { return h.status },
	"user":       func(h *hit) string { return h.user },
	"user_agent": func(h *hit) string { return h.userAgent },
}

// request is the part of a line that a replay needs.
type request struct {
	at    time.Time
	key   int32 // index in accessLog.keys
	route int32 // index in accessLog.routes, if routes are kept
}

// route is the part of a request that limits for HTTP requests match.
type route struct{ method, path string }

// accessLog is a whole access log, sorted by time.
type accessLog struct {
	requests []request
	keys     []string
	routes   []route
	byRoute  map[route]int32 // nil if routes are not kept
	bad      int
	badShown []string // number and error of the first few invalid lines
}

// read adds a log in combined format. It counts and skips invalid lines, and keeps the order of
// lines within the same second.
func (l *accessLog) read(in io.Reader, key func(*hit) string, prefix string) error {
	index := make(map[string]int32)
	r, err := plainLog(in)
	if err != nil {
		return err
	}
	latest := time.Now().Add(24 * time.Hour) // the log's clock or time zone may be wrong
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			l.addBad(n, fmt.Errorf("longer than %d bytes", maxLogLine))
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			line = nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if text := strings.TrimRight(string(line), "\r\n"); text != "" {
			h, bad := parseHit(text)
			if bad == nil {
				bad = plausible(h.time, latest)
			}
			if bad != nil {
				l.addBad(n, bad)
			} else if err := l.add(index, &h, fitKey(prefix+key(&h))); err != nil {
				return err
			}
		}
		if err != nil {
			break
		}
	}
	slices.SortStableFunc(l.requests, func(a, b request) int { return a.at.Compare(b.at) })
	return nil
}

// plainLog returns a reader of the log's text: it decompresses gzip and skips a byte order mark.
func plainLog(in io.Reader) (*bufio.Reader, error) {
	r := bufio.NewReaderSize(in, maxLogLine)
	head, _ := r.Peek(6) // a shorter file is not gzip
	for magic, name := range map[string]string{"\x28\xb5\x2f\xfd": "zstd", "BZh": "bzip2", "\xfd7zXZ\x00": "xz", "PK\x03\x04": "zip"} {
		if strings.HasPrefix(string(head), magic) {
			return nil, fmt.Errorf("is compressed with %s; decompress it (only gzip is supported)", name)
		}
	}
	if strings.HasPrefix(string(head), "\x1f\x8b") {
		unpacked, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = bufio.NewReaderSize(unpacked, maxLogLine)
		head, _ = r.Peek(3)
	}
	if strings.HasPrefix(string(head), "\ufeff") {
		if _, err := r.Discard(len("\ufeff")); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// earliest is the first time that plausible accepts. The first web server ran in 1990.
var earliest = time.Date(1990, time.January, 1, 0, 0, 0, 0, time.UTC)

// plausible rejects times before earliest (from a clock that was not set) and after latest. A
// single such line would stretch the whole replay.
func plausible(at, latest time.Time) error {
	switch {
	case at.Before(earliest):
		return fmt.Errorf("time %s: is before 1990; was the clock set?", at.UTC().Format(time.RFC3339))
	case at.After(latest):
		return fmt.Errorf("time %s: is in the future", at.UTC().Format(time.RFC3339))
	}
	return nil
}

func (l *accessLog) add(index map[string]int32, h *hit, key string) error {
	if len(l.requests) == maxLogRequests {
		return fmt.Errorf("more than %d requests; cut the log, as with head or split", maxLogRequests)
	}
	i, ok := index[key]
	if !ok {
		i = int32(len(l.keys))
		key = strings.Clone(key) // do not keep the whole line in memory
		index[key] = i
		l.keys = append(l.keys, key)
	}
	l.requests = append(l.requests, request{h.time, i, l.routeOf(h)})
	return nil
}

func (l *accessLog) routeOf(h *hit) int32 {
	if l.byRoute == nil {
		return 0
	}
	r := route{h.method, h.path}
	i, ok := l.byRoute[r]
	if !ok {
		r = route{strings.Clone(r.method), strings.Clone(r.path)} // do not keep the whole line in memory
		i = int32(len(l.routes))
		l.byRoute[r] = i
		l.routes = append(l.routes, r)
	}
	return i
}

func (l *accessLog) addBad(line int, err error) {
	l.bad++
	if len(l.badShown) < maxBadShown {
		l.badShown = append(l.badShown, fmt.Sprintf("line %d: %v", line, err))
	}
}

// fitKey turns any text into a valid key: not empty, UTF-8, not too long. Different texts give
// different keys.
func fitKey(s string) string {
	if !utf8.ValidString(s) {
		s = strconv.QuoteToASCII(s)
	}
	if len(s) <= quota.MaxKeyLen {
		return s
	}
	h := fnv.New64a()
	io.WriteString(h, s) //nolint:errcheck // a hash never fails
	cut := quota.MaxKeyLen - 20
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s...%016x", s[:cut], h.Sum64())
}

const logTime = "02/Jan/2006:15:04:05 -0700"

// parseHit parses one line of the combined format of Apache and nginx:
//
//	host ident user [time] "request" status bytes "referer" "user agent"
func parseHit(line string) (h hit, err error) {
	p := lineParser{rest: line}
	h.ip = p.word("host")
	p.word("ident")
	h.user = p.word("user")
	at := p.enclosed("time", '[', ']')
	req := p.enclosed("request", '"', '"')
	h.status = p.word("status")
	size := p.word("bytes")
	p.enclosed("referer", '"', '"')
	h.userAgent = p.enclosed("user agent", '"', '"')
	switch {
	case p.err != nil:
		return h, p.err
	case p.rest != "":
		return h, fmt.Errorf("unexpected text after the user agent: %.20q", p.rest)
	case len(h.status) != 3 || !digits(h.status) || h.status[0] < '1' || h.status[0] > '5':
		return h, fmt.Errorf("status %.20q: must be 100 to 599", h.status)
	case size != "-" && !digits(size):
		return h, fmt.Errorf("bytes %.20q: must be a number or -", size)
	}
	if h.time, err = time.Parse(logTime, at); err != nil {
		return h, fmt.Errorf("time %.40q: must be as 17/May/2015:10:05:03 +0000", at)
	}
	h.method, h.path = splitRequest(req)
	return h, nil
}

// splitRequest returns method and path (without query) of a request line. For text that is no
// request line, which servers log for broken clients, it returns "-".
func splitRequest(s string) (method, path string) {
	f := strings.Split(s, " ")
	if len(f) != 3 || f[0] == "" || f[1] == "" || !strings.HasPrefix(f[2], "HTTP/") {
		return "-", "-"
	}
	path, _, _ = strings.Cut(f[1], "?")
	if path == "" {
		path = "/"
	}
	return f[0], path
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// lineParser reads fields from the front of a line, until the first error.
type lineParser struct {
	rest string
	err  error
}

func (p *lineParser) word(name string) string {
	if p.err != nil {
		return ""
	}
	w, rest, _ := strings.Cut(p.rest, " ")
	if w == "" {
		p.err = fmt.Errorf("no %s", name)
	}
	p.rest = rest
	return w
}

// enclosed reads a field between two marks. A backslash escapes the next character, and stays in
// the field.
func (p *lineParser) enclosed(name string, from, to byte) string {
	if p.err != nil {
		return ""
	}
	if p.rest == "" || p.rest[0] != from {
		p.err = fmt.Errorf("no %s in %c%c", name, from, to)
		return ""
	}
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case to:
			field := p.rest[1:i]
			rest := p.rest[i+1:]
			if rest != "" && rest[0] != ' ' {
				p.err = fmt.Errorf("no blank after the %s", name)
			}
			p.rest = strings.TrimPrefix(rest, " ")
			return field
		}
	}
	p.err = fmt.Errorf("%s has no closing %c", name, to)
	return ""
}
