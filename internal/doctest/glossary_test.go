package doctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGlossary: docs/glossary.md has the words of docs/vocabulary.md.
func TestGlossary(t *testing.T) {
	words := vocabulary(t)
	seen := map[string]bool{}
	for _, w := range words {
		said := strings.Join(w.Words, ", ")
		if seen[said+w.Meaning] || w.Meaning == "" {
			t.Errorf("docs/vocabulary.md: %q is there twice, or means nothing: %q", said, w.Meaning)
		}
		seen[said+w.Meaning] = true
	}
	hold(t, "docs/glossary.md", Glossary(words))
}

func vocabulary(t *testing.T) []Word {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/vocabulary.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := Vocabulary(string(page))
	if len(words) < 120 {
		t.Fatalf("%d words were seen; there are more", len(words))
	}
	return words
}

func TestVocabulary(t *testing.T) {
	words := Vocabulary("# V\n\n| word | meaning | not |\n|---|---|---|\n| window, tier | a count | |\n| cost | how many | weight, lease (kept, for grants) |\n")
	got := Glossary(words)
	for _, want := range []string{
		"| cost | how many |\n| *lease* | we say cost |\n| tier | see window, tier |\n| *weight* | we say cost |\n| window, tier | a count |\n",
	} {
		if !strings.HasSuffix(got, want) {
			t.Errorf("got\n%s\nwant at its end\n%s", got, want)
		}
	}
}
