package render

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestYAMLIsPlain checks that JSON and YAML output escape control characters and decode to the same key.
func TestYAMLIsPlain(t *testing.T) {
	const evil = "a\u009b31m\u202eb\x7f"
	message := &quoratev1.KeyRate{Namespace: "web", Limit: "login", Key: evil}
	text := api.FormatJSON(message)
	var b bytes.Buffer
	y := &YAMLOut{To: &b}
	if _, err := y.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
	for form, got := range map[string]string{"JSON": string(text), "YAML": b.String()} {
		var back map[string]any
		if err := yaml.Unmarshal([]byte(got), &back); err != nil || back["key"] != evil || strings.ContainsAny(got, "\u009b\u202e\x7f") {
			t.Errorf("%s: %v, %q: %q", form, err, back["key"], got)
		}
	}
}

func TestYAMLOut(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"object":            {`{"b":1,"a":["x",{"c":null}],"e":{},"l":[]}` + "\n", "b: 1\na:\n    - x\n    - c: null\ne: {}\nl: []\n"},
		"lines":             {"{\"a\":1}\n{\"a\":2}\n", "a: 1\n---\na: 2\n"},
		"pretty":            {"{\n  \"a\": [\n    1\n  ]\n}\n", "a:\n    - 1\n"},
		"words":             {`{"a":"true","b":"1","c":"","d":"a: b","e":"~","f":"0x1","g":"1e3","h":"yesterday"}` + "\n", "a: \"true\"\nb: \"1\"\nc: \"\"\nd: 'a: b'\ne: \"~\"\nf: \"0x1\"\ng: \"1e3\"\nh: yesterday\n"},
		"words of YAML 1.1": {`["yes","Off","y","=","12:30","1_000","017","2026-11-23","203.0.113.7","10/s"]` + "\n", "- \"yes\"\n- \"Off\"\n- \"y\"\n- \"=\"\n- \"12:30\"\n- \"1_000\"\n- \"017\"\n- \"2026-11-23\"\n- \"203.0.113.7\"\n- 10/s\n"},
		"no JSON":           {"nothing here\n", "nothing here\n"},
		"nothing":           {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			y := &YAMLOut{To: &b}
			for _, part := range strings.SplitAfter(c.in, "\n") {
				if _, err := y.Write([]byte(part)); err != nil {
					t.Fatal(err)
				}
			}
			if err := y.Close(); err != nil || b.String() != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, b.String(), c.want)
			}
		})
	}
}

// TestCSVOut: tables alone, keys whole, numbers exact, several tables apart.
func TestCSVOut(t *testing.T) {
	long := strings.Repeat("k", 100) + "\n\"x"
	var b, people bytes.Buffer
	c := &CSVOut{To: &b}
	if _, err := c.Write([]byte("words that are for people\n")); err != nil {
		t.Fatal(err)
	}
	tbl := NewTable("KEY", "NEXT REFILL")
	tbl.Row(Cell(long), "1")
	if err := tbl.Write(c); err != nil {
		t.Fatal(err)
	}
	tbl.Next()
	tbl.Row(Cell("b"), "2")
	if err := tbl.Write(c); err != nil {
		t.Fatal(err)
	}
	second := NewTable("A")
	second.Row("1")
	if err := second.Write(c); err != nil {
		t.Fatal(err)
	}
	want := "key,next_refill\n\"" + strings.Repeat("k", 100) + "\n\"\"x\",1\nb,2\n\na\n1\n"
	if b.String() != want {
		t.Errorf("%q\nwant\n%q", b.String(), want)
	}
	b.Reset()
	tbl = NewTable("KEY", "RATE", Both("-", "removed"), "BY", "NOTE")
	tbl.Row(Cell("a\x00b"), Exact("0.0", .0125), Nothing, OrNothing(""), OrNothing("-"))
	if err := tbl.Write(&CSVOut{To: &b}); err != nil || b.String() != "key,rate,removed,by,note\na\x00b,0.0125,,,-\n" {
		t.Errorf("%v %q", err, b.String())
	}
	b.Reset()
	tbl = NewTable("KEY", "N")
	tbl.Row(Cell("=evil()"), Num(-5))
	if err := tbl.Write(&CSVOut{To: &b}); err != nil || b.String() != "key,n\n'=evil(),-5\n" {
		t.Errorf("%v %q", err, b.String())
	}
	b.Reset()
	if err := tbl.Write(&CSVOut{To: &b, raw: true}); err != nil || b.String() != "key,n\n=evil(),-5\n" {
		t.Errorf("%v %q", err, b.String())
	}
	b.Reset()
	none := NewTable("KEY")
	if err := errors.Join(none.WriteOr(&people, "no keys"), none.WriteOr(&CSVOut{To: &b}, "no keys")); err != nil || people.String() != "no keys\n" || b.String() != "key\n" {
		t.Errorf("%v %q %q", err, people.String(), b.String())
	}
	people.Reset()
	tbl = NewTable("KEY")
	tbl.Row(Cell(long))
	if err := tbl.Write(&people); err != nil || strings.Contains(people.String(), twoForms) || len(people.String()) > 80 {
		t.Errorf("%v %q", err, people.String())
	}
}

func TestBarText(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 0, ""},
		{5, -1, ""},
		{0, 8, "[........................]   0 %  "},
		{4, 8, "[############............]  50 %  "},
		{-1, 8, "[........................]   0 %  "},
		{9, 8, "[########################] 100 %  "},
		{999, 1000, "[#######################.] 100 %  "},
	} {
		if got := BarText(c.done, c.total); got != c.want {
			t.Errorf("%d of %d: %q; want %q", c.done, c.total, got, c.want)
		}
	}
}

// TestProgressIsForTerminals: nothing in a file or a pipe, nor where a line cannot be written
// over; on a terminal a line that is gone in the end.
func TestProgressIsForTerminals(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b)
	p.Bar(1, 2, "x")
	p.End()
	if b.Len() > 0 {
		t.Errorf("in a pipe: %q", b.String())
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine has no terminals:", err)
	}
	defer terminal.Close()
	t.Setenv("TERM", "dumb")
	if p := NewProgress(terminal); p.w != nil {
		t.Error("a terminal that cannot write a line over")
	}
	t.Setenv("TERM", "xterm")
	if p = NewProgress(terminal); p.w == nil {
		t.Fatal("nothing on a terminal")
	}
	p.w, p.last = io.Writer(&b), p.last.Add(-1e9)
	p.Bar(1, 2, "%d of %d groups", 1, 2)
	p.Bar(2, 2, "too soon")
	p.End()
	if want := "\r\x1b[K[############............]  50 %  1 of 2 groups\r\x1b[K"; b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}

func TestPause(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 72 * time.Hour: "72h",
		1500 * time.Millisecond: "1.5s", 10 * time.Minute: "10m", 20 * time.Second: "20s", time.Hour + time.Second: "1h0m1s", 123456: "0s",
	} {
		if got := Pause(durationpb.New(d)); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestTableParts(t *testing.T) {
	tbl := NewTable("KEY", "N", "TEXT")
	tbl.Row("longer", "-", "-")
	tbl.Row("a", "10", "-")
	var b strings.Builder
	if err := tbl.Write(&b); err != nil {
		t.Fatal(err)
	}
	tbl.Next()
	tbl.Row("b", "5", "x")
	if err := tbl.Write(&b); err != nil {
		t.Fatal(err)
	}
	const want = "KEY      N  TEXT\nlonger   -  -\na       10  -\nb        5  x\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}
