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

// Options are what a [Store] needs to know besides its files.
type Options struct {
	// Cluster is the name of the cluster. Empty: that of the certificate, or,
	// without one, any; the latter is for clients only.
	Cluster string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Log hears of files that were read anew, and of those that could not be.
	Log *slog.Logger
}

// Store is what one process shows and trusts: its certificate with key, and the
// trust bundle. They can be replaced at any time; TLS configurations made from
// the store look at it in each handshake. Safe for concurrent use.
type Store struct {
	opts  Options
	dir   string // where it is kept; "" for memory
	files *Files // the operator's own, or nil

	mu     sync.Mutex // held while what is shown changes
	looked time.Time  // when the operator's files were last read
	read   fileData
	failed string // the last error of reading them, to log it once
	now    atomic.Pointer[material]

	seen   sightings                        // of callers
	served atomic.Pointer[x509.Certificate] // the CA of the server that was checked last
}

// material is what the store shows at one moment. Immutable.
type material struct {
	trust
	id     Identity // of leaf; zero when there is none, or it has no URI SAN
	leaf   *x509.Certificate
	given  []*x509.Certificate // leaf, and what lies between it and the CA
	shown  *tls.Certificate    // what is given, and the CA
	notes  []string            // what is wrong with files
	issuer *x509.Certificate
}

// NewStore returns an empty store in memory: for clients, and for tests.
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

// SetBundle replaces the trust bundle: 1 to 64 certificates of CAs, PEM. A
// certificate that none of them has signed stays, and [Store.Warnings] says so.
// A bundle that is trusted already costs no write: nodes are told of theirs all the time.
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

// Install replaces the certificate and its key. The certificate must be one of
// this cluster, in its time, and signed by a CA of the bundle; else nothing
// changes. After a crash the store has the old pair or the new one.
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

// checkOwn looks at a certificate that the cluster has given to this process.
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

// withTrust returns what is shown with another bundle.
func (m *material) withTrust(t trust) *material {
	next := &material{trust: t, notes: m.notes}
	if m.leaf != nil {
		next.show(m.given, m.shown.PrivateKey)
	}
	return next
}

// withPair returns what is shown with another certificate.
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

// current returns what is shown, without looking at files.
func (s *Store) current() *material { return s.now.Load() }

// fresh returns what is shown, after a look at the operator's files.
func (s *Store) fresh() *material {
	s.look()
	return s.current()
}

// cluster is the name that certificates are held to, "" for any.
func (s *Store) cluster(m *material) string {
	if s.opts.Cluster != "" {
		return s.opts.Cluster
	}
	return m.id.Cluster
}
