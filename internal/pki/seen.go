package pki

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxSeen bounds the certificates that a store remembers having seen.
const MaxSeen = 1024

// Seen is a certificate of a caller, as a store has seen it at the API port.
type Seen struct {
	Identity Identity
	Issuer   Hash      // of the bundle's CA that signed it; zero if it is not known which
	At       time.Time // when it was checked last
}

type seenKey struct {
	id     Identity
	issuer Hash
}

// sightings are the certificates that were seen, the newest of each owner and CA. At the
// bound the one that was not seen for longest is forgotten.
type sightings struct {
	mu   sync.Mutex
	last map[seenKey]time.Time
}

func (s *sightings) add(k seenKey, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[seenKey]time.Time{}
	}
	if _, known := s.last[k]; !known && len(s.last) >= MaxSeen {
		oldest := k
		for other, at := range s.last {
			if oldest == k || at.Before(s.last[oldest]) {
				oldest = other
			}
		}
		delete(s.last, oldest)
	}
	s.last[k] = now
}

// Seen returns whose certificates were good at the API port, at most [MaxSeen], by
// identity. Each open connection is checked again while calls come on it, so that At is
// seconds old for whoever still calls. It is forgotten with the process.
func (s *Store) Seen() []Seen {
	s.seen.mu.Lock()
	out := make([]Seen, 0, len(s.seen.last))
	for k, at := range s.seen.last {
		out = append(out, Seen{k.id, k.issuer, at})
	}
	s.seen.mu.Unlock()
	slices.SortFunc(out, func(a, b Seen) int {
		return cmp.Or(strings.Compare(a.Identity.String(), b.Identity.String()), bytes.Compare(a.Issuer[:], b.Issuer[:]))
	})
	return out
}

// namedIssuer is issuer for a chain that was verified: the key's id says which it is, and
// no signature is looked at again.
func (t trust) namedIssuer(chain []*x509.Certificate) *x509.Certificate {
	for _, c := range t.certs {
		for _, cert := range chain {
			if len(c.SubjectKeyId) > 0 && bytes.Equal(cert.AuthorityKeyId, c.SubjectKeyId) {
				return c
			}
		}
	}
	return nil
}
