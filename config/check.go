package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
)

// finish derives the missing settings, checks all settings against each other, and returns them, or
// every fault of every layer.
func (s *nodeSettings) finish() (Node, error) {
	s.complete(s.isGiven)
	s.checkNode()
	s.checkListen()
	s.checkTimes()
	s.checkTLS()
	file, env := s.file.err(), s.env.err()
	switch {
	case file == nil && env == nil:
		return s.Node, nil
	case env == nil:
		return Node{}, file
	case file == nil:
		return Node{}, env
	}
	return Node{}, errors.Join(file, env)
}

func (s *nodeSettings) isGiven(path string) bool {
	_, ok := s.given[path]
	return ok
}

// checkNode requires this node to be in the list of nodes, if the settings have one. If there are
// others, the settings must name this node: two nodes must never both use the default id.
func (s *nodeSettings) checkNode() {
	if !s.isGiven("nodes") {
		return
	}
	var ids []string
	for _, p := range s.Nodes {
		if p.ID == s.Node.Node && (s.isGiven("node") || len(s.Nodes) == 1) {
			return
		}
		ids = append(ids, string(p.ID))
	}
	these := strings.Join(ids[:min(len(ids), 10)], ", ")
	if s.isGiven("node") {
		s.conflict([]string{"node", "nodes"}, "%s is not in nodes; must be one of %s", clip(string(s.Node.Node)), these)
		return
	}
	s.conflict([]string{"nodes", "node"}, "node is missing; say which of the nodes this one is: %s", these)
}

// checkListen refuses two addresses that need the same port.
func (s *nodeSettings) checkListen() {
	l := s.Listen
	all := []struct{ path, addr string }{
		{"listen.http", l.HTTP}, {"listen.grpc", l.GRPC}, {"listen.peer", l.Peer}, {"listen.debug", s.Debug}, {"listen.redis", s.Redis},
	}
	for i, b := range all {
		for _, a := range all[:i] {
			hostA, portA, _ := net.SplitHostPort(a.addr)
			hostB, portB, _ := net.SplitHostPort(b.addr)
			if portA == portB && portA != "" && portA != "0" && (hostA == hostB || everyHost(hostA) || everyHost(hostB)) {
				s.conflict([]string{b.path, a.path, "nodes"}, "%s %s and %s %s use the same port; must be different", a.path, a.addr, b.path, b.addr)
			}
		}
	}
}

func everyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// tlsFiles lists the settings that name TLS files.
var tlsFiles = []string{"tls.ca", "tls.cert", "tls.key", "tls.ca_key"}

// checkTLS requires no TLS files, or the CA with the node's certificate and key, or the CA with its
// key.
func (s *nodeSettings) checkTLS() {
	t := s.TLS
	if t.Mode == TLSOff {
		s.checkNoFiles()
		return
	}
	if (t.Cert == "") != (t.Key == "") {
		given, missing := "tls.cert", "tls.key"
		if t.Cert == "" {
			given, missing = missing, given
		}
		s.conflict([]string{given, missing}, "%s is missing; must be given with %s", missing, given)
	}
	if t.CAKey != "" && t.Cert != "" {
		s.conflict([]string{"tls.ca_key", "tls.cert"}, "tls.ca_key and tls.cert are both given; must be one of them: with tls.ca_key the node signs its own certificate")
	}
	own := t.Cert != "" || t.Key != "" || t.CAKey != ""
	if t.CA == "" && own {
		s.conflict([]string{"tls.cert", "tls.key", "tls.ca_key", "tls.ca"}, "tls.ca is missing; must be the file of the CA's certificate")
	}
	if t.CA != "" && !own {
		s.conflict(tlsFiles, "tls.ca is given alone; must be with tls.cert and tls.key, or with tls.ca_key")
	}
	if own {
		s.checkIdentities()
	}
}

// checkIdentities refuses node ids that are too long for the identity in a node's certificate.
func (s *nodeSettings) checkIdentities() {
	check := func(path string, id quota.NodeID) {
		if err := (pki.Identity{Kind: pki.Node, Name: string(id)}).CheckNew(); err != nil {
			s.conflict([]string{path}, "%s is too long for the identity in its certificate: %v", clip(string(id)), err)
		}
	}
	check("node", s.Node.Node)
	for _, p := range s.Nodes {
		if p.ID != s.Node.Node {
			check("nodes", p.ID)
		}
	}
}

// checkNoFiles refuses TLS files while TLS is off, because nothing would read them.
func (s *nodeSettings) checkNoFiles() {
	var files []string
	for _, path := range tlsFiles {
		if s.isGiven(path) {
			files = append(files, path)
		}
	}
	is := "is"
	if len(files) > 1 {
		is = "are"
	}
	if len(files) > 0 {
		s.conflict([]string{"tls.mode"}, "tls.mode is off, but %s %s given; must be auto, or without files", enumerate(files, "and"), is)
	}
}

// checkTimes requires the durations to be in the order that Raft needs, and idle keys to live
// longer than it takes to report them.
func (s *nodeSettings) checkTimes() {
	r := s.Raft
	if r.Lease > r.Heartbeat {
		s.conflict([]string{"raft.lease", "raft.heartbeat"}, "raft.lease %s is longer than raft.heartbeat %s; must be at most as long", phrase.Span(r.Lease), phrase.Span(r.Heartbeat))
	}
	if r.Election < r.Heartbeat {
		s.conflict([]string{"raft.election", "raft.heartbeat"}, "raft.election %s is shorter than raft.heartbeat %s; must be at least as long", phrase.Span(r.Election), phrase.Span(r.Heartbeat))
	}
	if s.Idle <= s.Sync {
		s.conflict([]string{"idle", "sync"}, "idle %s is not longer than sync %s; must be longer", phrase.Span(s.Idle), phrase.Span(s.Sync))
	}
}

// conflict reports a fault between settings, at the first of them that was given, unless one of
// them was already refused.
func (s *nodeSettings) conflict(paths []string, format string, args ...any) {
	for _, path := range paths {
		if s.given[path].bad {
			return
		}
	}
	message := fmt.Sprintf(format, args...)
	for _, path := range paths {
		o, ok := s.given[path]
		switch {
		case !ok:
			continue
		case o.variable != "":
			s.env.fault(0, 0, o.variable, "%s", message)
		default:
			o.value.Fault("%s", message)
		}
		return
	}
}
