package archtest

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Check returns every violation in a tree of the module's files.
func Check(fsys fs.FS) ([]Violation, error) {
	h, err := scan(fsys)
	if err != nil {
		return nil, err
	}
	var out []Violation
	for _, dir := range h.dirs() {
		p := h.pkgs[dir]
		rule, ok := ruleFor(dir)
		if !ok {
			out = append(out, noRule(p))
			continue
		}
		for _, f := range p.files {
			out = append(out, checkFile(f, rule, dir)...)
		}
		if rule.Closed {
			out = append(out, h.checkClosure(rule, dir)...)
		}
	}
	slices.SortFunc(out, byPlace)
	return slices.CompactFunc(out, func(a, b Violation) bool { return a == b }), nil
}

func noRule(p *pkg) Violation {
	return Violation{
		Pos:     p.files[0].name,
		Found:   "package " + p.dir + " has no rule",
		Rule:    "every package has an entry in Rules, internal/archtest/rules.go",
		Why:     "a room nobody planned is where imports start to run the wrong way",
		Instead: "put the code into the room whose job it is, or add an entry that says its job and what it may import",
	}
}

func checkFile(f *file, rule Rule, dir string) []Violation {
	var out []Violation
	for _, imp := range f.imports {
		if v, bad := checkEverywhere(f, imp, dir); bad {
			out = append(out, v)
			continue
		}
		if f.test {
			continue
		}
		if v, bad := checkImport(f, imp, rule, dir); bad {
			out = append(out, v)
		}
	}
	if f.test || f.generated || rule.Kind == Generated {
		return out
	}
	return append(out, checkBody(f, rule)...)
}

// checkEverywhere applies the rules that hold for tests as well.
func checkEverywhere(f *file, imp imported, dir string) (Violation, bool) {
	for _, o := range OwnedModules {
		if within(o.Path, imp.path) && !slices.Contains(o.Owners, dir) {
			return Violation{
				Pos:     f.at(imp.line),
				Found:   fmt.Sprintf("%s imports %s", dir, imp.path),
				Rule:    fmt.Sprintf("only %s imports %s, tests included", strings.Join(o.Owners, ", "), o.Path),
				Why:     o.Why,
				Instead: "ask " + o.Owners[0] + " for what you need, through a method in this project's own types",
			}, true
		}
	}
	for _, s := range Strangers {
		if imp.inMod && (dir == s[0] && imp.local == s[1] || dir == s[1] && imp.local == s[0]) {
			return Violation{
				Pos:     f.at(imp.line),
				Found:   fmt.Sprintf("%s imports %s", dir, imp.local),
				Rule:    fmt.Sprintf("%s and %s never import each other, tests included", s[0], s[1]),
				Why:     "they meet only as messages, so that either side can be of another version, slow, or dead",
				Instead: "speak in quota.Report and quota.Grant; a test that needs both sides belongs in internal/sim",
			}, true
		}
	}
	return Violation{}, false
}

// checkImport applies the import table to a production file.
func checkImport(f *file, imp imported, rule Rule, dir string) (Violation, bool) {
	at := func(found, rule, why, instead string) (Violation, bool) {
		return Violation{f.at(imp.line), found, rule, why, instead}, true
	}
	found := fmt.Sprintf("%s imports %s", dir, imp.path)
	switch {
	case imp.inMod:
		return checkModuleImport(f, imp, rule, dir)
	case thirdParty(imp.path):
		if excused(f.name, imp.path) || slices.ContainsFunc(rule.ThirdParty, func(m string) bool {
			return m == anything || within(m, imp.path)
		}) {
			return Violation{}, false
		}
		return at(found, dir+" may import "+list(rule.ThirdParty)+" of third-party modules",
			dir+" "+rule.Job+"; each dependency there is one more thing that can break it",
			"use the standard library, or do it in a package that has the dependency; a new one needs a line in Rules, internal/archtest/rules.go")
	case forTests(imp.path) && rule.Kind != Support && dir != "systemtest":
		return at(found, "production code does not import "+imp.path,
			"it registers flags and links test code into the binary that users run",
			"move the helper into a _test.go file, or into a package of its own whose name ends in test")
	case rule.Kind == Pure && !slices.Contains(pureStd, imp.path) && !excused(f.name, imp.path):
		instead := insteadOf[imp.path]
		if instead == "" {
			instead = "do it in cluster, and hand the result in as an argument"
		}
		return at(found, dir+" is pure: of the standard library it may import "+strings.Join(pureStd, " "), whyPure, instead)
	}
	return Violation{}, false
}

func checkModuleImport(f *file, imp imported, rule Rule, dir string) (Violation, bool) {
	v := Violation{Pos: f.at(imp.line), Found: fmt.Sprintf("%s imports %s", dir, imp.local)}
	if target, ok := ruleFor(imp.local); ok && target.Kind == Support && rule.Kind != Support {
		v.Rule = "only tests import " + imp.local
		v.Why = "it " + target.Job + "; importing it links test code into the binary that users run"
		v.Instead = "import it from a _test.go file, or move what production needs into the package that owns it"
		return v, true
	}
	if coversAny(rule.May, imp.local) {
		return v, false
	}
	v.Rule = dir + " may import " + list(rule.May) + " of this module"
	v.Why = dir + " " + rule.Job + "; imports run one way: quota <- limiter, shard <- leader, aggregator <- cluster <- cmd"
	v.Instead = "declare the small interface that " + dir + " needs and let cmd pass the value in, or move shared words to internal/quota"
	return v, true
}

// checkClosure follows a package's imports through the module.
func (h *house) checkClosure(rule Rule, dir string) []Violation {
	var out []Violation
	seen := map[string]bool{dir: true}
	var visit func(from string, chain []string)
	visit = func(from string, chain []string) {
		p := h.pkgs[from]
		if p == nil {
			return
		}
		for _, f := range p.files {
			for _, imp := range f.imports {
				if f.test || !imp.inMod || seen[imp.local] {
					continue
				}
				seen[imp.local] = true
				next := append(slices.Clone(chain), imp.local)
				if !coversAny(rule.May, imp.local) {
					out = append(out, Violation{
						Pos:     f.at(imp.line),
						Found:   strings.Join(next, " -> "),
						Rule:    fmt.Sprintf("%s and all that it imports stay within %s of this module", dir, list(rule.May)),
						Why:     dir + " " + rule.Job,
						Instead: "cut the chain where it leaves, or copy the few lines that are needed",
					})
				}
				visit(imp.local, next)
			}
		}
	}
	visit(dir, []string{dir})
	return out
}

// forTests reports whether a standard package exists for tests only.
func forTests(importPath string) bool {
	return within("testing", importPath) || importPath == "net/http/httptest"
}

// excused reports whether an exception lets the file import the package.
func excused(name, importPath string) bool {
	return slices.ContainsFunc(Exceptions, func(e Exception) bool {
		return e.File == name && slices.Contains(e.Imports, importPath)
	})
}

// StaleExceptions returns the exceptions that nothing needs any more. A
// package without files has not been written yet and is left alone.
func StaleExceptions(fsys fs.FS) ([]Violation, error) {
	h, err := scan(fsys)
	if err != nil {
		return nil, err
	}
	var out []Violation
	for _, e := range Exceptions {
		dir, _, _ := strings.Cut(e.File, "/")
		p := h.pkgs[dir]
		if p == nil {
			continue
		}
		i := slices.IndexFunc(p.files, func(f *file) bool { return f.name == e.File })
		if i < 0 {
			out = append(out, stale(e, "there is no such file"))
			continue
		}
		for _, want := range e.Imports {
			if !slices.ContainsFunc(p.files[i].imports, func(imp imported) bool { return imp.path == want }) {
				out = append(out, stale(e, "the file does not import "+want))
			}
		}
	}
	return out, nil
}

func stale(e Exception, found string) Violation {
	return Violation{
		Pos: e.File, Found: "exception without need: " + found,
		Rule:    "an exception names a file that is there and imports that it has",
		Why:     "a stale exception excuses the next file of that name from rules that nobody decided to lift",
		Instead: "take the line out of Exceptions, internal/archtest/exceptions.go, or name the file that needs it now",
	}
}

func list(patterns []string) string {
	if len(patterns) == 0 {
		return "nothing"
	}
	return strings.Join(patterns, ", ")
}
