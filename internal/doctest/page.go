package doctest

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Page is what a Markdown file has of links and of places that links lead to.
type Page struct {
	Name    string          // its path, with slashes, from the root of the repository
	Title   string          // its first heading
	Twice   []string        // headings that are there twice, at one level below the same heading
	Anchors map[string]bool // of its headings
	Links   []Link
}

// Link is one link or image of a page.
type Link struct {
	Line  int
	To    string // as it is written
	Image bool
}

// linksHTML is in HTML that links something.
var linksHTML = regexp.MustCompile(`(?i)<\s*(a|img)\b`)

// Read reads the page of that name.
func Read(fsys fs.FS, name string) (*Page, error) {
	source, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	return Parse(name, source)
}

// Parse reads a page.
func Parse(name string, source []byte) (*Page, error) {
	p := &Page{Name: name, Anchors: map[string]bool{}}
	root := Tree(source)
	var above [7]map[string]bool // the headings of each level since the last of a higher one
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.heading(plain(n, source), n.Level, &above)
		case *ast.Link:
			p.Links = append(p.Links, Link{Line: line(n, source), To: string(n.Destination)})
		case *ast.Image:
			p.Links = append(p.Links, Link{Line: line(n, source), To: string(n.Destination), Image: true})
		case *ast.HTMLBlock, *ast.RawHTML:
			if raw := rawHTML(n, source); linksHTML.MatchString(raw) {
				return ast.WalkStop, fmt.Errorf("%s:%d: %q links something in HTML, which nobody checks: write Markdown", name, line(n, source), raw)
			}
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// Tree is a page as GitHub reads it.
func Tree(source []byte) ast.Node {
	return goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
}

func (p *Page) heading(words string, level int, above *[7]map[string]bool) {
	if p.Title == "" {
		p.Title = words
	}
	if above[level][words] {
		p.Twice = append(p.Twice, words)
	}
	if above[level] == nil {
		above[level] = map[string]bool{}
	}
	above[level][words] = true
	clear(above[level+1:])
	slug := Slug(words)
	for n := 1; p.Anchors[slug]; n++ {
		slug = fmt.Sprintf("%s-%d", Slug(words), n)
	}
	p.Anchors[slug] = true
}

// Slug is the anchor of a heading, as GitHub makes it.
func Slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain is the text of what is in a node.
func plain(n ast.Node, source []byte) string {
	var b bytes.Buffer
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Segment.Value(source))
		case *ast.String:
			b.Write(c.Value)
		default:
			b.WriteString(plain(c, source))
		}
	}
	return b.String()
}

func rawHTML(n ast.Node, source []byte) string {
	if r, ok := n.(*ast.RawHTML); ok {
		return string(r.Segments.Value(source))
	}
	return string(n.Lines().Value(source))
}

// line is the line of the block that a node is in.
func line(n ast.Node, source []byte) int {
	for ; n != nil; n = n.Parent() {
		if n.Type() != ast.TypeInline && n.Lines() != nil && n.Lines().Len() > 0 {
			return 1 + bytes.Count(source[:n.Lines().At(0).Start], []byte("\n"))
		}
	}
	return 1
}

// Target is the file, from the root of the repository, and the anchor that a link of the page
// leads to; ok is false if it leads elsewhere, to the web or to a mailbox.
func (p *Page) Target(l Link) (file, anchor string, ok bool, err error) {
	u, err := url.Parse(l.To)
	if err != nil {
		return "", "", false, err
	}
	if u.Scheme != "" || u.Host != "" {
		return "", "", false, nil
	}
	if strings.HasPrefix(u.Path, "/") {
		return "", "", false, fmt.Errorf("%s begins at the root of a site: write it from here", l.To)
	}
	if u.Path == "" {
		return p.Name, u.Fragment, true, nil
	}
	return path.Join(path.Dir(p.Name), u.Path), u.Fragment, true, nil
}
