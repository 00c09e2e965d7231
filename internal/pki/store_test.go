package pki

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func open(t *testing.T, dir string, c *clock) *Store {
	t.Helper()
	return must[*Store](t)(OpenStore(dir, Options{Cluster: "prod", Now: c.Now}))
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	check(t, os.WriteFile(path, data, 0o600))
}

func TestStore(t *testing.T) {
	c := &clock{now: start}
	dir := filepath.Join(t.TempDir(), "data", "pki")
	ca := newCA(t, "prod")
	s := open(t, dir, c)
	if !s.Empty() || !s.NeedsRenewal(start) || !s.NotAfter().IsZero() || s.Bundle() != nil {
		t.Error("a new store is not empty")
	}
	_, err := s.ServerConfig(PeerPort).GetCertificate(&tls.ClientHelloInfo{})
	wantErr(t, "handshake of an empty store", err, "this node has no certificate yet")
	check(t, s.SetBundle(bundleOf(ca)))
	p := issue(t, ca, nodeID("n1"), start)
	check(t, s.Install(p.CertPEM, p.KeyPEM))
	want := Status{
		Identity: nodeID("n1"), Serial: s.Status().Serial, NotBefore: start.Add(-Skew), NotAfter: start.Add(7 * day),
		Issuer: Fingerprint(ca.Certificate), Bundle: []Hash{Fingerprint(ca.Certificate)},
	}
	again := open(t, dir, c)
	for name, s := range map[string]*Store{"at once": s, "opened again": again} {
		got := s.Status()
		if got.Identity != want.Identity || got.Serial != want.Serial || !got.NotBefore.Equal(want.NotBefore) || !got.NotAfter.Equal(want.NotAfter) ||
			got.Issuer != want.Issuer || !slices.Equal(got.Bundle, want.Bundle) || s.Empty() || !bytes.Equal(s.Bundle(), bundleOf(ca)) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if w := s.Warnings(); len(w) > 0 {
			t.Errorf("%s: warns %q", name, w)
		}
	}
	for _, name := range []string{"", bundleFile, certFile, keyFile} {
		mode := must[os.FileInfo](t)(os.Stat(filepath.Join(dir, name))).Mode().Perm()
		if runtime.GOOS != "windows" && mode&0o077 != 0 {
			t.Errorf("%s: mode %o lets others in", name, mode)
		}
	}
	if left := must[[]os.DirEntry](t)(os.ReadDir(dir)); len(left) != 3 {
		t.Errorf("files in the directory: %v, want three", left)
	}
}

// TestSetBundleAgain checks that an unchanged bundle is not written again: a node gets its bundle five
// times a second.
func TestSetBundleAgain(t *testing.T) {
	c := &clock{now: start}
	dir := t.TempDir()
	ca, next := newCA(t, "prod"), newCA(t, "prod")
	check(t, open(t, dir, c).SetBundle(bundleOf(ca)))
	s := open(t, dir, c)
	file := func() os.FileInfo { return must[os.FileInfo](t)(os.Stat(filepath.Join(dir, bundleFile))) }
	before := file()
	check(t, s.SetBundle(bundleOf(ca)))
	if !os.SameFile(before, file()) {
		t.Error("the bundle that is trusted already was written again")
	}
	check(t, s.SetBundle(bundleOf(ca, next)))
	if os.SameFile(before, file()) || !bytes.Equal(s.Bundle(), bundleOf(ca, next)) {
		t.Error("another bundle was not taken over")
	}
}

func TestNeedsRenewal(t *testing.T) {
	c := &clock{now: start}
	ca, next := newCA(t, "prod"), newCA(t, "prod")
	s := storeOf(t, c, must[Pair](t)(ca.Issue(nodeID("n1"), nil, start, 90*day-Skew)), ca)
	for after, want := range map[time.Duration]bool{0: false, 60*day - Skew - time.Second: false, 60*day - Skew: true, 100 * day: true} {
		if got := s.NeedsRenewal(start.Add(after)); got != want {
			t.Errorf("after %s: %t, want %t", after, got, want)
		}
	}
	check(t, s.SetBundle(bundleOf(next)))
	if !s.NeedsRenewal(start) {
		t.Error("a certificate of a CA that is gone needs no renewal")
	}
}

// TestInstallErrors: each leaves the store as it was, in memory and on disk.
func TestInstallErrors(t *testing.T) {
	c := &clock{now: start}
	dir := t.TempDir()
	ca, other := newCA(t, "prod"), newCA(t, "prod")
	s := open(t, dir, c)
	check(t, s.SetBundle(bundleOf(ca)))
	good := issue(t, ca, nodeID("n1"), start)
	check(t, s.Install(good.CertPEM, good.KeyPEM))
	serial := s.Status().Serial
	n2 := issue(t, ca, nodeID("n2"), start)
	caPair := must[Pair](t)(ca.Pair())
	test := issue(t, newCA(t, "test"), Identity{"test", Node, "n1"}, start)
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"another key", s.Install(n2.CertPEM, good.KeyPEM), "the private key does not belong to the certificate"},
		{"other CA", pairInto(s, issue(t, other, nodeID("n1"), start)), "signed by another CA"},
		{"expired", pairInto(s, issue(t, ca, nodeID("n1"), start.Add(-8*day))), "expired 1 day ago"},
		{"other cluster", pairInto(s, test), "is for client spiffe://test/node/n1; must be for cluster prod"},
		{"the CA itself", pairInto(s, caPair), "; must be a node's or client's"},
		{"nobody", s.Install(nil, good.KeyPEM), "none found"},
		{"bundle of a node", s.SetBundle(n2.CertPEM), "number 1 (node n2 of cluster prod) is not a CA certificate; a trust bundle must contain only those"},
		{"bundle with a key", s.SetBundle(append(bundleOf(ca), caPair.KeyPEM...)), `have a PEM block "PRIVATE KEY"`},
		{"empty bundle", s.SetBundle(nil), "none found"},
		{"large bundle", s.SetBundle(bytes.Repeat(bundleOf(ca), 65)), "more than 64"},
	} {
		wantErr(t, tc.name, tc.err, tc.want)
	}
	for name, s := range map[string]*Store{"in memory": s, "on disk": open(t, dir, c)} {
		if st := s.Status(); st.Serial != serial || !st.Trusts(Fingerprint(ca.Certificate)) || len(st.Bundle) != 1 {
			t.Errorf("%s: the store has changed: %+v", name, st)
		}
	}
}

func pairInto(s *Store, p Pair) error { return s.Install(p.CertPEM, p.KeyPEM) }

// TestInstallCrash ends the process after every step of an Install: the next one
// has the old pair or the new one.
func TestInstallCrash(t *testing.T) {
	c := &clock{now: start}
	ca := newCA(t, "prod")
	before, after := issue(t, ca, nodeID("n1"), start), issue(t, ca, nodeID("n1"), start)
	serial := map[string]string{}
	for name, p := range map[string]Pair{"old": before, "new": after} {
		serial[storeOf(t, c, p, ca).Status().Serial] = name
	}
	steps := []struct {
		name string
		do   func(t *testing.T, dir string)
		want string
	}{
		{"half of the key", func(t *testing.T, dir string) { put(t, filepath.Join(dir, nextKey+".tmp"), after.KeyPEM[:50]) }, "old"},
		{"the key", func(t *testing.T, dir string) { put(t, filepath.Join(dir, nextKey), after.KeyPEM) }, "old"},
		{"half of the certificate", func(t *testing.T, dir string) { put(t, filepath.Join(dir, certFile+".tmp"), after.CertPEM[:50]) }, "old"},
		{"the certificate", func(t *testing.T, dir string) { put(t, filepath.Join(dir, certFile), after.CertPEM) }, "new"},
		{"the key in its place", func(t *testing.T, dir string) {
			check(t, os.Rename(filepath.Join(dir, nextKey), filepath.Join(dir, keyFile)))
		}, "new"},
	}
	for n := range steps {
		dir := t.TempDir()
		s := open(t, dir, c)
		check(t, errors.Join(s.SetBundle(bundleOf(ca)), pairInto(s, before)))
		for _, step := range steps[:n+1] {
			step.do(t, dir)
		}
		for range 2 { // the second start finds what the first has put right
			s = open(t, dir, c)
			if got := serial[s.Status().Serial]; got != steps[n].want {
				t.Errorf("after %s: has the %s pair, want the %s one", steps[n].name, got, steps[n].want)
			}
			if _, err := os.Stat(filepath.Join(dir, nextKey)); err == nil && steps[n].want == "new" {
				t.Errorf("after %s: the key is not in its place yet", steps[n].name)
			}
		}
		check(t, pairInto(s, issue(t, ca, nodeID("n1"), start)))
		if w := open(t, dir, c).Warnings(); len(w) > 0 {
			t.Errorf("after %s: warns %q", steps[n].name, w)
		}
	}
}

// TestInstallFails: a disk that refuses a file leaves the old pair, in memory and
// for the next process.
func TestInstallFails(t *testing.T) {
	c := &clock{now: start}
	ca := newCA(t, "prod")
	for _, name := range []string{nextKey, certFile} {
		dir := t.TempDir()
		s := open(t, dir, c)
		check(t, errors.Join(s.SetBundle(bundleOf(ca)), pairInto(s, issue(t, ca, nodeID("n1"), start))))
		serial := s.Status().Serial
		check(t, os.MkdirAll(filepath.Join(dir, name+".tmp", "x"), 0o700)) // cannot be written, nor removed
		wantErr(t, name, pairInto(s, issue(t, ca, nodeID("n1"), start)), "certificates: remove")
		for when, s := range map[string]*Store{"now": s, "next": open(t, dir, c)} {
			if got := s.Status().Serial; got != serial {
				t.Errorf("%s could not be written: %s, the store has %s, want the old %s", name, when, got, serial)
			}
		}
	}
}

func TestOpenStoreErrors(t *testing.T) {
	c := &clock{now: start}
	ca := newCA(t, "prod")
	p, q := issue(t, ca, nodeID("n1"), start), issue(t, ca, nodeID("n1"), start)
	test := issue(t, newCA(t, "test"), Identity{"test", Node, "n1"}, start)
	for name, tc := range map[string]struct {
		files map[string][]byte
		err   string
	}{
		"no key":          {map[string][]byte{certFile: p.CertPEM}, "node.crt without its key"},
		"another key":     {map[string][]byte{certFile: p.CertPEM, keyFile: q.KeyPEM}, "node.crt and node.key: the private key does not belong to the certificate"},
		"broken bundle":   {map[string][]byte{bundleFile: []byte("x")}, "ca.crt: certificates: none found"},
		"broken pair":     {map[string][]byte{certFile: p.CertPEM[:50], keyFile: p.KeyPEM}, "none found; must be PEM"},
		"another cluster": {map[string][]byte{certFile: test.CertPEM, keyFile: test.KeyPEM}, "is that of node n1 of cluster test; must be of cluster prod"},
	} {
		dir := t.TempDir()
		for file, data := range tc.files {
			put(t, filepath.Join(dir, file), data)
		}
		wantErr(t, name, second(OpenStore(dir, Options{Cluster: "prod", Now: c.Now})), tc.err)
	}
}

func TestWarnings(t *testing.T) {
	c := &clock{now: start}
	dir := t.TempDir()
	ca, next := newCA(t, "prod"), newCA(t, "prod")
	s := open(t, dir, c)
	check(t, errors.Join(s.SetBundle(bundleOf(ca)), pairInto(s, issue(t, ca, nodeID("n1"), start))))
	check(t, os.Chmod(filepath.Join(dir, keyFile), 0o640))
	s = open(t, dir, c)
	if runtime.GOOS != "windows" { // there the mode does not say so
		warns(t, "a key for others", s, "node.key: others than its owner can access it (mode 0640); chmod 600 it")
	}
	check(t, s.SetBundle(bundleOf(next)))
	warns(t, "a bundle without its CA", s, "this side's own certificate: the certificate of node n1 of cluster prod was signed by another CA")
	c.add(8 * day)
	warns(t, "expired", s, "this side's own certificate: the certificate of node n1 of cluster prod expired 1 day ago")
	c.add(CALife - 30*day - 8*day - 89*day)
	warns(t, "before the CA's end", s, `expires in 89 days: rotate the CA`)
	c.add(90 * day)
	warns(t, "after the CA's end", s, `the certificate of CA "SERIALNUMBER=`, "expired 1 day ago")
}

func warns(t *testing.T, name string, s *Store, want ...string) {
	t.Helper()
	got := strings.Join(s.Warnings(), "\n")
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: warns\n%s\nwant %q in it", name, got, w)
		}
	}
}

// ownCA is a CA of the operator's: it names anybody.
func ownCA(t *testing.T) *CA {
	t.Helper()
	ca := newCA(t, "corp")
	plain := *ca.Certificate
	plain.PermittedURIDomains, plain.ExtraExtensions = nil, nil
	key := ca.key
	p := selfSigned(t, key, func(c *x509.Certificate) { c.IsCA, c.Subject, c.NotBefore = true, plain.Subject, plain.NotBefore })
	return &CA{certOf(t, p), key}
}

type ownAuthority struct {
	t   *testing.T
	ca  *CA
	dir string
}

func (o ownAuthority) files() Files {
	return Files{filepath.Join(o.dir, "ca.pem"), filepath.Join(o.dir, "tls.crt"), filepath.Join(o.dir, "tls.key")}
}

func (o ownAuthority) write(p Pair) {
	o.t.Helper()
	f := o.files()
	put(o.t, f.CA, bundleOf(o.ca))
	put(o.t, f.Cert, p.CertPEM)
	put(o.t, f.Key, p.KeyPEM)
}

func (o ownAuthority) named(dns ...string) Pair {
	return custom(o.t, o.ca, func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, dns })
}

// TestOwnFiles: they are read again when they change, and while they do not fit
// together the old ones stay.
func TestOwnFiles(t *testing.T) {
	c := &clock{now: start}
	o := ownAuthority{t, ownCA(t), t.TempDir()}
	first, then := o.named("n1"), custom(t, o.ca, func(c *x509.Certificate) { c.URIs, c.DNSNames, c.SerialNumber = nil, []string{"n1"}, serialTwo })
	o.write(first)
	var logged strings.Builder
	s := must[*Store](t)(OpenFiles(o.files(), Options{Cluster: "prod", Now: c.Now, Log: slog.New(slog.NewTextHandler(&logged, nil))}))
	serial := func(name, want string) {
		t.Helper()
		if got := s.Status().Serial; got != want {
			t.Errorf("%s: serial %s, want %s", name, got, want)
		}
	}
	serial("at first", "1")
	put(t, o.files().Key, then.KeyPEM) // the certificate follows later
	serial("at once", "1")
	for range 3 {
		c.add(lookEvery)
		serial("the key alone", "1")
	}
	if n := strings.Count(logged.String(), "could not be read again"); n != 1 || !strings.Contains(logged.String(), "does not belong") {
		t.Errorf("logged %d times, want once with the reason:\n%s", n, &logged)
	}
	put(t, o.files().Cert, then.CertPEM)
	serial("within two seconds", "1")
	c.add(lookEvery)
	serial("after two seconds", "2")
	c.add(-time.Hour) // a clock that was set back
	o.write(first)
	serial("after the clock was set back", "1")
	check(t, os.Remove(o.files().CA))
	c.add(lookEvery)
	serial("without a file", "1")
	wantErr(t, "Install", pairInto(s, first), "which Quorate does not write")
	wantErr(t, "SetBundle", s.SetBundle(bundleOf(o.ca)), "which Quorate does not write")
	if s.NeedsRenewal(start.Add(100 * day)) {
		t.Error("wants to renew what is the operator's")
	}
}

func TestOpenFilesErrors(t *testing.T) {
	o := ownAuthority{t, ownCA(t), t.TempDir()}
	f := o.files()
	wantErr(t, "missing", second(OpenFiles(f, Options{})), "ca.pem: "+syscall.ENOENT.Error())
	o.write(Pair{CertPEM: []byte("x"), KeyPEM: KeyPEM("y")})
	wantErr(t, "broken", second(OpenFiles(f, Options{})), "tls.key: certificates: none found")
	wantErr(t, "no key", second(OpenFiles(Files{CA: f.CA, Cert: f.Cert}, Options{})), "must be given together")
	wantErr(t, "no CA", second(OpenFiles(Files{}, Options{})), "the file of the CA is not given")
	check(t, second(OpenFiles(Files{CA: f.CA}, Options{})))
}

// TestOwnCA is who counts as whom with certificates of the operator's own CA.
func TestOwnCA(t *testing.T) {
	c := &clock{now: start}
	ca := ownCA(t)
	dir := func(p Pair) *Store {
		o := ownAuthority{t, ca, t.TempDir()}
		o.write(p)
		return must[*Store](t)(OpenFiles(o.files(), Options{Cluster: "prod", Now: c.Now}))
	}
	o := ownAuthority{t, ca, ""}
	uri := func(id string) Pair {
		return custom(t, ca, func(c *x509.Certificate) { c.URIs = mustURI(t, id) })
	}
	for _, tc := range []struct {
		name     string
		shown    Pair
		peer     Why    // at the port for nodes
		isN2     Why    // as node n2
		api, who string // at the API's ports: why not, or who
		byHost   Why    // dialed as a.example, any node wanted
	}{
		{name: "node by URI", shown: uri("spiffe://prod/node/n2"), who: "node n2 of cluster prod"},
		{name: "node by DNS", shown: o.named("n2", "a.example"), who: "client dns:n2"},
		{name: "node by one DNS name", shown: o.named("n2"), who: "client dns:n2", byHost: WrongNode},
		{name: "another host", shown: o.named("web.example"), isN2: WrongNode, who: "client dns:web.example", byHost: WrongNode},
		{name: "the host", shown: o.named("a.example"), isN2: WrongNode, who: "client dns:a.example"},
		{name: "foreign", shown: uri("spiffe://corp.example/billing"), peer: WrongKind, isN2: WrongKind, who: "client spiffe://corp.example/billing", byHost: WrongNode},
		{name: "foreign node", shown: uri("spiffe://test/node/n2"), peer: OtherCluster, isN2: OtherCluster, who: "client spiffe://test/node/n2", byHost: WrongNode},
		{name: "client", shown: uri("spiffe://prod/client/n2"), peer: WrongKind, isN2: WrongKind, who: "client n2 of cluster prod", byHost: WrongNode},
		{name: "nobody", shown: o.named(), peer: NoIdentity, isN2: NoIdentity, api: "no_identity", byHost: WrongNode},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, other := dir(o.named("n1")), dir(tc.shown)
			leaf := certOf(t, tc.shown)
			cs := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
			for what, one := range map[string]struct{ got, want Why }{
				"peer port":  {whyOf(server.CheckCaller(PeerPort, cs)), tc.peer},
				"is n2":      {whyOf(server.IsNode(leaf, "n2")), tc.isN2},
				"n2 dialed":  {whyOf(second(handshakeClient(t, other, server, Want{Node: "n2"}))), tc.isN2},
				"API":        {whyOf(server.CheckCaller(APIPort, cs)), Why(tc.api)},
				"host":       {whyOf(second(handshakeClient(t, other, server, Want{Host: "a.example"}))), tc.byHost},
				"no address": {whyOf(second(handshakeClient(t, other, server, Want{Node: "a.examplE"}))), cmp.Or(tc.peer, WrongNode)},
			} {
				if one.got != one.want {
					t.Errorf("%s: %q, want %q", what, one.got, one.want)
				}
			}
			if id, _, err := server.Caller(cs); err == nil && id.String() != tc.who || err != nil && tc.who != "" {
				t.Errorf("the caller is %s, %v; want %q", id, err, tc.who)
			}
		})
	}
}

// handshakeClient lets client dial server, and returns what the client got.
func handshakeClient(t *testing.T, server, client *Store, w Want) (struct{}, error) {
	t.Helper()
	config := server.ServerConfig(APIPort)
	config.ClientAuth = tls.NoClientCert
	_, err := handshake(t, config, client.ClientConfig(w))
	return struct{}{}, err
}
