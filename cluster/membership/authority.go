package membership

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
)

// Certificates are this node's certificate and what it trusts, where the links
// and servers look them up. Nil when the cluster has no authority of its own: the
// operator then renews certificates, or there are none.
type Certificates interface {
	// NeedsRenewal says whether the certificate is to be replaced soon.
	NeedsRenewal(now time.Time) bool
	// Signer is the fingerprint of the authority that signed the certificate.
	Signer() string
	// Trusts are the fingerprints of the authorities that are trusted.
	Trusts() []string
	// Request makes a key and asks for its certificate, in DER. The key is used
	// once the certificate is installed.
	Request() (csr []byte, err error)
	// Install begins to use the certificate of the last request, in PEM.
	Install(certificate []byte) error
	// SetTrust replaces what is trusted, in PEM.
	SetTrust(bundle []byte) error
	// Seen are the certificates of callers that were good here, at most pki.MaxSeen.
	Seen() []pki.Seen
}

// certificateTTL is how long a node's certificate is valid; it is renewed after
// two thirds of that.
const certificateTTL = 30 * 24 * time.Hour

// trustOf are the authorities to trust, in PEM.
func trustOf(a *raftlogv1.StoredAuthority) []byte {
	return bytes.Join([][]byte{a.GetCertificate(), a.GetNextCertificate(), a.GetLastCertificate()}, nil)
}

// takeTrust has this node trust what the membership says.
func (s *Service) takeTrust(t *Table) error {
	if s.cfg.Certificates == nil || t.Authority() == nil {
		return nil
	}
	return s.cfg.Certificates.SetTrust(trustOf(t.Authority()))
}

// sign signs the certificate of a node, or of a client.
func (s *Service) sign(t *Table, csr []byte, id pki.Identity, hosts []string, ttl time.Duration) ([]byte, error) {
	a := t.Authority()
	if a == nil {
		return nil, &Error{Kind: Forbidden, Text: "this cluster has no authority of its own: its certificates come from its operator"}
	}
	now := time.Now()
	ca, err := pki.ParseCA(a.GetCertificate(), pki.KeyPEM(a.GetKey()), now)
	if err != nil {
		return nil, fmt.Errorf("the cluster's authority: %w", err)
	}
	cert, err := ca.Sign(csr, id, hosts, now, ttl)
	if err != nil {
		return nil, &Error{Kind: Invalid, Text: "csr: " + err.Error()}
	}
	return cert, nil
}

func fingerprint(certPEM []byte) string {
	certs, err := pki.ParseCertificates(certPEM)
	if err != nil || len(certs) == 0 {
		return ""
	}
	return pki.Fingerprint(certs[0]).String()
}

// lateMembers are those that are not dead and of which it does not hold.
func lateMembers(t *Table, holds func(*Member) bool) (late []quota.NodeID) {
	for _, id := range t.IDs() {
		if m := t.Member(id); !m.Dead && !holds(m) {
			late = append(late, id)
		}
	}
	return late
}

func putAuthority(a *raftlogv1.StoredAuthority) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Authority{Authority: a}}
}

// Bounds of client certificates.
const (
	defaultClientTTL = 90 * 24 * time.Hour
	maxClientTTL     = 366 * 24 * time.Hour
)

func (s *Service) issueCertificate(_ context.Context, _ *caller, r *quoratev1.IssueCertificateRequest) (*quoratev1.IssueCertificateResponse, error) {
	ttl := defaultClientTTL
	if r.Ttl != nil {
		ttl = r.Ttl.AsDuration()
	}
	if ttl < time.Minute || ttl > maxClientTTL {
		return nil, refuse(Invalid, "ttl: %v; must be 1m to 8784h", ttl)
	}
	t := s.node.Table()
	cert, err := s.sign(t, r.GetCsr(), pki.Identity{Cluster: s.cfg.Cluster, Kind: pki.Client, Name: r.GetName()}, nil, ttl)
	if err != nil {
		return nil, err
	}
	return &quoratev1.IssueCertificateResponse{Certificate: cert, Trust: trustOf(t.Authority())}, nil
}

// authorityTTL is how long an authority signs and is trusted.
const authorityTTL = 10 * 365 * 24 * time.Hour

// rotateAuthority begins a rotation, ends one, or tells how far it is.
func (s *Service) rotateAuthority(ctx context.Context, _ *caller, r *quoratev1.RotateAuthorityRequest) (*quoratev1.RotateAuthorityResponse, error) {
	t, err := s.amend(ctx, func(t *Table) (*raftlogv1.ChangeMembers, error) {
		a := t.Authority()
		if a == nil {
			return nil, &Error{Kind: Forbidden, Text: "this cluster has no authority of its own: its certificates come from its operator"}
		}
		phase, waits := rotation(t)
		switch {
		case r.GetAsk():
			return nil, nil
		case r.GetFinish() && phase != "finishing":
			return nil, refuse(Forbidden, "finish: the rotation is not so far: %s %s", phase, waits)
		case r.GetFinish():
			return putAuthority(&raftlogv1.StoredAuthority{Certificate: a.Certificate, Key: a.Key}), nil
		case phase == "trusted":
			return putAuthority(&raftlogv1.StoredAuthority{Certificate: a.NextCertificate, Key: a.NextKey, LastCertificate: a.Certificate}), nil
		case phase != "steady":
			return nil, nil // under way already
		}
		ca, err := pki.NewCA(s.cfg.Cluster, time.Now(), authorityTTL)
		if err != nil {
			return nil, err
		}
		p, err := ca.Pair()
		if err != nil {
			return nil, err
		}
		return putAuthority(&raftlogv1.StoredAuthority{Certificate: a.Certificate, Key: a.Key, NextCertificate: p.CertPEM, NextKey: p.KeyPEM}), nil
	})
	if err != nil {
		return nil, err
	}
	out := &quoratev1.RotateAuthorityResponse{Fingerprint: fingerprint(t.Authority().GetCertificate()), Trust: trustOf(t.Authority()), LostJoinTokens: lostTokens(t)}
	out.Phase, out.WaitsFor = rotation(t)
	return out, nil
}

// rotation is how far a rotation is, and what it waits for.
func rotation(t *Table) (phase, waits string) {
	a := t.Authority()
	if len(a.GetNextCertificate()) > 0 {
		next := fingerprint(a.NextCertificate)
		if late := lateMembers(t, func(m *Member) bool { return slices.Contains(m.Trusts, next) }); len(late) > 0 {
			return "trusting", fmt.Sprintf("nodes that do not trust the next authority yet: %v", late)
		}
		return "trusted", "an operator, who has the clients trust the next authority too, and then rotates on: it signs then"
	}
	if len(a.GetLastCertificate()) == 0 {
		return "steady", ""
	}
	current := fingerprint(a.Certificate)
	if late := lateMembers(t, func(m *Member) bool { return m.SignedBy == current }); len(late) > 0 {
		return "signing", fmt.Sprintf("nodes whose certificate is of the earlier authority: %v", late)
	}
	return "finishing", "an operator, who renews the clients' certificates and then ends the trust in the earlier authority"
}

// addSeen adds to an answer about the authority whose certificates this node has seen, and
// members that are dead: those did not renew theirs. Each node knows its own callers alone.
func (s *Service) addSeen(r *quoratev1.RotateAuthorityResponse) {
	if s.cfg.Certificates == nil {
		return
	}
	for _, c := range s.cfg.Certificates.Seen() {
		r.Seen = append(r.Seen, &quoratev1.SeenCertificate{
			Identity: callerName(c.Identity), Authority: c.Issuer.String(), At: timestamppb.New(c.At), Node: string(s.cfg.Self),
		})
	}
	t := s.node.Table()
	for _, id := range t.IDs() {
		if m := t.Member(id); m.Dead && m.SignedBy != "" {
			r.Seen = append(r.Seen, &quoratev1.SeenCertificate{Identity: "node:" + string(id), Authority: m.SignedBy})
		}
	}
}

// callerName is how roles are bound to an identity.
func callerName(id pki.Identity) string {
	if id.Foreign() {
		return id.Name
	}
	return id.Kind.String() + ":" + id.Name
}
