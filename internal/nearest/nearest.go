// Package nearest finds what a mistyped word was meant to be, for error messages.
//
// It counts edits: letters inserted, left out or changed, and two neighbours swapped
// (optimal string alignment, after Damerau, 1964).
package nearest

// Word returns the word that s is most likely a slip of, or "" if it is like none: at most two
// edits, and fewer than half its letters.
func Word(s string, words []string) string {
	best, near := "", 3
	for _, w := range words {
		if len(s) > len(w)+2 {
			continue
		}
		if n := edits(s, w); n < near && 2*n < max(len(w), len(s)) {
			best, near = w, n
		}
	}
	return best
}

// edits counts the insertions, deletions and changes of a byte, and the swaps
// of two neighbours, that lead from a to b.
func edits(a, b string) int {
	prev, row := make([]int, len(b)+1), make([]int, len(b)+1)
	older := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, prev, row = prev, row, older
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
