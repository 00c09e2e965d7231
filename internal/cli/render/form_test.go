package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestYAMLIsPlain checks that JSON and YAML output escape control characters and decode to the same key.
func TestYAMLIsPlain(t *testing.T) {
	const evil = "a\u009b31m\u202eb\x7f"
	for _, format := range []string{FormatJSON, FormatYAML} {
		var b bytes.Buffer
		if err := NewPrinter(format, false, &b).Print(&quoratev1.KeyRate{Namespace: "web", Limit: "login", Key: evil}, nil); err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := yaml.Unmarshal(b.Bytes(), &back); err != nil || back["key"] != evil || strings.ContainsAny(b.String(), "\u009b\u202e\x7f") {
			t.Errorf("%s: %v, %q: %q", format, err, back["key"], b.String())
		}
	}
}

// TestYAMLOfOtherBreaks checks that YAML output escapes the characters that break lines in YAML 1.1 alone, so that
// readers of both versions get the same text.
func TestYAMLOfOtherBreaks(t *testing.T) {
	for _, text := range []string{"a\u2028b", "a\u2029 b", "a\u0085b"} {
		var b bytes.Buffer
		if err := NewPrinter(FormatYAML, false, &b).Print(map[string]string{"key": text}, nil); err != nil {
			t.Fatal(err)
		}
		var back map[string]string
		if err := yaml.Unmarshal(b.Bytes(), &back); err != nil || back["key"] != text || strings.ContainsAny(b.String(), breaks11) {
			t.Errorf("%q: %v, %q: %q", text, err, back["key"], b.String())
		}
	}
}

func TestYAML(t *testing.T) {
	for name, c := range map[string]struct {
		in   []string
		want string
	}{
		"object":            {[]string{`{"b":1,"a":["x",{"c":null}],"e":{},"l":[]}`}, "b: 1\na:\n    - x\n    - c: null\ne: {}\nl: []\n"},
		"several":           {[]string{`{"a":1}`, `{"a":2}`}, "a: 1\n---\na: 2\n"},
		"pretty":            {[]string{"{\n  \"a\": [\n    1\n  ]\n}"}, "a:\n    - 1\n"},
		"words":             {[]string{`{"a":"true","b":"1","c":"","d":"a: b","e":"~","f":"0x1","g":"1e3","h":"yesterday"}`}, "a: \"true\"\nb: \"1\"\nc: \"\"\nd: 'a: b'\ne: \"~\"\nf: \"0x1\"\ng: \"1e3\"\nh: yesterday\n"},
		"words of YAML 1.1": {[]string{`["yes","Off","y","=","12:30","1_000","017","2026-11-23","203.0.113.7","10/s"]`}, "- \"yes\"\n- \"Off\"\n- \"y\"\n- \"=\"\n- \"12:30\"\n- \"1_000\"\n- \"017\"\n- \"2026-11-23\"\n- \"203.0.113.7\"\n- 10/s\n"},
		"no JSON":           {[]string{"nothing here"}, "nothing here\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			y := NewPrinter(FormatYAML, false, &b)
			for _, value := range c.in {
				if err := y.Print(json.RawMessage(value), nil); err != nil {
					t.Fatal(err)
				}
			}
			if b.String() != c.want {
				t.Errorf("%s\nwant\n%s", b.String(), c.want)
			}
		})
	}
}

// TestCSV checks that CSV has only tables, with whole keys and exact numbers, and separates several
// tables.
func TestCSV(t *testing.T) {
	long := strings.Repeat("k", 100) + "\n\"x"
	named := func(title string, cells ...any) *Table {
		tbl := NewTable("KEY", "RATE", title, "BY", "NOTE")
		tbl.CSVTitle(title, "removed")
		tbl.Row(cells...)
		return tbl
	}
	formula := func() *Table {
		tbl := NewTable("KEY", "N")
		tbl.Row(Name("=evil()"), -5)
		return tbl
	}
	for name, c := range map[string]struct {
		raw  bool
		page func(*Page)
		want string
	}{
		"two tables": {false, func(p *Page) {
			fmt.Fprintln(p, "words that are for people")
			first, second := NewTable("KEY", "NEXT REFILL"), NewTable("A")
			first.Row(Name(long), "1")
			second.Row("1")
			p.Table(first)
			p.Table(second)
		}, "key,next_refill\n\"" + strings.Repeat("k", 100) + "\n\"\"x\",1\n\na\n1\n"},
		"two forms": {false, func(p *Page) {
			p.Table(named("-", Name("a\x00b"), Exact("0.0", .0125), Nothing, NameOrNothing(""), NameOrNothing("-")))
		}, "key,rate,removed,by,note\na\x00b,0.0125,,,-\n"},
		"a formula":  {false, func(p *Page) { p.Table(formula()) }, "key,n\n'=evil(),-5\n"},
		"raw":        {true, func(p *Page) { p.Table(formula()) }, "key,n\n=evil(),-5\n"},
		"no rows":    {false, func(p *Page) { p.TableOr(NewTable("KEY"), "no keys") }, "key\n"},
		"text alone": {false, func(p *Page) { fmt.Fprintln(p, "nothing") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := NewPrinter(FormatCSV, c.raw, &b).Print(nil, c.page); err != nil || b.String() != c.want {
				t.Errorf("%v: %q\nwant\n%q", err, b.String(), c.want)
			}
		})
	}
	var people bytes.Buffer
	err := WritePage(&people, func(p *Page) {
		p.TableOr(NewTable("KEY"), "no keys")
		p.TableOr(NewTable("KEY"), "")
		tbl := NewTable("KEY", "MORE")
		tbl.OnlyCSV("MORE")
		tbl.Row(Name(long), "m")
		p.Table(tbl)
	})
	if want := "no keys\nKEY\n\"" + strings.Repeat("k", 60) + "...\n"; err != nil || people.String() != want {
		t.Errorf("%v %q; want %q", err, people.String(), want)
	}
}

// TestList checks that a list that arrives in parts is one answer in every format.
func TestList(t *testing.T) {
	for format, want := range map[string]string{
		FormatTable: "KEY      N  TEXT\nlonger   -  -\na       10  -\nb        5  x\n",
		FormatCSV:   "key,n,text\nlonger,,\na,10,\nb,5,x\n",
		FormatJSON:  `{"keys":[{"namespace":"","limit":"longer"},{"namespace":"","limit":"a"},{"namespace":"","limit":"b"}],"total":3}` + "\n",
		FormatYAML:  "keys:\n    - namespace: \"\"\n      limit: longer\n    - namespace: \"\"\n      limit: a\n    - namespace: \"\"\n      limit: b\ntotal: 3\n",
	} {
		t.Run(format, func(t *testing.T) {
			var b bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetOut(&b)
			tbl := NewTable("KEY", "N", "TEXT")
			list := (&Output{Format: format}).List(cmd, "keys", "no keys", tbl)
			tbl.Row("longer", Nothing, Nothing)
			tbl.Row("a", 10, Nothing)
			first := list.Add([]proto.Message{&quoratev1.LimitRef{Limit: "longer"}, &quoratev1.LimitRef{Limit: "a"}})
			tbl.Row("b", 5, "x")
			second := list.Add([]proto.Message{&quoratev1.LimitRef{Limit: "b"}})
			if err := errors.Join(first, second, list.End(`"total":3`)); err != nil {
				t.Fatal(err)
			}
			if b.String() != want {
				t.Errorf("got\n%s\nwant\n%s", b.String(), want)
			}
		})
	}
}

// TestNamesThatLookLikeNumbers checks that only a column of numbers is aligned to the right: an id
// such as 216099293197 or 1e5 is a text.
func TestNamesThatLookLikeNumbers(t *testing.T) {
	tbl := NewTable("KEY OF TENANT", "COUNT", "SHA-256")
	tbl.Row(Name("1e5"), 5, Cell{Human: "123456789012", Text: true})
	tbl.Row(Name("42"), Exact("12%", .123), Nothing)
	var b strings.Builder
	if err := tbl.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "KEY OF TENANT  COUNT  SHA-256\n1e5                5  123456789012\n42               12%  -\n"; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestCSVOfData checks that CSV of an answer without tables is a row of its data, and that answers with the same
// fields share their titles.
func TestCSVOfData(t *testing.T) {
	var b bytes.Buffer
	p := NewPrinter(FormatCSV, false, &b)
	for _, value := range []string{
		`{"allowed":true,"limit":{"name":"=a","rate":"10/s"},"wait":null,"empty":{},"nodes":["n1", "n2"]}`, `{"allowed":false,"limit":{"name":"b","rate":"5/s"},"wait":1.50,"empty":{},"nodes":[]}`, `{"used":12}`, `"a\nb"`, `[{"file":"a","valid":true},{"file":"b","valid":false}]`, `[]`,
	} {
		if err := p.Print(json.RawMessage(value), func(p *Page) { fmt.Fprintln(p, "for people") }); err != nil {
			t.Fatal(err)
		}
	}
	want := "allowed,limit.name,limit.rate,wait,nodes\ntrue,'=a,10/s,,\"[\"\"n1\"\",\"\"n2\"\"]\"\nfalse,b,5/s,1.50,[]\n\nused\n12\n\nvalue\n\"a\nb\"\n\nfile,valid\na,true\nb,false\n"
	if b.String() != want {
		t.Errorf("%q\nwant\n%q", b.String(), want)
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

// TestProgressIsForTerminals checks that progress is not shown in a file or a pipe, nor on a
// terminal that cannot overwrite a line, and that elsewhere it is cleared at the end.
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

// TestRecord checks that people read an entry of a stream as a line, and programs as a row of CSV with one line of
// titles for all of them.
func TestRecord(t *testing.T) {
	for format, want := range map[string]string{
		FormatText: "a was refused\nb =1+1 was refused\n",
		FormatCSV:  "key,cost\na,1\n'=1+1,2\n",
	} {
		var b bytes.Buffer
		p, table := NewPrinter(format, false, &b), NewTable("KEY", "COST")
		for i, key := range []string{"a", "=1+1"} {
			line := []string{"a was refused", "b =1+1 was refused"}[i]
			if err := p.Print(nil, func(page *Page) { page.Record(table, line, Name(key), i+1) }); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.String(); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}
