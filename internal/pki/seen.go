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

// MaxSeen bounds the caller certificates that a store remembers.
const MaxSeen = 1024

// Seen is a caller's certificate that was used at the API port.
type Seen struct {
	Identity Identity
	Issuer   Hash      // CA in the bundle that signed it; zero if unknown
	At       time.Time // last check
}

type seenKey struct {
	id     Identity
	issuer Hash
}

// sightings holds the time of the last use of certificates by owner and CA. At the bound it drops
// the one not used for longest.
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

// Seen returns the certificates that were accepted at the API port since the process started, at
// most [MaxSeen], sorted by identity. Open connections are checked again while calls arrive, so At
// is at most seconds old for active callers.
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

// namedIssuer is issuer for a verified chain: it compares key IDs and verifies no signature.
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
