package raftgroup

import (
	"fmt"
	"strings"
)

// maxTexts bounds the number of fault texts.
const maxTexts = 20

// FaultTexts merges identical faults of several groups into one text: a full disk is one fault,
// not one for each of 256 ranges.
func FaultTexts(all []Fault) (out []string) {
	type fault struct {
		text string
		out  bool
	}
	var order []fault
	groups := map[fault][]string{}
	for _, t := range all {
		k := fault{t.Err.Error(), t.Out}
		if t.Group == "" {
			out = append(out, k.text)
			continue
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], t.Group)
	}
	for _, k := range order {
		if len(out) >= maxTexts {
			return append(out, "and more")
		}
		text := someOf(groups[k]) + ": " + k.text
		switch {
		case k.out && len(groups[k]) > 1:
			text += fmt.Sprintf(" (these %d replicas here are out of service)", len(groups[k]))
		case k.out:
			text += " (its replica here is out of service)"
		}
		out = append(out, text)
	}
	return out
}

// someOf returns up to three names, or two and the number of the others.
func someOf(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
}
