package cluster

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/health"
)

const (
	fewRanges = 8 // that are not as they should be are printed one by one; more in a line for each trouble
	maxRuns   = 5 // of numbers that such a line names
)

// printRanges prints the ranges that are not as they should be, or all of them.
func printRanges(p *render.Page, st *quoratev1.GetStatusResponse, all bool) {
	up := health.Connected(st)
	var list []*quoratev1.RangeStatus
	for _, r := range st.Ranges {
		if all || health.Odd(r, up) {
			list = append(list, r)
		}
	}
	switch {
	case len(list) == 0:
		return
	case !all && len(list) > fewRanges:
		sumRanges(p, list, up)
		return
	}
	t := render.NewTable("RANGE", "LEADER", "TERM", "LAG", "VOTERS", "LEAVING", "NOW")
	for _, r := range list {
		var lag any = render.Nothing
		if r.Lag != nil {
			lag = *r.Lag
		}
		t.Row(r.Id, render.NameOrNothing(r.Leader), r.Term, lag, render.Names(r.Replicas), render.Names(r.Removed), render.NameOrNothing(r.Step))
	}
	fmt.Fprintln(p)
	p.Table(t)
}

// sumRanges prints a line for each trouble: what it is, and which ranges have it.
func sumRanges(w io.Writer, list []*quoratev1.RangeStatus, up map[string]bool) {
	var kinds []string
	of := map[string][]uint32{}
	for _, r := range list {
		k := trouble(r, up)
		if of[k] == nil {
			kinds = append(kinds, k)
		}
		of[k] = append(of[k], r.Id)
	}
	fmt.Fprintln(w)
	for _, k := range kinds {
		fmt.Fprintf(w, "%s %s: %s\n", render.Plural(len(of[k]), "range"), k, runs(of[k]))
	}
	fmt.Fprintln(w, "--ranges prints them one by one")
}

// trouble is what is wrong with a range first of all.
func trouble(r *quoratev1.RangeStatus, up map[string]bool) string {
	var away []string
	for _, id := range r.Replicas {
		if !up[id] {
			away = append(away, render.Show(id))
		}
	}
	switch {
	case r.Leader == "":
		return "without a leader"
	case health.Moves(r):
		return "to change"
	case len(away) > 0:
		return "without " + strings.Join(away, ", ")
	}
	return fmt.Sprintf("with a voter more than %d entries behind", health.MuchLag)
}

// runs prints rising numbers, such as "0-15, 17 and 3 more".
func runs(ids []uint32) string {
	var out []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if len(out) == maxRuns {
			return fmt.Sprintf("%s and %d more", strings.Join(out, ", "), len(ids)-i)
		}
		text := strconv.FormatUint(uint64(ids[i]), 10)
		if j > i {
			text += "-" + strconv.FormatUint(uint64(ids[j]), 10)
		}
		out = append(out, text)
		i = j + 1
	}
	return strings.Join(out, ", ")
}
