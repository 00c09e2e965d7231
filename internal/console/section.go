package console

import (
	"slices"
	"strings"
)

// Names that users cannot choose: the default and the template of a namespace, and the global
// default.
const (
	defaultLimit    = "@default"
	templateLimit   = "@template"
	globalNamespace = "@global"

	accountNamespace = "@accounts" // of account policies, in the history
)

// section is a part of a limit file as the API writes it: one limit, one namespace, or the whole
// file. Editing it leaves the rest unchanged. The API writes each limit in one form, so lines are
// sufficient to find it.
type section struct {
	file        []string
	first, end  int // lines of the file, from 0; end is exclusive
	indent      int
	before      []string // headings to insert if it is new
	beforeCount int
}

// cut finds a part of a file: a limit by namespace and limit, a namespace without a limit, else the
// whole file. A part that does not exist is an empty section at the place where it would be.
func cut(yaml, namespace, limit string) section {
	s := section{file: splitLines(yaml)}
	s.end = len(s.file)
	if namespace == "" {
		return s
	}
	if namespace == globalNamespace {
		return s.child("global_default", 0, s.first+1)
	}
	spaces := s.child("namespaces", 0, s.end)
	if spaces.empty() || strings.HasSuffix(s.file[spaces.first], "{}") {
		s.first, s.end = spaces.first, spaces.end // "namespaces: {}" goes
		s.before, s.indent = []string{"namespaces:"}, 0
		return s.below(namespace, limit)
	}
	in := spaces.child(namespace, 2, spaces.end)
	if in.empty() || limit == "" {
		if limit != "" {
			in.before = append(in.before, "  "+quoteName(namespace)+":", "    limits:")
			in.indent = 6
		}
		return in.counted()
	}
	if limit == defaultLimit || limit == templateLimit {
		return in.child(limit[1:], 4, in.first+1)
	}
	named := in.child("limits", 4, in.end)
	if named.empty() {
		named.before, named.indent = []string{"    limits:"}, 6
		return named.counted()
	}
	return named.child(limit, 6, named.end)
}

// below adds the headings that a new namespace or limit needs in a file without any.
func (s section) below(namespace, limit string) section {
	s.indent = 2
	if limit != "" {
		s.before = append(s.before, "  "+quoteName(namespace)+":", "    limits:")
		s.indent = 6
	}
	return s.counted()
}

func (s section) counted() section {
	s.beforeCount = len(s.before)
	return s
}

func (s section) empty() bool { return s.first == s.end }

// child finds the lines of a field at the indentation. If it does not exist, the section is empty,
// at line otherwise.
func (s section) child(name string, indent, otherwise int) section {
	out := section{file: s.file, indent: indent, first: otherwise, end: otherwise}
	for i := s.first; i < s.end; i++ {
		if key, ok := keyAt(s.file[i], indent); ok && key == name {
			out.first, out.end = i, i+1
			for out.end < s.end && spacesOf(s.file[out.end]) > indent {
				out.end++
			}
			return out
		}
	}
	return out
}

// keyAt returns the name of the field that a line begins, if it has the indentation.
func keyAt(line string, indent int) (string, bool) {
	if spacesOf(line) != indent {
		return "", false
	}
	key, _, ok := strings.Cut(line[indent:], ":")
	return strings.Trim(key, `"`), ok
}

func spacesOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// quoteName writes a name so that YAML reads it as a string.
func quoteName(name string) string {
	c := name[0] | 0x20
	if c < 'a' || c > 'z' || slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(name)) {
		return `"` + name + `"`
	}
	return name
}

// text returns the section without the common indentation.
func (s section) text() string {
	var b strings.Builder
	for _, l := range s.file[s.first:s.end] {
		b.WriteString(l[min(s.indent, spacesOf(l)):])
		b.WriteByte('\n')
	}
	return b.String()
}

// with returns the file with another text in place of the section.
func (s section) with(text string) string {
	out := slices.Clone(s.file[:s.first])
	lines := splitLines(strings.ReplaceAll(text, "\r", ""))
	if strings.TrimSpace(text) != "" {
		out = append(out, s.before...)
	}
	for _, l := range lines {
		if l = strings.TrimRight(l, " "); l != "" {
			l = strings.Repeat(" ", s.indent) + l
		}
		out = append(out, l)
	}
	out = append(out, s.file[s.end:]...)
	return strings.Join(out, "\n") + "\n"
}

// line converts a line number of the file made by with to one of the edited text; false if it is
// elsewhere. Lines count from 1.
func (s section) line(of int, text string) (line int, ok bool) {
	line = of - s.first - s.beforeCount
	return line, line >= 1 && line <= len(splitLines(text))
}
