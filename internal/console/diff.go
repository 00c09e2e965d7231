package console

import (
	"slices"
	"strings"
)

// Diff is a line diff.
type Diff []DiffLine

// DiffLine is one line; Op is "+", "-" or " ".
type DiffLine struct{ Op, Text string }

// maxDiff bounds the lines between the first and the last difference that are compared. Beyond it
// all old lines are removed and all new ones added.
const maxDiff = 1500

// around is the number of unchanged lines kept on either side of a change.
const around = 3

// Lines compares two texts. It needs memory for at most maxDiff x maxDiff numbers.
func Lines(before, after string) Diff {
	a, b := splitLines(before), splitLines(after)
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	out := same(nil, a[:start])
	out = middle(out, a[start:len(a)-end], b[start:len(b)-end])
	return same(out, a[len(a)-end:]).short()
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

func same(out Diff, lines []string) Diff {
	for _, l := range lines {
		out = append(out, DiffLine{" ", l})
	}
	return out
}

// middle compares by the longest common subsequence.
func middle(out Diff, a, b []string) Diff {
	if len(a) > maxDiff || len(b) > maxDiff {
		return replaced(out, a, b)
	}
	long := make([][]int16, len(a)+1) // long[i][j] is that of a[i:] and b[j:]
	for i := range long {
		long[i] = make([]int16, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			if line == b[j] {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			out = append(out, DiffLine{" ", a[i]})
			i, j = i+1, j+1
		case long[i+1][j] >= long[i][j+1]:
			out = append(out, DiffLine{"-", a[i]})
			i++
		default:
			out = append(out, DiffLine{"+", b[j]})
			j++
		}
	}
	return replaced(out, a[i:], b[j:])
}

func replaced(out Diff, a, b []string) Diff {
	for _, l := range a {
		out = append(out, DiffLine{"-", l})
	}
	for _, l := range b {
		out = append(out, DiffLine{"+", l})
	}
	return out
}

// Changed reports whether anything differs.
func (d Diff) Changed() bool {
	for _, l := range d {
		if l.Op != " " {
			return true
		}
	}
	return false
}

// short omits unchanged lines far from any change.
func (d Diff) short() Diff {
	near := make([]bool, len(d))
	for i := range d {
		if d[i].Op != " " {
			for k := max(0, i-around); k <= min(len(d)-1, i+around); k++ {
				near[k] = true
			}
		}
	}
	var out Diff
	for i := range d {
		switch {
		case near[i]:
			out = append(out, d[i])
		case i == 0 || near[i-1]:
			out = append(out, DiffLine{" ", "..."})
		}
	}
	return out
}
