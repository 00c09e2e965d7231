package load

import (
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/quota"
)

const goodLine = `203.0.113.7 - alice [17/May/2015:10:05:03 +0200] "GET /a/b?c=d HTTP/1.1" 200 203023 "http://x/" "Mozilla \"5\" (X)"`

func TestParseHit(t *testing.T) {
	h, err := parseHit(goodLine)
	if err != nil {
		t.Fatal(err)
	}
	want := hit{
		time: time.Date(2015, 5, 17, 8, 5, 3, 0, time.UTC), ip: "203.0.113.7", user: "alice", method: "GET", path: "/a/b",
		status: "200", userAgent: `Mozilla \"5\" (X)`,
	}
	if !h.time.Equal(want.time) {
		t.Errorf("time %v, want %v", h.time, want.time)
	}
	h.time = want.time
	if h != want {
		t.Errorf("got  %+v\nwant %+v", h, want)
	}
	for _, c := range []struct{ old, new, err string }{
		{"203.0.113.7 ", " ", "no host"},
		{"17/May", "17/Mai", "time"},
		{"+0200", "", "time"},
		{"[17", "17", "no time in []"},
		{`"GET /a/b?c=d HTTP/1.1" `, "", "no request"},
		{" 200 ", " 2000 ", "status"},
		{" 200 ", " 700 ", "status"},
		{" 200 ", " abc ", "status"},
		{"203023", "-1", "bytes"},
		{`"http://x/" `, "", "no user agent"},
		{`(X)"`, `(X)`, "no closing"},
		{`(X)"`, `(X)" more`, "unexpected text after the user agent"},
		{`(X)"`, `(X)"more`, "no blank after the user agent"},
		{` "http://x/"`, ` "http://x/""x"`, "no blank after the referer"},
	} {
		line := strings.Replace(goodLine, c.old, c.new, 1)
		if _, err := parseHit(line); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s\n got %v, want an error with %q", line, err, c.err)
		}
	}
	for request, want := range map[string]string{"-": "-", "": "-", "GET / HTTP/1.0": "/", "GET  HTTP/1.0": "-", `\x16\x03\x01`: "-", "GET ?q HTTP/1.1": "/", "GET /a b HTTP/1.1": "-"} {
		if _, path := splitRequest(request); path != want {
			t.Errorf("%q: path %q, want %q", request, path, want)
		}
	}
}

func TestReadLog(t *testing.T) {
	line := func(ip, second string) string {
		return strings.NewReplacer("203.0.113.7", ip, ":03 ", ":"+second+" ").Replace(goodLine)
	}
	in := strings.Join([]string{line("b", "09"), "", line("a", "05"), "bad", strings.Repeat("x", 3*maxLogLine), line("c", "05") + "\r", line("b", "01")}, "\n")
	log := &accessLog{}
	if err := log.read(strings.NewReader(in), keyOf["ip"], "p-"); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, r := range log.requests {
		order = append(order, log.keys[r.key])
	}
	if got := strings.Join(order, " "); got != "p-b p-a p-c p-b" {
		t.Errorf("order %s: must be by time, and as in the log within a second", got)
	}
	if log.bad != 2 || len(log.badShown) != 2 || !strings.HasPrefix(log.badShown[1], "line 5: longer than") {
		t.Errorf("bad lines: %d %q", log.bad, log.badShown)
	}
}

// TestExampleLog checks that a replay can read the log in the repository.
func TestExampleLog(t *testing.T) {
	f, err := os.Open("../../../examples/access.log")
	if os.IsNotExist(err) {
		t.Skip("no example log")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log := &accessLog{byRoute: map[route]int32{}}
	err = log.read(f, keyOf["ip"], "")
	if err != nil || len(log.requests) < 1000 || log.bad*100 > len(log.requests) || len(log.routes) < 10 {
		t.Errorf("%d requests, %d bad lines %q, %v", len(log.requests), log.bad, log.badShown, err)
	}
}

func TestFitKey(t *testing.T) {
	long := strings.Repeat("ä", quota.MaxKeyLen)
	seen := map[string]string{}
	for _, s := range []string{"a", "\xff", "\xfe", long, long + "x", "a" + long} {
		k := fitKey(s)
		if len(k) == 0 || len(k) > quota.MaxKeyLen || !utf8.ValidString(k) {
			t.Errorf("%.20q: %d bytes, UTF-8 %v", s, len(k), utf8.ValidString(k))
		}
		if was, ok := seen[k]; ok {
			t.Errorf("%.20q and %.20q have the same key", was, s)
		}
		seen[k] = s
	}
}

// FuzzParseHit checks that an accepted line can be rebuilt from its parts, and that every key made
// from it is valid.
func FuzzParseHit(f *testing.F) {
	f.Add(goodLine)
	f.Add(`::1 - - [17/May/2015:10:05:03 +0000] "-" 408 - "-" "-"`)
	f.Add(`a b c [x] "\" 200 - "-" "-"`)
	f.Add(`a b c [17/May/2015:10:05:03 +0000] "\"" 200 - "\\" "\`)
	f.Fuzz(func(t *testing.T, line string) {
		h, err := parseHit(line)
		if err != nil {
			if s := err.Error(); s == "" || len(s) > 300 {
				t.Errorf("%q: error %q", line, s)
			}
			return
		}
		if h.ip == "" || h.time.IsZero() || !strings.HasPrefix(line, h.ip+" ") || !strings.HasSuffix(line, `"`+h.userAgent+`"`) && !strings.HasSuffix(line, `"`+h.userAgent+`" `) {
			t.Errorf("%q: %+v", line, h)
		}
		for name, key := range keyOf {
			if k := fitKey("p-" + key(&h)); len(k) > quota.MaxKeyLen || !utf8.ValidString(k) {
				t.Errorf("%s of %q is no key: %q", name, line, k)
			}
		}
	})
}
