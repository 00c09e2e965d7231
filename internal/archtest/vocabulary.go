package archtest

import (
	"slices"
	"strings"
)

// whyHeading opens the part of docs/vocabulary.md that lists the words of
// quota.Why, one table row each, the word first and in backquotes.
const whyHeading = "## Why"

// CheckVocabulary returns what is missing from, or too much in, the Why table
// of the vocabulary.
func CheckVocabulary(doc string, words []string) []Violation {
	listed := whyRows(doc)
	var out []Violation
	add := func(found, instead string) {
		out = append(out, Violation{
			Pos: "docs/vocabulary.md", Found: found,
			Rule:    "the table under \"" + whyHeading + "\" lists every word of quota.Why, once, and no other",
			Why:     "the words are part of the API: users read them in answers, logs and metrics, and look them up there",
			Instead: instead,
		})
	}
	for _, w := range words {
		if !slices.Contains(listed, w) {
			add("the word "+w+" is missing", "add a row that says when a decision carries it")
		}
	}
	for i, w := range listed {
		if !slices.Contains(words, w) {
			add("the word "+w+" is not one of quota.Why", "take the row out, or add the value to internal/quota/message.go")
		}
		if slices.Contains(listed[:i], w) {
			add("the word "+w+" is there twice", "keep one row")
		}
	}
	return out
}

// whyRows returns the words in the first column of the Why table.
func whyRows(doc string) []string {
	var words []string
	inside := false
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			inside = line == whyHeading
			continue
		}
		cell, ok := strings.CutPrefix(line, "| `")
		if !inside || !ok {
			continue
		}
		if word, _, closed := strings.Cut(cell, "`"); closed {
			words = append(words, word)
		}
	}
	return words
}
