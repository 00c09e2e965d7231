package membership

import (
	"net"
	"slices"
	"strings"
	"unicode/utf8"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// check validates a member.
func check(m *raftlogv1.StoredMember) error {
	if err := quota.CheckName("node", m.GetId()); err != nil {
		return refuse(Invalid, "%s", err)
	}
	if _, port, err := net.SplitHostPort(m.GetPeer()); err != nil || port == "" || port == "0" {
		return refuse(Invalid, "peer address %q: must be host:port that other nodes reach", clip(m.GetPeer()))
	}
	for _, a := range []struct{ name, text string }{{"peer address", m.GetPeer()}, {"gRPC address", m.GetGrpc()}, {"HTTP address", m.GetHttp()}} {
		if len(a.text) > MaxAddress || !utf8.ValidString(a.text) {
			return refuse(Invalid, "%s %q: must be at most %d bytes of UTF-8", a.name, clip(a.text), MaxAddress)
		}
	}
	for _, a := range []struct{ name, text string }{{"zone", m.GetZone()}, {"version", m.GetVersion()}} {
		if len(a.text) > quota.MaxNameLen || !utf8.ValidString(a.text) {
			return refuse(Invalid, "%s %q: must be at most %d bytes of UTF-8", a.name, clip(a.text), quota.MaxNameLen)
		}
	}
	if n := len(m.GetJoinId()); n > MaxJoinID {
		return refuse(Invalid, "join id: %d bytes; must be at most %d", n, MaxJoinID)
	}
	if n := len(m.GetTrusts()); n > MaxTrusts {
		return refuse(Invalid, "trusts: %d authorities; must be at most %d", n, MaxTrusts)
	}
	for _, fingerprint := range append(slices.Clip(m.GetTrusts()), m.GetSignedBy()) {
		if len(fingerprint) > quota.MaxNameLen || !utf8.ValidString(fingerprint) {
			return refuse(Invalid, "fingerprint %q: must be at most %d bytes of UTF-8", clip(fingerprint), quota.MaxNameLen)
		}
	}
	if s := m.GetState(); s < uint32(Active) || s > uint32(Leaving) {
		return refuse(Invalid, "state %d: must be 1 to 3", m.GetState())
	}
	return nil
}

// checkPlacement validates the placement of a group.
func checkPlacement(in *raftlogv1.Membership, p *raftlogv1.StoredPlacement) error {
	if p.GetGroup() > shard.MaxRanges {
		return refuse(Invalid, "group %d: must be 0 to %d", p.GetGroup(), shard.MaxRanges)
	}
	if len(p.GetVoters()) == 0 {
		return refuse(Invalid, "group %d: no voters", p.GetGroup())
	}
	all := slices.Concat(p.Voters, p.Removed)
	for i, id := range all {
		if slices.Contains(all[:i], id) {
			return refuse(Invalid, "group %d: duplicate node %q", p.Group, clip(id))
		}
		if !hasMember(in, id) {
			return refuse(Invalid, "group %d: node %q is not a member", p.Group, clip(id))
		}
	}
	return nil
}

// checkToken validates a join token.
func checkToken(token *raftlogv1.StoredJoinToken) error {
	if token.GetId() == "" || len(token.GetHash()) == 0 || token.GetUsesLeft() == 0 {
		return refuse(Invalid, "join token: id, hash and uses must be set")
	}
	for _, a := range []struct {
		name string
		len  int
		most int
	}{{"id", len(token.Id), quota.MaxNameLen}, {"hash", len(token.Hash), quota.MaxNameLen}, {"maker", len(token.By), MaxIdentity}, {"authority", len(token.Authority), quota.MaxNameLen}} {
		if a.len > a.most {
			return refuse(Invalid, "join token: %s of %d bytes; must be at most %d", a.name, a.len, a.most)
		}
	}
	return nil
}

// clip shortens untrusted text for error messages.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
