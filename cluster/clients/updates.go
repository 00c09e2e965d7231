package clients

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// LimitsChanged schedules sending the current limits to all sessions.
func (s *Service) LimitsChanged() {
	s.news.mu.Lock()
	s.news.limits = true
	s.news.mu.Unlock()
	s.wakeUp()
}

// Overridden schedules sending the overrides of keys to the sessions; nil stands for all keys.
func (s *Service) Overridden(keys []quota.Key) {
	s.news.mu.Lock()
	if keys == nil || len(s.news.keys)+len(keys) > maxNews {
		s.news.keys, s.news.allKeys = nil, true
	} else if !s.news.allKeys {
		s.news.keys = append(s.news.keys, keys...)
	}
	s.news.mu.Unlock()
	s.wakeUp()
}

// sendNews sends the sessions the pending changes of limits and overrides.
func (s *Service) sendNews() {
	s.news.mu.Lock()
	limits, keys, all := s.news.limits, s.news.keys, s.news.allKeys
	s.news.limits, s.news.keys, s.news.allKeys = false, nil, false
	s.news.mu.Unlock()
	if !limits && !all && len(keys) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cache := limitsCache{}
	for _, c := range s.sessions {
		if limits {
			c.sendLimits(s.node.Limits(), cache)
		}
		if all || len(keys) > 0 {
			c.overridden(keys, all)
		}
	}
}

// limitsCache caches the message of limits for each set of namespaces that sessions use, for one
// version of the limits.
type limitsCache map[string]*quoratev1.AttachResponse

// sendLimits sends the limits of the namespaces that the client uses, unless the client has that
// version. Service.mu must be held.
func (s *session) sendLimits(limits *quota.Limits, cache limitsCache) {
	if s.version >= limits.Version && s.version != 0 {
		return
	}
	s.version = limits.Version
	uses, noReport, key := s.namespaces(limits)
	m := cache[key]
	if m == nil {
		out := &quoratev1.ClientLimits{Version: limits.Version, NoReport: noReport}
		all := limits.All()
		for i := range all {
			if ns := all[i].Namespace; ns == quota.Global.Namespace || uses(ns) {
				out.Limits = append(out.Limits, limitproto.EncodeLimit(&all[i]))
			}
		}
		m = &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Limits{Limits: out}}
		cache[key] = m
	}
	s.out.Put(m)
}

// namespaces returns a predicate for the limits' namespaces that the session uses, a list of those without permission to
// report, and a cache key for both.
func (s *session) namespaces(limits *quota.Limits) (uses func(string) bool, noReport []string, key string) {
	if s.may == nil {
		return func(string) bool { return true }, nil, "*"
	}
	var names []string
	all := limits.All()
	for i := range all {
		ns := all[i].Namespace
		if i > 0 && all[i-1].Namespace == ns { // sorted
			continue
		}
		if s.may(ns) {
			names = append(names, ns)
		}
		if s.mayReport != nil && (s.may(ns) || ns == quota.Global.Namespace) && !s.mayReport(ns) {
			noReport = append(noReport, ns)
		}
	}
	uses = func(ns string) bool { _, ok := slices.BinarySearch(names, ns); return ok }
	return uses, noReport, strings.Join(names, "/") + "//" + strings.Join(noReport, "/")
}

// sentOverride is the override of a key as last sent to the client.
type sentOverride struct {
	override *quota.Override // nil if the key has none
	parted   bool            // the client has closed the key since, and may have forgotten the override
}

// maxParted bounds the closed keys with overrides of one session.
const maxParted = 4096

// sendOverrides sends the overrides of keys that the client has opened, before their
// first grant. r is the client's report and g the client ledger's answer: sendOverrides keeps nothing of
// keys that the client ledger has not opened. Service.mu must be held.
func (s *session) sendOverrides(r *quota.Report, g *quota.Grant) {
	s.keysMu.Lock()
	defer s.keysMu.Unlock()
	var list []*quoratev1.ClientOverride
	answers := g.Entries
	for i := range r.Entries {
		e := &r.Entries[i]
		answered := len(answers) > 0 && answers[0].Key == e.Key
		if answered {
			answers = answers[1:]
		}
		k := e.Key
		k.LimitName, _ = k.Base() // overrides are of limits, not of their tiers
		have, known := s.open[k]
		switch open := answered && !e.Final; {
		case open && (!known || have.parted):
			o := s.node.Override(k)
			s.open[k] = sentOverride{override: o}
			if o != nil {
				list = append(list, clientOverride(k, o))
			}
		case !open && known && have.override == nil:
			delete(s.open, k)
		case !open && known && !have.parted:
			list = s.part(list, k, have)
		}
	}
	s.sendList(list)
}

// part keeps the override of a key that the client has closed. If there are more than maxParted,
// it revokes the override of the oldest at the client, which gets it again when it opens the key.
// keysMu must be held.
func (s *session) part(list []*quoratev1.ClientOverride, k quota.Key, have sentOverride) []*quoratev1.ClientOverride {
	have.parted = true
	s.open[k] = have
	if s.parted = append(s.parted, k); len(s.parted) <= maxParted {
		return list
	}
	oldest := s.parted[0]
	s.parted = s.parted[1:]
	if !s.open[oldest].parted {
		return list
	}
	delete(s.open, oldest)
	return append(list, clientOverride(oldest, nil))
}

// overridden sends the changed overrides of keys, or of all keys that the client has.
func (s *session) overridden(keys []quota.Key, all bool) {
	s.keysMu.Lock()
	defer s.keysMu.Unlock()
	var list []*quoratev1.ClientOverride
	if all {
		for k, have := range s.open {
			list = s.compare(list, k, have)
		}
	}
	for _, k := range keys {
		if have, ok := s.open[k]; ok {
			list = s.compare(list, k, have)
		}
	}
	s.sendList(list)
}

// compare adds a key's override to the list if it differs from the one last sent. keysMu must be held.
func (s *session) compare(list []*quoratev1.ClientOverride, k quota.Key, have sentOverride) []*quoratev1.ClientOverride {
	o := s.node.Override(k)
	switch {
	case o == nil && have.override == nil, o != nil && have.override != nil && *o == *have.override:
		return list
	case o == nil && have.parted:
		delete(s.open, k)
	case o == nil:
		s.open[k] = sentOverride{}
	default:
		s.open[k] = sentOverride{o, have.parted}
	}
	return append(list, clientOverride(k, o))
}

// sendList sends overrides in messages of bounded size.
func (s *session) sendList(list []*quoratev1.ClientOverride) {
	for len(list) > 0 {
		n, size := 0, 0
		for n < min(len(list), peerproto.MaxEntries) {
			if size += proto.Size(list[n]) + 8; n > 0 && size > maxMessage {
				break
			}
			n++
		}
		s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Overrides{Overrides: &quoratev1.ClientOverrides{Overrides: list[:n:n]}}})
		list = list[n:]
	}
}

// clientOverride returns the message for the override of a key; nil revokes it. It says what the
// override does, and not why or by whom: clients need the permission limits.read to learn that.
func clientOverride(k quota.Key, o *quota.Override) *quoratev1.ClientOverride {
	out := &quoratev1.ClientOverride{Key: limitproto.EncodeKey(k)}
	if o != nil {
		does := *o
		does.Comment, does.By, does.At = "", "", 0
		out.Override = &raftlogv1.StoredOverride{Key: out.Key, Rule: limitproto.EncodeRule(&does)}
	}
	return out
}
