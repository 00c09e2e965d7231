package systemtest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/testspeed"
)

// intruder tries to get in at a port of a cluster with TLS.
type intruder struct {
	name  string
	plain bool // speaks no TLS
	shows *tls.Certificate
	ports []string // ports that must refuse it; the others serve callers without a certificate
}

// TestFaultsTLS checks that a cluster under load refuses everybody without a certificate, with a
// wrong one, or with a used join token.
func TestFaultsTLS(t *testing.T) {
	testspeed.Full(t)
	g := startGrowth(t, 3)
	tries := 20
	if longFaults() {
		tries = 500
	}
	began, token := time.Now(), g.token(time.Minute, 1)
	second, third := g.nodes[1], g.nodes[2]
	g.joining(second, token, g.nodes[0].grpc)
	g.serves(second)
	g.joining(third, token, g.nodes[0].grpc)
	select {
	case <-third.ended:
	case <-time.After(15 * time.Second):
		t.Errorf("%s still tries with a token that was used", third.id)
		third.kill()
	}
	said := strings.TrimSpace(third.stderr.String())
	if exitCode(third.err) <= 0 || !strings.Contains(said, "used") {
		t.Errorf("a token that was used: exit code %d, %q", exitCode(third.err), said)
	}
	t.Log(tail(said, 1))
	g.survived(t, began, "token replayed", "a join token for one node used by a second: "+second.id+" is in, "+third.id+" is refused")

	friend, intruders := g.visitors()
	for _, p := range g.nodes[0].ports() {
		if !letIn(p, &friend) { // otherwise refusals would prove nothing
			t.Errorf("a good certificate is refused at the %s port", p.name)
		}
	}
	for _, in := range intruders {
		began, refused, tried := time.Now(), 0, 0
		for range tries {
			for _, p := range g.nodes[0].ports() {
				if slices.Contains(in.ports, p.name) {
					tried++
					if letIn(p, &in) {
						t.Errorf("%s: was let in at the %s port", in.name, p.name)
					} else {
						refused++
					}
				}
			}
		}
		g.survived(t, began, in.name, fmt.Sprintf("refused %d of %d times at %s", refused, tried, strings.Join(in.ports, ", ")))
	}
	g.judge()
}

// visitors returns a friend with a valid certificate, and intruders: without a certificate, with a
// certificate of the cluster's CA that is not valid for the port, or with one of another CA.
func (g *growth) visitors() (friend intruder, intruders []intruder) {
	g.t.Helper()
	now := time.Now()
	at := func(file string) []byte {
		b, err := os.ReadFile(filepath.Join(g.nodes[0].dir, "pki", file))
		if err != nil {
			g.t.Fatal(err)
		}
		return b
	}
	own, err := pki.ParseCA(at("ca.crt"), at("ca.key"), now)
	if err != nil {
		g.t.Fatal(err)
	}
	cert, err := pki.ParseCertificates(at("node.crt"))
	if err != nil {
		g.t.Fatal(err)
	}
	cluster := cert[0].URIs[0].Host
	other, err := pki.NewCA(cluster, now, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	const life, short = 24 * time.Hour, time.Second
	pair := func(ca *pki.CA, kind pki.Kind, name string, life time.Duration) *tls.Certificate {
		var hosts []string
		if kind == pki.Node {
			hosts = []string{"127.0.0.1"}
		}
		p, err := ca.Issue(pki.Identity{Cluster: cluster, Kind: kind, Name: name}, hosts, now, life)
		if err != nil {
			g.t.Fatal(err)
		}
		c, err := tls.X509KeyPair(p.CertPEM, p.KeyPEM)
		if err != nil {
			g.t.Fatal(err)
		}
		return &c
	}
	peer, all := []string{"peer"}, []string{"HTTP", "gRPC", "peer"}
	defer func() { time.Sleep(time.Until(now.Add(short + 1500*time.Millisecond))) }() // until the short-lived certificates have expired
	friend = intruder{name: "friend", shows: pair(own, pki.Node, "n2", life)}
	return friend, []intruder{
		{name: "no TLS", plain: true, ports: all},
		{name: "no certificate", ports: peer},
		{name: "another CA's node", shows: pair(other, pki.Node, "n2", life), ports: all},
		{name: "another CA's client", shows: pair(other, pki.Client, "admin", life), ports: all},
		{name: "expired node", shows: pair(own, pki.Node, "n2", short), ports: all},
		{name: "expired client", shows: pair(own, pki.Client, "admin", short), ports: all},
		{name: "a client as a node", shows: pair(own, pki.Client, "n2", life), ports: peer},
	}
}

// letIn reports whether a port answers an intruder with anything but a refusal.
func letIn(p port, in *intruder) bool {
	conn, err := net.DialTimeout("tcp", p.addr, 2*time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if !in.plain {
		conf := &tls.Config{
			InsecureSkipVerify: true, // the test judges the intruder, not the node
			MinVersion:         tls.VersionTLS13,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if in.shows == nil {
					return &tls.Certificate{}, nil
				}
				return in.shows, nil
			},
			VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { return nil },
		}
		if p.name == "gRPC" {
			conf.NextProtos = []string{"h2"}
		}
		conn = tls.Client(conn, conf)
	}
	if _, err := conn.Write(p.begin); err != nil {
		return false
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, 64))
	if in.plain { // the answer is a TLS alert, or text that says that TLS is required
		return strings.HasPrefix(string(answer), "HTTP/1.1 200") || p.name == "gRPC" && len(answer) > 3 && answer[3] == 4
	}
	return len(answer) > 0
}

// survived judges the load since a moment and writes the row.
func (g *growth) survived(t *testing.T, began time.Time, name, did string) {
	t.Helper()
	time.Sleep(200 * time.Millisecond) // answers to earlier requests have arrived
	gap, failed, err := g.asks.silence(everybody, began, time.Now(), nil)
	if gap > growGap || failed > 0 {
		t.Errorf("%s: no answer for %v; %d checks failed: %v", name, gap, failed, err)
	}
	durable := "exact"
	if err := g.banks.verify([]int{0}); err != nil {
		t.Errorf("%s: %v", name, err)
		durable = "**" + err.Error() + "**"
	}
	row := fmt.Sprintf("| %s | %s | %d ms | - | - | %s | - | - | - | - | - |", name, did, gap.Milliseconds(), durable)
	t.Log(row)
	writeRow(t, "FAULTS_ROWS", row)
}
