package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
)

// How a node retries to join.
const (
	joinPause    = 500 * time.Millisecond // initial; doubles after each round
	maxJoinPause = 10 * time.Second
	joinLimit    = 15 * time.Second // for the answer of one member
	lonelyRounds = 5                // rounds without any answer before the Bootstrap node creates the cluster
)

// joiner joins a node without data to a cluster.
type joiner struct {
	settings *config.Node
	strict   bool // the settings name the cluster
	sec      *security
	token    string
	log      *slog.Logger
	here     *presence
	logged   map[string]string // the last logged text, by address
}

// errAlone says that no member answers, and that this node must create the cluster.
var errAlone = errors.New("no member answers, and this node creates the cluster")

// run asks the members in turn until one accepts the node or refuses it permanently. If no member
// answers for lonelyRounds, the Bootstrap node gets errAlone.
func (j *joiner) run(ctx context.Context) (*quoratev1.JoinResponse, error) {
	pause := joinPause
	for round := 1; ; round++ {
		answered := false
		for _, addr := range j.resolve(ctx) {
			res, err := j.ask(ctx, addr)
			if err == nil {
				j.log.Info("joined", "cluster", res.Cluster, "through", addr, "members", len(res.Nodes))
				return res, nil
			}
			if permanent(err) {
				return nil, fmt.Errorf("the cluster at %s rejected the join: %s", addr, status.Convert(err).Message())
			}
			answered = answered || !remote.Unreachable(err)
			j.logOnce(addr, err)
		}
		if !answered && round >= lonelyRounds && j.settings.Bootstrap == string(j.settings.Node) {
			return nil, errAlone
		}
		if backoff.Sleep(ctx, pause) != nil {
			return nil, ctx.Err()
		}
		pause = min(2*pause, maxJoinPause)
	}
}

// away closes every connection to a port that is open but not served yet, so that other joining
// nodes do not wait for this one. stop leaves the port open for other use.
func away(l net.Listener) (stop func()) {
	return serveUntil(l, func(c net.Conn) { _ = c.Close() })
}

// serveUntil accepts connections and passes them to serve. stop ends this and leaves l open for
// other use.
func serveUntil(l net.Listener, serve func(net.Conn)) (stop func()) {
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	})
	return func() {
		t, ok := l.(*net.TCPListener)
		if !ok {
			return
		}
		_ = t.SetDeadline(time.Now())
		done.Wait()
		_ = t.SetDeadline(time.Time{})
	}
}

// presence answers TLS handshakes on the peer port while the node joins, so that the cluster can verify
// that the address belongs to this node. It uses the node's certificate, or the key of its certificate
// request.
type presence struct {
	own *tls.Config                     // nil while the node has no certificate
	key atomic.Pointer[tls.Certificate] // self-signed, with the key of the certificate request
}

func (p *presence) answer(c net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), presenceLimit)
	defer cancel()
	config := p.own
	if cert := p.key.Load(); cert != nil {
		config = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert}}
	}
	if config != nil {
		_ = tls.Server(c, config).HandshakeContext(ctx) // the client sees the failure too
	}
	_ = c.Close()
}

// Limits of presence: the time of one handshake, and concurrent handshakes.
const (
	presenceLimit = 2 * time.Second
	maxPresences  = 64
)

// present answers on l until stop is called, which leaves l open.
func (p *presence) present(l net.Listener) (stop func()) {
	places := make(chan struct{}, maxPresences)
	return serveUntil(l, func(c net.Conn) {
		select {
		case places <- struct{}{}:
			go func() {
				p.answer(c)
				<-places
			}()
		default:
			_ = c.Close()
		}
	})
}

// logOnce logs why the node has not joined yet: as a warning if the reason changed since the last
// one for the address, otherwise at debug level.
func (j *joiner) logOnce(addr string, err error) {
	text := joinFault(err)
	level := slog.LevelDebug
	if text != j.logged[addr] {
		level = slog.LevelWarn
	}
	if j.logged == nil {
		j.logged = map[string]string{}
	}
	j.logged[addr] = text
	j.log.Log(context.Background(), level, "not joined yet; retrying", "through", addr, "err", text)
}

// joinFault describes why a member did not answer. If the address is no gRPC port, or may be none, it
// names the right port.
func joinFault(err error) string {
	const right = "join needs a member's gRPC port, 7412 by default"
	if wrong := remote.WrongPort(err); wrong != "" {
		return "reached " + wrong + ": " + right + ", with the TLS mode of this node"
	}
	text := pki.ConnectionCause(status.Convert(err).Message())
	if strings.HasSuffix(text, "EOF") || strings.HasSuffix(text, "connection reset by peer") {
		return "that node closes the connection: it waits to join too, or another port is right: " + right
	}
	return text
}

// permanent reports whether a retry is pointless.
func permanent(err error) bool {
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.AlreadyExists, codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted:
		return true
	}
	var wrong *pki.Error
	return errors.As(err, &wrong)
}

// resolve returns the addresses of members, without this node's own. A name may resolve to many, as
// that of a headless service does.
func (j *joiner) resolve(ctx context.Context) (out []string) {
	self := j.settings.Addresses().GRPC
	for _, addr := range j.settings.Join {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		cancel()
		if err != nil {
			j.logOnce(addr, err)
			continue
		}
		for _, ip := range ips {
			if a := net.JoinHostPort(ip, port); a != self && addr != self {
				out = append(out, a)
			}
		}
	}
	return out
}

// ask sends a join request to one member.
func (j *joiner) ask(ctx context.Context, addr string) (*quoratev1.JoinResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	s := j.settings
	creds, name, err := j.credentials(ctx, addr)
	if err != nil {
		return nil, err
	}
	if j.strict && name != s.Cluster {
		return nil, status.Errorf(codes.FailedPrecondition, "the other node is of cluster %q, and the settings say that this one is of cluster %q", name, s.Cluster)
	}
	id, err := joinID(s.Data)
	if err != nil {
		return nil, err
	}
	at := s.Addresses()
	req := &quoratev1.JoinRequest{
		Token: j.token, Node: string(s.Node), PeerAddress: at.Peer, GrpcAddress: at.GRPC, HttpAddress: at.HTTP, Zone: s.Zone,
		Version: build.Version, Level: membership.Level, JoinId: id,
	}
	var key pki.KeyPEM
	if j.sec.on() && !j.sec.own && j.sec.store.Empty() {
		self := pki.Identity{Cluster: name, Kind: pki.Node, Name: string(s.Node)}
		if err := self.CheckNew(); err != nil {
			return nil, err
		}
		if key, req.Csr, err = pki.NewKeyAndCSR(self, hostsOf(at)); err != nil {
			return nil, err
		}
		probe, err := pki.ProbeCertificate(key)
		if err != nil {
			return nil, err
		}
		j.here.key.Store(&probe)
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	res, err := quoratev1.NewClusterServiceClient(conn).Join(ctx, req)
	if err != nil {
		return nil, err
	}
	return res, j.keep(res, key)
}

// keep stores the certificate and the trust bundle that the cluster returned.
func (j *joiner) keep(res *quoratev1.JoinResponse, key pki.KeyPEM) error {
	if key == nil {
		return nil
	}
	if len(res.Certificate) == 0 {
		return errors.New("the cluster has no authority of its own, so it signs no certificates: use your own with tls.ca, tls.cert and tls.key")
	}
	if err := j.sec.store.SetBundle(res.Trust); err != nil {
		return err
	}
	return j.sec.store.Install(res.Certificate, key)
}

// credentials returns the credentials for a connection to a member, verified by the hash of the
// authority in the token, or by the authority itself if the node has it. It also returns the name
// of the cluster that answered.
func (j *joiner) credentials(ctx context.Context, addr string) (credentials.TransportCredentials, string, error) {
	if !j.sec.on() {
		return insecure.NewCredentials(), j.settings.Cluster, nil
	}
	if !j.sec.store.Empty() {
		host, _, _ := net.SplitHostPort(addr)
		return credentials.NewTLS(remote.WithH2(j.sec.store.ClientConfig(pki.Want{Host: host}))), j.settings.Cluster, nil
	}
	token, err := pki.ParseJoinToken(j.token)
	if err != nil {
		return nil, "", status.Error(codes.InvalidArgument, err.Error())
	}
	c := remote.WithH2(pki.PinnedConfig(token.CAHash, nil))
	d := tls.Dialer{Config: c}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		if wrong, ok := errors.AsType[*pki.Error](err); ok {
			return nil, "", status.Error(codes.PermissionDenied, "the token is another cluster's: "+wrong.Error())
		}
		return nil, "", status.Error(codes.Unavailable, pki.Explain(err).Error())
	}
	defer conn.Close() //nolint:errcheck // the connection only identified the server
	who, err := pki.CheckPinned(conn.(*tls.Conn).ConnectionState(), token.CAHash, time.Now())
	if err != nil {
		return nil, "", status.Error(codes.PermissionDenied, err.Error())
	}
	return credentials.NewTLS(c), who.Node.Cluster, nil
}

// joinIDFile stores the id that distinguishes a repeated join from the join of another node.
const joinIDFile = "join.id"

// joinID returns the id of this node's join, which stays the same after a restart.
func joinID(dir string) ([]byte, error) {
	path := filepath.Join(dir, joinIDFile)
	text, err := os.ReadFile(path)
	if err == nil {
		return hex.DecodeString(strings.TrimSpace(string(text)))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return id, writeNew(path, []byte(hex.EncodeToString(id)+"\n"))
}

// ownJoinID returns the id with which this node joined, or an empty string if it did not join.
func ownJoinID(dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, joinIDFile)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	id, err := joinID(dir)
	return string(id), err
}

// forgetJoin removes the id of this node's join. A node that asked members to join and then creates
// the cluster itself is a member without such an id, and would take its own membership for that of
// another node.
func forgetJoin(dir string) error {
	if err := os.Remove(filepath.Join(dir, joinIDFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

// readToken reads a join token from a file.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	if info.Size() > 4096 {
		return "", fmt.Errorf("token_file: %s is %d bytes; a token is one line", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if _, err := pki.ParseJoinToken(text); err != nil {
		return "", fmt.Errorf("token_file: %s: %w", path, err)
	}
	return text, nil
}

// takeOver copies the cluster's settings into the node's. If strict, settings that differ are an
// error: nodes of one cluster must agree.
func takeOver(s *config.Node, cfg *cluster.Config, res *quoratev1.JoinResponse, strict bool) error {
	if strict {
		var errs []error
		differ := func(name string, have, want any) {
			if have != want {
				errs = append(errs, fmt.Errorf("%s: is %v; the cluster's is %v: set that in the settings", name, have, want))
			}
		}
		differ("cluster", s.Cluster, res.Cluster)
		differ("ranges", s.Ranges, int(res.Ranges))
		differ("sync", s.Sync, res.Sync.AsDuration())
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	s.Cluster, s.Ranges, s.Replicas, s.Sync = res.Cluster, int(res.Ranges), int(res.Replicas), res.Sync.AsDuration()
	cfg.Cluster, cfg.Ranges, cfg.Replicas, cfg.Sync = s.Cluster, s.Ranges, s.Replicas, s.Sync
	cfg.Join, cfg.Nodes = true, map[quota.NodeID]string{}
	for id, addr := range res.Nodes {
		cfg.Nodes[quota.NodeID(id)] = addr
	}
	cfg.Nodes[s.Node] = s.Addresses().Peer
	return nil
}
