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

// Certificates holds this node's certificate and its trusted authorities, for the links
// and servers. It is nil when the cluster has no authority of its own: the
// operator then renews certificates, or the cluster uses none.
type Certificates interface {
	// NeedsRenewal reports whether the certificate is due for renewal.
	NeedsRenewal(now time.Time) bool
	// Signer returns the fingerprint of the authority that signed the certificate.
	Signer() string
	// Trusts returns the fingerprints of the trusted authorities.
	Trusts() []string
	// Request generates a key and returns a certificate request for it, in DER. The key comes
	// into use once the certificate is installed.
	Request() (csr []byte, err error)
	// Install puts the certificate for the last request, in PEM, into use.
	Install(certificate []byte) error
	// SetTrust replaces the trusted authorities, in PEM.
	SetTrust(bundle []byte) error
	// Seen returns the certificates of callers that this node accepted, at most pki.MaxSeen.
	Seen() []pki.Seen
}

// certificateTTL is the lifetime of a node's certificate. The node renews it after
// two thirds of that.
const certificateTTL = 30 * 24 * time.Hour

// trustOf returns the authorities to trust, in PEM: the current, the next and the last one.
func trustOf(a *raftlogv1.StoredAuthority) []byte {
	return bytes.Join([][]byte{a.GetCertificate(), a.GetNextCertificate(), a.GetLastCertificate()}, nil)
}

// sign signs the certificate of a node or a client with the cluster's authority.
func (s *Service) sign(t *Table, csr []byte, id pki.Identity, hosts []string, ttl time.Duration) ([]byte, error) {
	a := t.Authority()
	if a == nil {
		return nil, &Error{Kind: Forbidden, Text: "this cluster has no authority: its operator issues the certificates"}
	}
	now := s.now()
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

// lateMembers returns the living members for which holds returns false.
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

// authorityTTL is the lifetime of an authority's certificate.
const authorityTTL = 10 * 365 * 24 * time.Hour

// rotateAuthority starts, advances or finishes a rotation of the authority, and returns its phase.
func (s *Service) rotateAuthority(ctx context.Context, c *caller, r *quoratev1.RotateAuthorityRequest) (*quoratev1.RotateAuthorityResponse, error) {
	t, err := s.amend(ctx, c.revision, func(t *Table) (*raftlogv1.ChangeMembers, error) {
		a := t.Authority()
		if a == nil {
			return nil, &Error{Kind: Forbidden, Text: "this cluster has no authority: its operator issues the certificates"}
		}
		phase, waits := rotation(t)
		switch {
		case r.GetAsk():
			return nil, nil
		case r.GetFinish() && phase != "finishing":
			return nil, refuse(Forbidden, "finish: the rotation cannot end yet: %s %s", phase, waits)
		case r.GetFinish():
			return putAuthority(&raftlogv1.StoredAuthority{Certificate: a.Certificate, Key: a.Key}), nil
		case phase == "trusted":
			return putAuthority(&raftlogv1.StoredAuthority{Certificate: a.NextCertificate, Key: a.NextKey, LastCertificate: a.Certificate}), nil
		case phase != "steady":
			return nil, nil // already in progress
		}
		ca, err := pki.NewCA(s.cfg.Cluster, s.now(), authorityTTL)
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
	return s.rotationOf(t), nil
}

// rotated reports a step of a rotation as not made: the table does not say who made it, and others may have.
func (s *Service) rotated(_ *caller, t *Table, r *quoratev1.RotateAuthorityRequest) (*quoratev1.RotateAuthorityResponse, bool, error) {
	return s.rotationOf(t), r.GetAsk(), nil
}

func (s *Service) rotationOf(t *Table) *quoratev1.RotateAuthorityResponse {
	out := &quoratev1.RotateAuthorityResponse{Fingerprint: fingerprint(t.Authority().GetCertificate()), Trust: trustOf(t.Authority()), LostJoinTokens: lostTokens(t, s.now())}
	out.Phase, out.WaitsFor = rotation(t)
	return out
}

// rotation returns the phase of a rotation, and what it waits for.
func rotation(t *Table) (phase, waits string) {
	a := t.Authority()
	if len(a.GetNextCertificate()) > 0 {
		next := fingerprint(a.NextCertificate)
		if late := lateMembers(t, func(m *Member) bool { return slices.Contains(m.Trusts, next) }); len(late) > 0 {
			return "trusting", fmt.Sprintf("nodes that do not trust the next authority yet: %v", late)
		}
		return "trusted", "an operator: let the clients trust the new authority too, then call rotate again so that it signs"
	}
	if len(a.GetLastCertificate()) == 0 {
		return "steady", ""
	}
	current := fingerprint(a.Certificate)
	if late := lateMembers(t, func(m *Member) bool { return m.SignedBy == current }); len(late) > 0 {
		return "signing", fmt.Sprintf("nodes whose certificate is of the earlier authority: %v", late)
	}
	return "finishing", "an operator: renew the clients' certificates, then end the trust in the earlier authority"
}

// addSeen adds the client certificates that this node has seen to an answer about the authority,
// and the dead members, which have not renewed theirs. Each node knows only its own callers.
func (s *Service) addSeen(r *quoratev1.RotateAuthorityResponse) {
	if s.cfg.Certificates == nil {
		return
	}
	for _, c := range s.cfg.Certificates.Seen() {
		r.Seen = append(r.Seen, &quoratev1.SeenCertificate{
			Identity: c.Identity.Caller(), Authority: c.Issuer.String(), At: timestamppb.New(c.At), Node: string(s.cfg.Self),
		})
	}
	t := s.node.Table()
	for _, id := range t.IDs() {
		if m := t.Member(id); m.Dead && m.SignedBy != "" {
			r.Seen = append(r.Seen, &quoratev1.SeenCertificate{Identity: "node:" + string(id), Authority: m.SignedBy})
		}
	}
}
