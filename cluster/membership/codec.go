package membership

import (
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Encode returns the stored form of a member.
func (m *Member) Encode() *raftlogv1.StoredMember {
	pb := &raftlogv1.StoredMember{
		Id: string(m.ID), Peer: m.Peer, Grpc: m.GRPC, Http: m.HTTP, Zone: m.Zone, Version: m.Version, Level: m.Level,
		State: uint32(m.State), Dead: m.Dead, Trusts: m.Trusts, SignedBy: m.SignedBy,
		FirstIncarnation: uint64(m.First),
	}
	if m.JoinID != "" {
		pb.JoinId = []byte(m.JoinID)
	}
	if !m.Joined.IsZero() {
		pb.JoinedUnixNanos = m.Joined.UnixNano()
	}
	return pb
}

// DecodeMember returns a member from its stored form.
func DecodeMember(pb *raftlogv1.StoredMember) *Member {
	m := &Member{
		ID: quota.NodeID(pb.GetId()), Peer: pb.GetPeer(), GRPC: pb.GetGrpc(), HTTP: pb.GetHttp(), Zone: pb.GetZone(), Version: pb.GetVersion(),
		Level: pb.GetLevel(), State: State(pb.GetState()), Dead: pb.GetDead(), JoinID: string(pb.GetJoinId()),
		Trusts: pb.GetTrusts(), SignedBy: pb.GetSignedBy(), First: quota.Incarnation(pb.GetFirstIncarnation()),
	}
	if at := pb.GetJoinedUnixNanos(); at != 0 {
		m.Joined = time.Unix(0, at)
	}
	return m
}

// EncodePlacement returns the stored form of a group's placement.
func EncodePlacement(group uint32, p shard.Placement) *raftlogv1.StoredPlacement {
	return &raftlogv1.StoredPlacement{Group: group, Voters: texts(p.Voters), Removed: texts(p.Removed)}
}

// DecodePlacement returns a group's placement from its stored form.
func DecodePlacement(pb *raftlogv1.StoredPlacement) shard.Placement {
	return shard.Placement{Voters: names(pb.GetVoters()), Removed: names(pb.GetRemoved())}
}

func texts(ids []quota.NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

func names(texts []string) []quota.NodeID {
	out := make([]quota.NodeID, len(texts))
	for i, s := range texts {
		out[i] = quota.NodeID(s)
	}
	return out
}
