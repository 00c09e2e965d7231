package peerproto

import (
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// EncodeReport returns the message for a report. The message omits the sender, which the connection
// identifies.
func EncodeReport(r *quota.Report) *peerv1.Report {
	out := &peerv1.Report{
		Range: uint32(r.Range), Term: uint64(r.Term), Seq: uint64(r.Seq), Full: r.Full, Parts: r.Parts, Incarnation: uint64(r.Incarnation), AgeNanos: int64(r.Age),
		Entries: make([]*peerv1.ReportEntry, len(r.Entries)),
	}
	for i := range r.Entries {
		out.Entries[i] = encodeReportEntry(&r.Entries[i])
	}
	return out
}

func encodeReportEntry(e *quota.ReportEntry) *peerv1.ReportEntry {
	out := &peerv1.ReportEntry{
		Namespace: e.Key.Namespace, Limit: e.Key.Limit, Key: e.Key.Key,
		Epoch: uint64(e.Epoch), Used: int64(e.Used), Overdrawn: int64(e.Overdrawn), Refused: int64(e.Refused),
		Held: int64(e.Held), AccruedTo: int64(e.AccruedTo), Stopped: e.Stopped, Applied: uint64(e.Applied), Final: e.Final,
		Want: int64(e.Want), Unreported: int64(e.Unreported), Refunded: int64(e.Refunded), InFlight: int64(e.InFlight),
		Window: int64(e.Window), Before: int64(e.Before), Charged: int64(e.Charged), Alone: int64(e.Alone),
		Returned: int64(e.Returned), Saved: int64(e.Saved), Life: uint64(e.Incarnation), Cost: int64(e.Cost),
	}
	for _, id := range e.Cancelled {
		out.Cancelled = append(out.Cancelled, uint64(id))
	}
	if l := e.Learn; l != nil {
		out.Learn = &peerv1.Learn{
			HasLevel: l.HasLevel, Level: int64(l.Level), AgeNanos: int64(l.Age), Rate: int64(l.Rate),
			LeaseLeftNanos: int64(l.LeaseLeft), Cap: int64(l.Cap), WindowEnd: int64(l.WindowEnd),
		}
	}
	return out
}

// DecodeReport decodes a report that a node sent.
func DecodeReport(from quota.NodeID, r *peerv1.Report) quota.Report {
	out := quota.Report{
		Range: quota.RangeID(r.Range), Term: quota.Term(r.Term), Seq: quota.Seq(r.Seq), Full: r.Full, Parts: r.Parts, From: from,
		Incarnation: quota.Incarnation(r.Incarnation), Age: max(0, time.Duration(r.AgeNanos)), Entries: make([]quota.ReportEntry, len(r.Entries)),
	}
	for i, e := range r.Entries {
		out.Entries[i] = decodeReportEntry(e)
	}
	return out
}

func decodeReportEntry(e *peerv1.ReportEntry) quota.ReportEntry {
	out := quota.ReportEntry{
		Key: key(e.Namespace, e.Limit, e.Key), Epoch: quota.Seq(e.Epoch),
		Used: quota.Units(e.Used), Overdrawn: quota.Units(e.Overdrawn), Refused: quota.Units(e.Refused),
		Held: quota.Units(e.Held), AccruedTo: quota.Time(e.AccruedTo), Stopped: e.Stopped, Applied: quota.Seq(e.Applied), Final: e.Final,
		Want: quota.Units(e.Want), Unreported: quota.Units(e.Unreported), Refunded: quota.Units(e.Refunded), InFlight: quota.Units(e.InFlight),
		Window: quota.Time(e.Window), Before: quota.Units(e.Before), Charged: quota.Units(e.Charged), Alone: quota.Units(e.Alone),
		Returned: quota.Units(e.Returned), Saved: quota.Units(e.Saved), Incarnation: quota.Incarnation(e.Life), Cost: quota.Units(e.Cost),
	}
	for _, id := range e.Cancelled {
		out.Cancelled = append(out.Cancelled, quota.Seq(id))
	}
	if l := e.Learn; l != nil {
		out.Learn = &quota.Learn{
			HasLevel: l.HasLevel, Level: quota.Units(l.Level), Age: max(0, time.Duration(l.AgeNanos)), Rate: max(0, quota.Units(l.Rate)),
			LeaseLeft: max(0, time.Duration(l.LeaseLeftNanos)), Cap: max(0, quota.Units(l.Cap)), WindowEnd: quota.Time(l.WindowEnd),
		}
	}
	return out
}

func key(ns, limit, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: ns, Limit: limit}, Key: k}
}
