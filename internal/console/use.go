package console

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Bounds of the demand in the list of limits.
const (
	useBack  = 5 * time.Minute  // of the figures
	lineBack = 30 * time.Minute // of the lines
	useStep  = time.Minute
	useWait  = time.Second // longest time that the page waits for it
	useLines = 20          // limits with a line, those asked for most first: each costs a read of the history
)

// limitUse is the demand of one limit in the last minutes.
type limitUse struct {
	Asked   float64 // tokens per second, mean
	Refused float64 // fraction of the tokens asked for
	Line    Sparkline
}

// loadUse adds the demand of the last minutes to the list. What cannot be read in time is left out.
func (l *limitsList) loadUse(r *Request) {
	ctx, cancel := context.WithTimeout(r.Context(), useWait)
	defer cancel()
	from, lineFrom := r.Now().Add(-useBack).Truncate(time.Second), r.Now().Add(-lineBack).Truncate(useStep)
	res, err := r.Rates.HistoryLimits(ctx, &quoratev1.HistoryLimitsRequest{Namespace: l.Namespace, From: timestamppb.New(from)})
	if err != nil {
		return
	}
	onPage := map[string]bool{}
	for _, row := range l.Rows {
		onPage[row.Namespace+"/"+row.Name] = true
	}
	l.Use = map[string]*limitUse{}
	var lines sync.WaitGroup
	for _, u := range res.Limits { // the one asked for most first
		name := u.Namespace + "/" + u.Limit
		if !onPage[name] || u.Use.GetAttempted() == 0 {
			continue
		}
		use := &limitUse{
			Asked:   float64(u.Use.Attempted) / r.Now().Sub(from).Seconds(),
			Refused: float64(u.Use.Refused) / float64(u.Use.Attempted),
		}
		l.Use[name] = use
		if len(l.Use) > useLines {
			continue
		}
		lines.Go(func() {
			past, err := r.Rates.History(ctx, &quoratev1.HistoryRequest{Namespace: u.Namespace, Limit: u.Limit, From: timestamppb.New(lineFrom), Step: durationpb.New(useStep)})
			if err == nil {
				use.Line = sparkline(past.Points, lineFrom)
			}
		})
	}
	lines.Wait()
}

// UseOf returns the demand of a limit; nil if it is not known or was none.
func (l *limitsList) UseOf(limit *quoratev1.Limit) *limitUse {
	return l.Use[limit.Namespace+"/"+limit.Name]
}

// Sparkline is a small line without axes: paths of an SVG of width by height, one for each run of
// minutes without a gap, and a description for readers who cannot see it.
type Sparkline struct {
	Asked, Refused string
	Label          string
}

const (
	sparkWidth  = 96
	sparkHeight = 20
)

// sparkline draws the demand and the refusals of each minute from a time on.
func sparkline(points []*quoratev1.HistoryPoint, from time.Time) Sparkline {
	n := int(lineBack / useStep)
	top := int64(1)
	at := make([]*quoratev1.HistoryPoint, n+1)
	for _, p := range points {
		if i := int(p.Start.AsTime().Sub(from) / useStep); i >= 0 && i <= n && p.Complete {
			at[i] = p
			top = max(top, p.Attempted)
		}
	}
	draw := func(value func(*quoratev1.HistoryPoint) int64) string {
		var b strings.Builder
		pen := "M"
		for i, p := range at {
			if p == nil {
				pen = "M"
				continue
			}
			x := float64(i) * sparkWidth / float64(n)
			y := sparkHeight - 1 - float64(value(p))*(sparkHeight-2)/float64(top)
			fmt.Fprintf(&b, "%s%.1f %.1f", pen, x, y)
			pen = "L"
		}
		return b.String()
	}
	return Sparkline{
		Asked:   draw((*quoratev1.HistoryPoint).GetAttempted),
		Refused: draw((*quoratev1.HistoryPoint).GetRefused),
		Label:   "last 30 minutes, at most " + dec(float64(top)/useStep.Seconds()) + "/s in a minute",
	}
}
