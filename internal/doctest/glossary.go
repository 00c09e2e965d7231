package doctest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Word is a row of docs/vocabulary.md.
type Word struct {
	Words   []string // what is said
	Meaning string
	Not     []string // what is not said for it, or is kept for something else
}

// kept is what a word that is not said here is kept for, in brackets behind it.
var kept = regexp.MustCompile(` *\([^)]*\)`)

// Vocabulary reads the tables of docs/vocabulary.md; those of two columns have no words that are
// not said.
func Vocabulary(page string) []Word {
	var out []Word
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || len(cells) < 2 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| word ") {
			continue
		}
		w := Word{Words: strings.Split(strings.Trim(cells[0], " "), ", "), Meaning: strings.TrimSpace(cells[1])}
		if len(cells) > 2 {
			for not := range strings.SplitSeq(kept.ReplaceAllString(cells[2], ""), ", ") {
				if not = strings.TrimSpace(not); not != "" {
					w.Not = append(w.Not, not)
				}
			}
		}
		out = append(out, w)
	}
	return out
}

// Glossary writes the words by the alphabet, and with them those that are not said, which lead
// to those that are.
func Glossary(words []Word) string {
	var rows [][2]string // a word, in lower case and without marks, and its row
	row := func(word, shown, meaning string) {
		rows = append(rows, [2]string{strings.ToLower(strings.Trim(word, "`*")), fmt.Sprintf("| %s | %s |\n", shown, meaning)})
	}
	for _, w := range words {
		said := strings.Join(w.Words, ", ")
		row(w.Words[0], said, w.Meaning)
		for _, other := range w.Words[1:] {
			row(other, other, "see "+said)
		}
		for _, not := range w.Not {
			row(not, "*"+not+"*", "we say "+said)
		}
	}
	slices.SortStableFunc(rows, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	var b strings.Builder
	b.WriteString("# Glossary\n\nThe words of [vocabulary.md](vocabulary.md), which has them by subject, by the alphabet. " +
		"A word in italics is said elsewhere, and here of something else or not at all. How it all belongs together: [concepts.md](concepts.md).\n\n| word | meaning |\n|---|---|\n")
	for _, r := range rows {
		b.WriteString(r[1])
	}
	return b.String()
}
