package doctest

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

// TestLinks: what the pages link is there: the file, and the heading in it.
func TestLinks(t *testing.T) {
	fsys := os.DirFS(root)
	links, images, outside := 0, 0, 0
	for _, p := range pages(t, fsys) {
		for _, l := range p.Links {
			file, anchor, ok, err := p.Target(l)
			if err != nil {
				t.Errorf("%s:%d: %v", p.Name, l.Line, err)
			}
			if !ok {
				outside++
				continue
			}
			links++
			if l.Image {
				images++
			}
			leads(t, fsys, p, l, file, anchor)
		}
	}
	if links < 300 || images < 15 {
		t.Errorf("%d links and %d images were seen; there are more", links, images)
	}
	t.Logf("%d links, %d of them images; %d lead elsewhere and are not followed", links, images, outside)
}

// leads reports a link to a file or a heading that is not there.
func leads(t *testing.T, fsys fs.FS, p *Page, l Link, file, anchor string) {
	t.Helper()
	info, err := fs.Stat(fsys, file)
	if err != nil {
		t.Errorf("%s:%d: %s: there is no file %s", p.Name, l.Line, l.To, file)
		return
	}
	switch {
	case anchor == "":
	case info.IsDir():
		t.Errorf("%s:%d: %s: %s is a folder, which has no headings", p.Name, l.Line, l.To, file)
	case strings.HasSuffix(file, ".md"):
		there, err := Read(fsys, file)
		if err != nil {
			t.Fatal(err)
		}
		if !there.Anchors[anchor] {
			t.Errorf("%s:%d: %s: no heading of %s has the anchor %q", p.Name, l.Line, l.To, file, anchor)
		}
	default:
		t.Errorf("%s:%d: %s: only pages have headings, and the lines of %s move", p.Name, l.Line, l.To, file)
	}
}

// TestHeadings: every page has a title, and no part of a page is there twice, as after a merge
// that kept both sides.
func TestHeadings(t *testing.T) {
	for _, p := range pages(t, os.DirFS(root)) {
		if p.Title == "" && !strings.HasPrefix(p.Name, ".github/") {
			t.Errorf("%s has no heading", p.Name)
		}
		for _, h := range p.Twice {
			t.Errorf("%s: the heading %q is there twice: is its text?", p.Name, h)
		}
	}
}

// TestReached: who begins at the README comes to every page of docs, and to every figure.
func TestReached(t *testing.T) {
	fsys := os.DirFS(root)
	all := map[string]*Page{}
	linked := map[string]bool{}
	for _, p := range pages(t, fsys) {
		all[p.Name] = p
	}
	queue := []string{"README.md"}
	for len(queue) > 0 {
		p := all[queue[0]]
		queue = queue[1:]
		for _, l := range p.Links {
			file, _, ok, _ := p.Target(l)
			if !ok || linked[file] {
				continue
			}
			linked[file] = true
			if all[file] != nil {
				queue = append(queue, file)
			}
		}
	}
	err := fs.WalkDir(fsys, "docs", func(name string, d fs.DirEntry, err error) error {
		switch path.Ext(name) {
		case ".md", ".png", ".svg":
			if !linked[name] {
				t.Errorf("no page that one comes to from README.md links %s", name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pages reads all Markdown files, but those of hidden folders, of test data, and of what others made.
func pages(t *testing.T, fsys fs.FS) (out []*Page) {
	t.Helper()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch base := path.Base(name); {
			case base == "testdata", base == "node_modules", base == "dist", base == "site", base == "bin",
				strings.HasPrefix(base, ".") && base != "." && base != ".github":
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		p, err := Read(fsys, name)
		if err != nil {
			t.Error(err)
		}
		out = append(out, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 55 {
		t.Errorf("%d pages were seen; there are more", len(out))
	}
	return out
}

// TestSlug: anchors as GitHub makes them.
func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{
		"Which one?":                     "which-one",
		"3. Why `hard` is exact":         "3-why-hard-is-exact",
		"a, b & c":                       "a-b--c",
		"`when_cut_off: share` – a part": "when_cut_off-share--a-part",
		"Größe":                          "größe",
	} {
		source := []byte("# " + heading + "\n\n## Twice\n\n## Twice\n")
		p, err := Parse("x.md", source)
		if err != nil || !p.Anchors[want] || !p.Anchors["twice-1"] || len(p.Twice) != 1 {
			t.Errorf("%q has the anchors %v, %v, and twice %v; want %q", heading, p.Anchors, err, p.Twice, want)
		}
	}
}

// TestLeads: what the check of links is for, it finds.
func TestLeads(t *testing.T) {
	for text, want := range map[string]string{
		"[a](b.md)":                  "b.md",
		"# x\n\n- [a](../c.md#d)\n":  "../c.md#d",
		"| a |\n|---|\n| [b](c#d) |": "c#d",
		"![a](b.png)":                "b.png",
		"[a]\n\n[a]: b.md\n":         "b.md",
		"`[a](no.md)` and [b](c.md)": "c.md",
		"see <https://example.org/>": "",
	} {
		p, err := Parse("docs/x/y.md", []byte(text))
		got := ""
		for _, l := range p.Links {
			got += l.To
		}
		if err != nil || got != want {
			t.Errorf("%q has the links %q, %v; want %q", text, got, err, want)
		}
	}
	if _, err := Parse("x.md", []byte("a <a href=\"b\">c</a>")); err == nil {
		t.Error("HTML was passed over")
	}
	p := &Page{Name: "docs/x/y.md"}
	for to, want := range map[string]string{"../c.md#d": "docs/c.md d true", "#e": "docs/x/y.md e true", "https://a.b/c": "  false", "mailto:a@b.c": "  false", "../../README.md": "README.md  true"} {
		file, anchor, ok, err := p.Target(Link{To: to})
		if got := file + " " + anchor + " " + strconv.FormatBool(ok); err != nil || got != want {
			t.Errorf("%s leads to %q, %v; want %q", to, got, err, want)
		}
	}
}

// TestExamplesListed: examples/README.md has a row for everything in examples, and links it.
func TestExamplesListed(t *testing.T) {
	p, err := Read(os.DirFS(root), "examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{}
	for _, l := range p.Links {
		linked[l.To] = true
	}
	entries, err := os.ReadDir(root + "/examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); !linked[name] && !strings.HasPrefix(name, ".") && name != "README.md" && path.Ext(name) != ".go" {
			t.Errorf("examples/README.md does not have %s", name)
		}
	}
}
