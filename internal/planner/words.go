package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// statements returns what an answer rests on, in words.
func (d *demand) statements(now, next *quota.Limit, o *quoratev1.WhatIfOutcome, c *quoratev1.Coverage) []string {
	out := []string{d.sure(o), d.source()}
	if d.many {
		out = append(out, d.likeness())
	}
	switch {
	case d.accounts > 0 && o.Attempted > 0:
		out = append(out, "the demand of each account is not recorded, so these figures are estimates; they assume that accounts are full at the beginning, so choose whole days")
	case d.unknown && o.Attempted > 0:
		out = append(out, "its keys are not recorded: this assumes that one key had all the demand, so a limit with many keys refuses less")
	}
	out = append(out, coverageStatements(c)...)
	if now.Enforcement == quota.Shadow {
		out = append(out, "the limit is in shadow: nothing was refused, and refused_then counts what it would have refused")
	}
	if next.Parent != "" {
		out = append(out, "its parent "+next.Parent+" is not replayed: its refusals come on top")
	}
	return append(out, "assumes one token for each request; with larger requests, each second with refusals may have one more")
}

// sure states how certain an outcome is.
func (d *demand) sure(o *quoratev1.WhatIfOutcome) string {
	switch {
	case o.Attempted == 0:
		return "no recorded demand in this time"
	case d.accounts > 0:
		return fmt.Sprintf("about %d of %d units would have been refused (%s), if %d accounts had equal demand (the number that matches the recorded refusals); at most %d, if one account had all the demand",
			o.RefusedLikely, o.Attempted, phrase.Percent(o.RefusedLikely, o.Attempted), d.accounts, o.RefusedAtMost)
	case o.Exact:
		return fmt.Sprintf("exact: %d of %d tokens would have been refused (%s)", o.RefusedAtMost, o.Attempted, phrase.Percent(o.RefusedAtMost, o.Attempted))
	}
	word := "between"
	if o.Estimate {
		word = "an estimate: between about"
	}
	if d.many {
		return fmt.Sprintf("about %d of %d tokens would have been refused (%s); between %d and %d (%s to %s), depending on when each key's requests came", o.RefusedLikely, o.Attempted,
			phrase.Percent(o.RefusedLikely, o.Attempted), o.RefusedAtLeast, o.RefusedAtMost, phrase.Percent(o.RefusedAtLeast, o.Attempted), phrase.Percent(o.RefusedAtMost, o.Attempted))
	}
	return fmt.Sprintf("%s %d and %d of %d tokens would have been refused (%s to %s); %d if requests came evenly", word, o.RefusedAtLeast, o.RefusedAtMost, o.Attempted,
		phrase.Percent(o.RefusedAtLeast, o.Attempted), phrase.Percent(o.RefusedAtMost, o.Attempted), o.RefusedIfEven)
}

// likeness states how the estimate for many keys is made.
func (d *demand) likeness() string {
	if d.seen == nil {
		return "the estimate assumes that each key's requests come at random while the limit is busy; it does not use the recorded refusals, because the rule changed in that time or other rules decide too"
	}
	return fmt.Sprintf("estimate and bounds are calibrated with the %d tokens that the active rule refused", d.seen.Refused().Tokens())
}

// source states which demand an answer is based on.
func (d *demand) source() string {
	switch d.basis() {
	case quoratev1.Basis_BASIS_KEYS:
		return fmt.Sprintf("from the demand of up to %d keys in each of %s of %v, and the demand of all keys", plannedKeys, phrase.Plural(d.keyed.Parts(), "interval"), phrase.Span(time.Duration(d.part)*time.Second))
	case quoratev1.Basis_BASIS_SECONDS:
		return "from the demand of every second"
	case quoratev1.Basis_BASIS_MINUTES:
		return "from the demand of every minute and its peak second (seconds are kept for an hour)"
	}
	return "from the demand of every hour and its peak second (minutes are no longer kept)"
}

// Incomplete states what an answer lacks: ranges, time that nodes have not reported, and these nodes. It
// is empty if the answer lacks nothing since the history began, or has no points that could say so.
func Incomplete(c *quoratev1.Coverage) string {
	var parts []string
	if c.GetRangesCovered() < c.GetRangesTotal() {
		parts = append(parts, fmt.Sprintf("covers %d of %d ranges", c.RangesCovered, c.RangesTotal))
	}
	span := func(seconds int64) string { return phrase.Span(time.Duration(seconds) * time.Second) }
	switch total := sinceBegun(c); {
	case c.GetSecondsKnown() == 0 || c.SecondsComplete >= total:
	case c.SecondsComplete == 0:
		parts = append(parts, fmt.Sprintf("%s are recorded only in part: the history begins later, or a node has not reported everything", span(c.SecondsTotal)))
	default:
		parts = append(parts, fmt.Sprintf("all nodes have reported %s of %s", span(c.SecondsComplete), span(total)))
	}
	if len(c.GetMissing()) > 0 {
		text := "missing " + strings.Join(c.Missing, ", ")
		if c.MissingSince != nil {
			text += " from " + dateText(c.MissingSince)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// BegunText states before when nothing is known; it is empty if Begins is not set.
func BegunText(c *quoratev1.Coverage) string {
	if c.GetBegins() == nil {
		return ""
	}
	return "recorded since " + dateText(c.Begins)
}

func dateText(t *timestamppb.Timestamp) string {
	return t.AsTime().UTC().Format("2006-01-02 15:04:05")
}

// sinceBegun returns how many of the requested seconds are known: those since Begins, if it is set.
func sinceBegun(c *quoratev1.Coverage) int64 {
	if c.GetBegins() == nil || c.AsOf == nil {
		return c.GetSecondsTotal()
	}
	return max(0, min(c.SecondsTotal, c.AsOf.Seconds-c.Begins.Seconds))
}

// coverageStatements states in words how complete an answer with points is; nothing if it is complete.
func coverageStatements(c *quoratev1.Coverage) (out []string) {
	text := Incomplete(c)
	if c.GetSecondsKnown() == 0 {
		text = cmp.Or(text, "no data for this time yet")
	}
	return slices.DeleteFunc([]string{text, BegunText(c)}, func(s string) bool { return s == "" })
}

// CoverageText states in words how complete an answer with points is.
func CoverageText(c *quoratev1.Coverage) string {
	return cmp.Or(strings.Join(coverageStatements(c), "; "), "complete: all nodes of this time have reported everything")
}
