package doctest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"go.yaml.in/yaml/v4"
	"golang.org/x/net/html"
)

// TestNav: the site's navigation has every page of docs, once.
func TestNav(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var conf struct{ Nav any }
	if err := yaml.Unmarshal(text, &conf); err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, p := range pages(t, os.DirFS(root)) {
		if name, ok := strings.CutPrefix(p.Name, "docs/"); ok {
			left[name] = true
		}
	}
	for _, name := range leaves(conf.Nav) {
		if !left[name] {
			t.Errorf("mkdocs.yml: nav has %s, which is not in docs, or twice", name)
		}
		delete(left, name)
	}
	for name := range left {
		t.Errorf("mkdocs.yml: nav does not have %s", name)
	}
}

// leaves are the strings in a tree of lists and maps.
func leaves(tree any) (out []string) {
	switch tree := tree.(type) {
	case string:
		return []string{tree}
	case []any:
		for _, t := range tree {
			out = append(out, leaves(t)...)
		}
	case map[string]any:
		for _, t := range tree {
			out = append(out, leaves(t)...)
		}
	}
	return out
}

// shown are the elements that the site's generator and GitHub could read differently: what is
// no list for one of them, a table that is only text.
var shown = []string{"h1", "h2", "h3", "h4", "table", "tr", "li", "pre", "img"}

// TestSite: the generator builds the site without a warning; every page shows as many tables,
// lists, blocks and figures as on GitHub; and every link in it leads to a file and an anchor.
func TestSite(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the site; left out by -short")
	}
	if _, err := exec.LookPath("mkdocs"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("needs mkdocs and its theme: install mkdocs-material")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "mkdocs", "build", "--strict", "--site-dir", dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("WARNING")) {
		t.Fatalf("%v\n%s", err, out)
	}
	site := map[string]*sitePage{}
	for _, p := range pages(t, os.DirFS(root)) {
		name, ok := strings.CutPrefix(p.Name, "docs/")
		if !ok {
			continue
		}
		name = strings.TrimSuffix(name, ".md") + ".html"
		if path.Base(name) == "README.html" {
			name = path.Join(path.Dir(name), "index.html")
		}
		site[name] = readSite(t, filepath.Join(dir, name))
		if got, want := site[name].counts, onGitHub(t, p.Name).counts; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the site has %v, GitHub %v", p.Name, got, want)
		}
	}
	links := 0
	for name, p := range site {
		links += len(p.links)
		here := &Page{Name: name}
		for _, to := range p.links {
			file, anchor, ok, err := here.Target(Link{To: to})
			if err != nil || !ok {
				continue
			}
			there := site[file]
			if _, err := fs.Stat(os.DirFS(dir), file); err != nil || there != nil && anchor != "" && !there.anchors[anchor] {
				t.Errorf("%s: %s leads nowhere (%v)", name, to, err)
			}
		}
	}
	if links < 1500 {
		t.Errorf("%d links were seen; there are more", links)
	}
	t.Logf("%d pages, %d links", len(site), links)
}

// sitePage is what a page of HTML has.
type sitePage struct {
	counts  map[string]int
	links   []string
	anchors map[string]bool
}

func readSite(t *testing.T, name string) *sitePage {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := html.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	p := &sitePage{counts: map[string]int{}, anchors: map[string]bool{}}
	for n := range doc.Descendants() {
		if n.Data == "article" && n.Type == html.ElementNode {
			p.read(n)
			return p
		}
	}
	t.Fatalf("%s has no article", name)
	return nil
}

func onGitHub(t *testing.T, name string) *sitePage {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM)).Convert(source, &b); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	p := &sitePage{counts: map[string]int{}, anchors: map[string]bool{}}
	p.read(doc)
	return p
}

func (p *sitePage) read(top *html.Node) {
	for n := range top.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, s := range shown {
			if n.Data == s {
				p.counts[s]++
			}
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				p.anchors[a.Val] = true
			case "href", "src":
				p.links = append(p.links, a.Val)
			}
		}
	}
}
