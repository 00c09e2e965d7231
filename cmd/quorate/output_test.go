package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// noForm are the commands whose output has no form to choose, and why.
var noForm = map[string]string{
	"quorate dev":             "runs",
	"quorate serve":           "runs",
	"quorate top":             "is a screen",
	"quorate init":            "says what to do next",
	"quorate sim":             "has --json and --table, one line for each scenario and algorithm",
	"quorate convert":         "-o names the file that it writes",
	"quorate backup":          "-o names the file that it writes",
	"quorate restore":         "says how far it is",
	"quorate cert issue":      "writes files",
	"quorate cluster leave":   "says what came of it",
	"quorate help exit-codes": "is a page of the manual",
}

// TestEveryCommandHasForms walks all commands: what prints something prints it as JSON and YAML
// too, and a table as CSV.
func TestEveryCommandHasForms(t *testing.T) {
	used := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		path := c.CommandPath()
		if !c.Runnable() || c.HasSubCommands() && path != "quorate backup" || strings.HasPrefix(path, "quorate completion") || strings.HasPrefix(path, "quorate help") {
			return
		}
		f := c.Flags().Lookup("output")
		if _, ok := noForm[path]; ok {
			used[path] = true
			return
		}
		if f == nil {
			t.Errorf("%s has no -o: use outputFlag, or say in noForm why not", path)
			return
		}
		_, list, _ := strings.Cut(f.Usage, ": ")
		forms := strings.Split(list, ", ")
		for _, want := range []string{formJSON, formYAML} {
			if !slices.Contains(forms, want) {
				t.Errorf("%s -o has the forms %v; want %s", path, forms, want)
			}
		}
		if slices.Contains(forms, formTable) != slices.Contains(forms, formCSV) {
			t.Errorf("%s -o has the forms %v; a table is CSV too", path, forms)
		}
		if lists := []string{"list", "get", "history", "status", "plan", "rates", "verify"}; slices.Contains(lists, c.Name()) && path != "quorate ca status" && c.Flags().Lookup("output").DefValue != formTable {
			t.Errorf("%s lists, and prints no table", path)
		}
	}
	root := newRootCommand()
	walk(root)
	for path, why := range noForm {
		if !used[path] && path != "quorate help exit-codes" {
			t.Errorf("%s (%s) is no such command any more", path, why)
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
			y := &yamlOut{to: &b}
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
	c := &csvOut{to: &b}
	if _, err := c.Write([]byte("words that are for people\n")); err != nil {
		t.Fatal(err)
	}
	tbl := newTable("KEY", "NEXT REFILL")
	tbl.row(cell(long), "1")
	if err := tbl.write(c); err != nil {
		t.Fatal(err)
	}
	tbl.next()
	tbl.row(cell("b"), "2")
	if err := tbl.write(c); err != nil {
		t.Fatal(err)
	}
	second := newTable("A")
	second.row("1")
	if err := second.write(c); err != nil {
		t.Fatal(err)
	}
	want := "key,next_refill\n\"" + strings.Repeat("k", 100) + "\n\"\"x\",1\nb,2\n\na\n1\n"
	if b.String() != want {
		t.Errorf("%q\nwant\n%q", b.String(), want)
	}
	b.Reset()
	tbl = newTable("KEY", "RATE", both("-", "removed"), "BY", "NOTE")
	tbl.row(cell("a\x00b"), exact("0.0", .0125), nothing, orNothing(""), orNothing("-"))
	if err := tbl.write(&csvOut{to: &b}); err != nil || b.String() != "key,rate,removed,by,note\na\x00b,0.0125,,,-\n" {
		t.Errorf("%v %q", err, b.String())
	}
	b.Reset()
	tbl = newTable("KEY", "N")
	tbl.row(cell("=evil()"), num(-5))
	if err := tbl.write(&csvOut{to: &b}); err != nil || b.String() != "key,n\n'=evil(),-5\n" {
		t.Errorf("%v %q", err, b.String())
	}
	b.Reset()
	if err := tbl.write(&csvOut{to: &b, raw: true}); err != nil || b.String() != "key,n\n=evil(),-5\n" {
		t.Errorf("%v %q", err, b.String())
	}
	b.Reset()
	none := newTable("KEY")
	if err := errors.Join(none.writeOr(&people, "no keys"), none.writeOr(&csvOut{to: &b}, "no keys")); err != nil || people.String() != "no keys\n" || b.String() != "key\n" {
		t.Errorf("%v %q %q", err, people.String(), b.String())
	}
	people.Reset()
	tbl = newTable("KEY")
	tbl.row(cell(long))
	if err := tbl.write(&people); err != nil || strings.Contains(people.String(), twoForms) || len(people.String()) > 80 {
		t.Errorf("%v %q", err, people.String())
	}
}
