package words

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apijson"
)

// Matching returns at most most filters of methods for a text: the text itself, and the calls whose description
// contains it.
func Matching(text string, most int) []string {
	if text == "" {
		return nil
	}
	out := []string{text}
	for name, words := range calls {
		if strings.Contains(strings.ToLower(words), strings.ToLower(text)) {
			out = append(out, name)
		}
	}
	slices.Sort(out[1:])
	return out[:min(len(out), most)]
}

// donePast has the past tense of the verbs with which descriptions of changes begin. TestSentence
// compares it with api/auth.
var donePast = map[string]string{
	"Activate": "activated", "Change": "changed", "Clear": "cleared", "Delete": "deleted", "Drain": "drained", "End": "ended", "Grant": "granted", "Issue": "issued", "Let": "let", "Load": "loaded", "Read": "read", "Create": "created",
	"Remove": "removed", "Reset": "reset", "Revoke": "revoked", "Roll": "rolled", "Rotate": "rotated", "Set": "set", "Sign": "signed", "Take": "took", "Transfer": "transferred",
	"Use": "used",
}

// Sentence says what the caller of a method has done, or tried to do, and to what if the summary of the request
// has it.
func Sentence(method, what string, done bool) string {
	name, words := Name(method), Call(method)
	if name == "ClusterService/ChangeNode" {
		words = "Change the state of a node"
	}
	f := fieldsOf(what)
	words = cmp.Or(request(name, f), words)
	verb, rest, _ := strings.Cut(words, " ")
	past := donePast[verb]
	switch {
	case done && f["dry_run"] == "true":
		return "would have " + past + " " + rest + " (dry run)"
	case done && past != "":
		return past + " " + rest
	case done:
		return "called " + name
	case words == name: // it has no description
		return "tried to call " + name
	}
	return "tried to " + strings.ToLower(verb) + " " + rest
}

// Rest returns what the sentence of a call leaves out and readers want: the comment, or the whole request if the
// sentence names nothing of it.
func Rest(method, what string) string {
	f := fieldsOf(what)
	if request(Name(method), f) == "" {
		return Details(what)
	}
	return f["comment"]
}

// listLength matches the number of items before a list in a summary.
var listLength = regexp.MustCompile(`^\(\d+\)\[`)

// Details formats the summary of a request or an answer for people: name: value, name: value.
func Details(summary string) string {
	summary = apijson.PlainEnums(summary)
	var b strings.Builder
	quoted, escaped := false, false
	depth, skip := 0, 0 // parentheses that are open, and the end of what is left out
	for i, c := range summary {
		if i < skip {
			continue
		}
		if n := len(listLength.FindString(summary[i:])); n > 0 && !quoted {
			b.WriteByte('[')
			skip = i + n
			continue
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && c == '=':
			b.WriteString(": ")
			continue
		case !quoted && c == '(':
			depth++
		case !quoted && c == ')':
			depth--
		case !quoted && c == ' ' && depth == 0 && !strings.HasSuffix(summary[:i], ","):
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
