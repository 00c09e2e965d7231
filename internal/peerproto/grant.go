package peerproto

import (
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// EncodeGrant returns the message for a grant. The message omits sender and receiver, which the
// connection identifies.
func EncodeGrant(g *quota.Grant) *peerv1.Grant {
	out := &peerv1.Grant{
		Range: uint32(g.Range), Term: uint64(g.Term), At: int64(g.At),
		Entries: make([]*peerv1.GrantEntry, len(g.Entries)),
	}
	for i := range g.Entries {
		e := &g.Entries[i]
		out.Entries[i] = &peerv1.GrantEntry{
			Namespace: e.Key.Namespace, Limit: e.Key.Limit, Key: e.Key.Key,
			Epoch: uint64(e.Epoch), Seq: uint64(e.Seq), Ack: uint64(e.Ack),
			Tokens: int64(e.Tokens), Rate: int64(e.Rate), Cap: int64(e.Cap), LeaseNanos: int64(e.Lease),
			Level: int64(e.Level), Others: int64(e.Others), Free: int64(e.Free), AgainNanos: int64(e.Again), Closed: e.Closed,
			Recall: e.Recall, Unseen: int64(e.Unseen), Credit: int64(e.Credit), Aside: int64(e.Aside),
			WindowStart: int64(e.WindowStart), WindowEnd: int64(e.WindowEnd), Slope: int64(e.Slope), Burst: int64(e.Burst),
			Saved: int64(e.Saved), Life: uint64(e.Incarnation), Central: e.Central,
		}
	}
	return out
}

// DecodeGrant decodes a grant that a node sent.
func DecodeGrant(from, to quota.NodeID, g *peerv1.Grant) quota.Grant {
	out := quota.Grant{
		Range: quota.RangeID(g.Range), Term: quota.Term(g.Term), At: quota.Time(g.At), From: from, To: to,
		Entries: make([]quota.GrantEntry, len(g.Entries)),
	}
	for i, e := range g.Entries {
		out.Entries[i] = quota.GrantEntry{
			Key: key(e.Namespace, e.Limit, e.Key), Epoch: quota.Seq(e.Epoch), Seq: quota.Seq(e.Seq), Ack: quota.Seq(e.Ack),
			Tokens: quota.Units(e.Tokens), Rate: quota.Units(e.Rate), Cap: quota.Units(e.Cap), Lease: time.Duration(e.LeaseNanos),
			Level: quota.Units(e.Level), Others: quota.Units(e.Others), Free: quota.Units(e.Free), Again: time.Duration(e.AgainNanos), Closed: e.Closed,
			Recall: e.Recall, Unseen: quota.Units(e.Unseen), Credit: quota.Units(e.Credit), Aside: quota.Units(e.Aside),
			WindowStart: quota.Time(e.WindowStart), WindowEnd: quota.Time(e.WindowEnd), Slope: quota.Units(e.Slope), Burst: quota.Units(e.Burst),
			Saved: quota.Units(e.Saved), Incarnation: quota.Incarnation(e.Life), Central: e.Central,
		}
	}
	return out
}
