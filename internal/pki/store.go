package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Options configures a [Store].
type Options struct {
	// Cluster is the cluster's name. If empty, it is that of the certificate; without one any
	// cluster is accepted, which is for clients only.
	Cluster string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log gets messages about files that were read again, or could not be.
	Log *slog.Logger
}

// Store holds the certificate, the key and the trust bundle of one process. They can be replaced at
// any time; TLS configurations from the store use the current ones in each handshake. It is safe
// for concurrent use.
type Store struct {
	opts  Options
	dir   string // "" for a store in memory
	files *Files // of the operator, or nil

	mu     sync.Mutex // held while now is replaced
	looked time.Time  // when the operator's files were last read
	read   fileData
	failed string // last error of reading them, to log it once
	now    atomic.Pointer[material]

	seen   sightings                        // of callers
	served atomic.Pointer[x509.Certificate] // CA of the server that was checked last
}

// material is the state of a store at one moment. It is immutable.
type material struct {
	trust
	id     Identity // of leaf; zero without leaf or URI SAN
	leaf   *x509.Certificate
	given  []*x509.Certificate // leaf and intermediates
	shown  *tls.Certificate    // what is sent: given and the CA
	notes  []string            // warnings about files
	issuer *x509.Certificate
}

// NewStore returns an empty store in memory, for clients and tests.
func NewStore(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{opts: o}
	s.now.Store(&material{trust: newTrust(nil)})
	return s
}

var errOperators = errors.New("the certificates are files of the operator's own, which Quorate does not write")

// SetBundle replaces the trust bundle: 1 to 64 CA certificates as PEM. A certificate that none of
// them has signed stays, and [Store.Warnings] reports it. Setting the current bundle writes
// nothing: nodes receive it repeatedly.
func (s *Store) SetBundle(bundlePEM []byte) error {
	if s.files != nil {
		return errOperators
	}
	certs, err := ParseBundle(bundlePEM)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := EncodeCertificates(certs...)
	if bytes.Equal(next, EncodeCertificates(s.current().certs...)) {
		return nil
	}
	if err := s.write(bundleFile, next); err != nil {
		return err
	}
	s.now.Store(s.current().withTrust(newTrust(certs)))
	return nil
}

// Install replaces the certificate and its key. The certificate must be of this cluster, currently
// valid, and signed by a CA in the bundle; else nothing changes. After a crash the store has either
// the old pair or the new one.
func (s *Store) Install(certPEM []byte, keyPEM KeyPEM) error {
	if s.files != nil {
		return errOperators
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.current().withPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	if err := m.checkOwn(s.opts.Cluster, s.opts.Now()); err != nil {
		return err
	}
	if err := s.writePair(EncodeCertificates(m.given...), keyPEM); err != nil {
		return err
	}
	s.now.Store(m)
	return nil
}

// checkOwn checks a certificate that the cluster issued to this process.
func (m *material) checkOwn(cluster string, now time.Time) error {
	id, err := IdentityOf(m.leaf, cluster)
	if err != nil {
		return err
	}
	if id.Foreign() {
		return fmt.Errorf("the certificate is for %s; must be for cluster %s", id, cluster)
	}
	return m.verify(m.given, x509.ExtKeyUsageClientAuth, now)
}

// withTrust returns a copy with another bundle.
func (m *material) withTrust(t trust) *material {
	next := &material{trust: t, notes: m.notes}
	if m.leaf != nil {
		next.show(m.given, m.shown.PrivateKey)
	}
	return next
}

// withPair returns a copy with another certificate and key.
func (m *material) withPair(certPEM []byte, keyPEM KeyPEM) (*material, error) {
	chain, err := ParseCertificates(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if chain[0].IsCA {
		return nil, fmt.Errorf("the certificate is that of a %s; must be a node's or client's", describe(chain[0]))
	}
	if !sameKey(chain[0].PublicKey, key.Public()) {
		return nil, errKeyMismatch
	}
	next := &material{trust: m.trust, notes: m.notes}
	next.show(chain, key)
	return next, nil
}

var errKeyMismatch = errors.New("the private key does not belong to the certificate")

func (m *material) show(chain []*x509.Certificate, key any) {
	m.leaf, m.given = chain[0], chain
	m.issuer = m.trust.issuer(chain[len(chain)-1])
	if id, err := IdentityOf(m.leaf, ""); err == nil {
		m.id = id
	}
	m.shown = &tls.Certificate{PrivateKey: key, Leaf: m.leaf}
	for _, c := range m.complete(chain) {
		m.shown.Certificate = append(m.shown.Certificate, c.Raw)
	}
}

// current returns the current material without checking files.
func (s *Store) current() *material { return s.now.Load() }

// fresh returns the current material after checking the operator's files.
func (s *Store) fresh() *material {
	s.look()
	return s.current()
}

// cluster returns the cluster that certificates must belong to, "" for any.
func (s *Store) cluster(m *material) string {
	if s.opts.Cluster != "" {
		return s.opts.Cluster
	}
	return m.id.Cluster
}
