package extract

import (
	"net/netip"
	"strings"
)

// lastElement cuts the last element off a Forwarded field. A comma within a quoted string does not
// end an element. It reads from the right, so that nothing further left, such as an unclosed quote
// of the caller, changes what a proxy has written.
func lastElement(line string) (rest, element string) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch c := line[i]; {
		case c == '"' && !(quoted && escaped(line, i)):
			quoted = !quoted
		case c == ',' && !quoted:
			return line[:i], trim(line[i+1:])
		}
	}
	return "", trim(line)
}

// escaped reports whether an odd number of backslashes precedes s[i].
func escaped(s string, i int) bool {
	n := 0
	for n < i && s[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// parseForwarded parses the address in an element: the parameter "for", which must occur once.
func parseForwarded(element string) (a netip.Addr, text string, ok bool) {
	node, found := "", false
	for element != "" {
		name, rest, is := strings.Cut(element, "=")
		if !is {
			return a, "", false
		}
		var value string
		if value, element, is = cutValue(rest); !is {
			return a, "", false
		}
		if !strings.EqualFold(trim(name), "for") {
			continue
		}
		if found {
			return a, "", false
		}
		node, found = value, true
	}
	if !found || strings.Count(node, ":") > 1 && !strings.HasPrefix(node, "[") {
		return a, "", false // IPv6 is in brackets
	}
	return parseIP(node)
}

// cutValue cuts off a token or a quoted string, and the following semicolon.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ";")
		value = trim(value)
		return value, trim(rest), value != "" && !strings.ContainsAny(value, "\" \t")
	}
	var unescaped []byte
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			value = s[1:i]
			if unescaped != nil {
				value = string(unescaped)
			}
			after := trim(s[i+1:])
			if after != "" && after[0] != ';' {
				return "", "", false
			}
			return value, trim(strings.TrimPrefix(after, ";")), true
		case c == '\\':
			if unescaped == nil {
				unescaped = []byte(s[1:i])
			}
			if i++; i < len(s) {
				unescaped = append(unescaped, s[i])
			}
		case unescaped != nil:
			unescaped = append(unescaped, c)
		}
	}
	return "", "", false
}
