package doctest

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// folders are those that have no Go package of their own: what is in them. What is under one
// that ends in /... is not shown by itself.
var folders = map[string]string{
	".github":              "forms for issues and pull requests, and the workflow that runs .ci/run",
	".github/...":          "",
	".ci":                  "what CI runs",
	"api/gen":              "what is generated from api/proto",
	"api/gen/...":          "",
	"api/proto":            "the contract: protos of the API, of the nodes among themselves, of the log, and of others",
	"api/proto/...":        "",
	"bench":                "figures: peers, scale, soaks; a module of its own",
	"bench/cmd":            "its programs",
	"client/internal":      "what the client's packages share",
	"cmd":                  "programs",
	"deploy":               "how it is run: units, images, charts, alerts, dashboards",
	"deploy/compose":       "three nodes with Prometheus and Grafana, in containers",
	"deploy/compose/...":   "",
	"deploy/container":     "the container file",
	"deploy/grafana":       "the dashboard",
	"deploy/helm":          "the chart for Kubernetes",
	"deploy/helm/...":      "",
	"deploy/prometheus":    "rules and alerts, with their tests",
	"deploy/systemd":       "the unit and its user",
	"docs":                 "the documents; README.md is their front page",
	"docs/compat":          "the protocols of others, row by row",
	"docs/howto":           "recipes, whose commands are run by tests",
	"docs/images":          "pictures of the console",
	"docs/performance":     "figures beside those of peers, written by make bench-peers",
	"docs/reference":       "gRPC and HTTP, written from their sources",
	"docs/rfcs":            "why things are as they are, and what else was considered",
	"examples/accounts":    "policies and operations of durable quotas",
	"examples/cluster":     "settings of three nodes",
	"examples/envoy":       "Envoy with its rate limit service",
	"examples/envoy-rlqs":  "Envoy with its quota filter",
	"examples/gateway":     "nginx, Caddy and HAProxy that ask",
	"examples/sim":         "scenarios of the simulator",
	"examples/sim/...":     "",
	"internal":             "what others may not import",
	"internal/console/...": "",
	"tools":                "the pinned tools, and what the site's generator needs",
}

// Folders writes a line for each folder: the first sentence of its Go package, or what folders
// says. Folders of which neither says anything are returned too, and entries of folders that
// there are not.
func Folders(fsys fs.FS) (page string, unsaid, gone []string, err error) {
	left := map[string]bool{}
	for f := range folders {
		left[f] = true
	}
	var b strings.Builder
	b.WriteString("# The tree\n\nEvery folder, in a line: of a Go package, what it says of itself. What may import what: [CONTRIBUTING.md](../CONTRIBUTING.md#the-house); " +
		"how it works together: [ARCHITECTURE.md](ARCHITECTURE.md).\n\n| folder | what is in it |\n|---|---|\n")
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || name == "." {
			return err
		}
		if base := path.Base(name); base == "testdata" || base == "node_modules" || name == "bin" || name == "dist" || name == "site" ||
			strings.HasPrefix(base, ".") && base != ".github" && base != ".ci" {
			return fs.SkipDir
		}
		words, said := folders[name]
		delete(left, name)
		if !said {
			words = synopsis(fsys, name)
		}
		if words == "" {
			unsaid = append(unsaid, name)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, cell(words))
		if _, ok := folders[name+"/..."]; ok {
			delete(left, name+"/...")
			return fs.SkipDir
		}
		return nil
	})
	for f := range left {
		gone = append(gone, f)
	}
	return b.String(), unsaid, gone, err
}

// synopsis is the first sentence of the package in a folder, without its subject.
func synopsis(fsys fs.FS, dir string) string {
	files, err := fs.Glob(fsys, dir+"/*.go")
	if err != nil {
		return ""
	}
	for _, name := range files {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return ""
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil || f.Doc == nil || strings.HasSuffix(name, "_test.go") {
			continue
		}
		words := new(doc.Package).Synopsis(f.Doc.Text())
		for _, begin := range []string{"Package ", "Command "} {
			if rest, ok := strings.CutPrefix(words, begin); ok {
				_, words, _ = strings.Cut(rest, " ")
			}
		}
		return strings.TrimPrefix(strings.TrimSuffix(words, "."), "is ")
	}
	return ""
}
