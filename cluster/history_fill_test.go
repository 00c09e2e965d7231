package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// unasked returns an error until every other replica has been asked for everything.
func unasked(n *Node, f *recorder.Backfill) error {
	for r := range quota.RangeID(n.cfg.Ranges) {
		for _, id := range n.members.View().Ranges[r].Voters {
			for _, res := range archive.Resolutions {
				if id != n.cfg.Self && f.Progress[recorder.BackfillSource{Range: r, Resolution: res, From: id}].Complete.IsZero() {
					return fmt.Errorf("range %d: %s has not been asked for all of %d s", r, id, res.Seconds())
				}
			}
		}
	}
	return nil
}

// TestHistoryFillHoles checks that holes that no node can fill, however many, do not keep a node from
// fetching what lies behind them, and that others are not asked for them repeatedly.
func TestHistoryFillHoles(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nodes for seconds; left out by -short")
	}
	c := newThreeNodes(t, 1, quick)
	c.awaitReady(patience)
	n, other := c.nodes["n1"], c.nodes["n2"]
	last := recorder.Second(n.clock.Now())/recorder.Hour*recorder.Hour - 10*recorder.Hour
	old := last - 500*recorder.Hour
	var hours []archive.Entry
	for i := range history.Second(4 * recorder.BackfillHoles) { // every other hour lacks a process
		e := archive.Entry{Coverage: archive.Coverage{Start: last - i*recorder.Hour, Complete: i%2 == 0}}
		if i%2 == 1 {
			e.Missing = []history.Process{{Node: "n9", Incarnation: 1}}
		}
		hours = append(hours, e)
	}
	for _, n := range c.running() {
		if err := n.Files.Archive.Put(archive.Hours, hours); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Files.Archive.Put(archive.Hours, []archive.Entry{{Coverage: archive.Coverage{Start: old, Complete: true}}}); err != nil {
		t.Fatal(err)
	}
	f := recorder.Backfill{Service: n.Recorder, Progress: map[recorder.BackfillSource]recorder.BackfillProgress{}}
	for range 4 {
		f.Round(t.Context(), recorder.Second(n.clock.Now()))
	}
	if err := unasked(n, &f); err != nil {
		t.Error(err)
	}
	if points, err := n.Files.Read(archive.Hours, 0, keysLimit, old, old+recorder.Hour); err != nil || len(points) != 1 || !points[0].Complete {
		t.Fatalf("%+v, %v; want the hour that another one has", points, err)
	}
}

// TestHistoryFill joins a fourth node and lets one of the first leave. The fourth node's disk also answers
// for what was stored before it joined: points and keys, minutes and hours.
func TestHistoryFill(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("runs nodes for many seconds; left out by -short")
	}
	const ranges = 2
	c := newThreeNodes(t, ranges, quick)
	c.seeded()
	l := limit("old", 100, quota.Soft).LimitName
	home := recorder.OwnerRange(l, ranges)
	hours := recorder.Second(c.any().clock.Now())/recorder.Hour - 72
	begin := hours * recorder.Hour
	for _, n := range c.running() {
		var minutes []archive.Entry
		var keys []archive.KeysEntry
		for i := range history.Second(3000) { // more than one answer holds
			at := begin + 60*i
			p := history.Point{Counts: history.Counts{Attempted: quota.Units(i+1) * quota.Token}}
			minutes = append(minutes, archive.Entry{Range: home, Coverage: archive.Coverage{Start: at, Complete: true}, Points: []archive.Point{{Limit: l, Point: p}}})
			for r := range quota.RangeID(ranges) {
				keys = append(keys, archive.KeysEntry{
					Range: r, Start: at, KeysSpan: history.KeysSpan{From: at + 2, Upto: at + 62},
					Lists: []history.TopKeys{{Limit: l, Keys: []history.KeyTotal{{Key: fmt.Sprintf("k%d-%0200d", r, 0), Attempted: quota.Token}}}},
				})
			}
		}
		hourly := []archive.Entry{{Range: home, Coverage: archive.Coverage{Start: begin - 800*recorder.Hour, Complete: true}, Points: []archive.Point{{Limit: l, Point: history.Point{Counts: history.Counts{Attempted: 77}}}}}}
		a := n.Files.Archive
		if err := errors.Join(a.Put(archive.Minutes, minutes), a.Put(archive.Hours, hourly), a.PutKeys(archive.KeyMinutes, keys)); err != nil {
			t.Fatal(err)
		}
	}
	c.join("n4", c.token())
	c.settled(40*time.Second, 3)
	c.leave("n1")
	c.settled(40*time.Second, 3)
	n := c.nodes["n4"]
	f := recorder.Backfill{Service: n.Recorder, Progress: map[recorder.BackfillSource]recorder.BackfillProgress{}}
	c.eventually(patience, "all that was stored before is on the new node's disk", func() error {
		f.Round(t.Context(), recorder.Second(n.clock.Now()))
		return unasked(n, &f)
	})
	points, err := n.Files.Read(archive.Minutes, home, l, begin, begin+3000*60)
	if err != nil || len(points) != 3000 {
		t.Fatalf("%d minutes, %v; want 3000", len(points), err)
	}
	for i := range points {
		if points[i].Attempted != quota.Units(i+1)*quota.Token || !points[i].Complete {
			t.Fatalf("minute %d: %+v", i, points[i])
		}
	}
	if points, err := n.Files.Read(archive.Hours, home, l, begin-900*recorder.Hour, begin); err != nil || len(points) != 1 || points[0].Attempted != 77 {
		t.Fatalf("hours: %+v, %v", points, err)
	}
	for _, any := range c.running() { // whichever node leads
		a, err := any.HistoryKeys(t.Context(), history.KeysQuery{Limit: l, From: begin, End: begin + 3000*60, Top: 5})
		if err != nil || len(a.Keys) != ranges || a.Keys[0].Attempted != 3000*quota.Token || len(a.Gaps) > 0 {
			t.Fatalf("%s: %+v, %v", any.cfg.Self, a, err)
		}
	}
	for r := range quota.RangeID(ranges) {
		sum, _, err := n.Files.Keys.Read(r, n.ranges.Of(r).Machine.History, l, begin, begin+3000*60)
		if top := sum.Top(l, 5); err != nil || len(top.Keys) != 1 || top.Keys[0].Attempted != 3000*quota.Token {
			t.Fatalf("range %d: %+v, %v", r, top, err)
		}
	}
}
