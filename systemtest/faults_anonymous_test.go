package systemtest

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
)

// port is one of a node's ports, with the start of a valid conversation.
type port struct {
	name, addr string
	begin      []byte // what a valid peer would send first
	answered   bool   // a valid peer gets an answer to it, and the connection stays open
}

func (s *server) ports() []port {
	hello, err := proto.Marshal(&peerv1.Hello{Protocol: 1, Cluster: "another", From: "stranger", To: s.id, Incarnation: 1, Ranges: 8})
	if err != nil {
		s.t.Fatal(err)
	}
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0} // an empty SETTINGS frame of HTTP/2
	return []port{
		{"HTTP", s.httpAddr, []byte("GET /healthz HTTP/1.1\r\nHost: q\r\n\r\n"), true},
		{"gRPC", s.grpc, append([]byte(http2.ClientPreface), settings...), true},
		{"peer", s.peer, append(endian.BigEndian.AppendUint32(nil, uint32(len(hello))), hello...), false},
	}
}

// garbage sends nonsense to every port of all nodes, over a few connections at a time, drawn from a
// seed.
func (f *loadedCluster) garbage() fault {
	const atOnce, pause = 8, 30 * time.Millisecond
	seed, each := uint64(time.Now().UnixNano()), 200
	if longFaults() {
		each = 5000
	}
	var sent atomic.Int64
	return fault{
		name: "garbage", did: fmt.Sprintf("%d connections with fuzzed bytes to each port of each node, seed %d", each, seed),
		inject: func() {
			var wg sync.WaitGroup
			for n, s := range f.c.nodes {
				for i, p := range s.ports() {
					for k := range atOnce {
						wg.Go(func() {
							rng := rand.New(rand.NewPCG(seed, uint64(100*n+10*i+k)))
							for range each / atOnce {
								sent.Add(int64(babble(p, rng)))
								time.Sleep(pause) // nonsense, not a flood
							}
						})
					}
				}
			}
			wg.Wait()
		},
		heal: func() {}, calm: true, note: func() string { return fmt.Sprintf("%d kB in all", sent.Load()/1000) },
	}
}

// babble opens a connection, sends nonsense, and leaves: at once, after the answer, or after a
// short wait. It returns how many bytes it sent.
func babble(p port, rng *rand.Rand) int {
	conn, err := net.DialTimeout("tcp", p.addr, 2*time.Second)
	if err != nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
	b := nonsense(p, rng)
	n, _ := conn.Write(b) // the node may have hung up
	if rng.IntN(3) == 0 {
		_, _ = conn.Read(make([]byte, 512))
	}
	return n
}

// nonsense returns bytes for a port: noise; a valid beginning followed by noise; a beginning with
// some bytes changed; a length prefix that nothing follows; or a valid beginning that breaks off.
func nonsense(p port, rng *rand.Rand) []byte {
	noise := make([]byte, 1+rng.IntN(1<<rng.IntN(14)))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	begin := append([]byte(nil), p.begin...)
	switch rng.IntN(5) {
	case 0:
		return noise
	case 1:
		return append(begin, noise...)
	case 2:
		for range 1 + rng.IntN(4) {
			begin[rng.IntN(len(begin))] = byte(rng.Uint32())
		}
		return append(begin, noise...)
	case 3:
		return append(endian.BigEndian.AppendUint32(nil, rng.Uint32()), noise...)
	}
	return begin[:rng.IntN(len(begin))]
}

// crowdSize returns how many connections the test opens to one port.
func crowdSize() int {
	if longFaults() {
		return 10_000
	}
	return 1000
}

// manyConnections opens thousands of connections to each port of one node, one port after the
// other, holds them for a while, and closes them.
func (f *loadedCluster) manyConnections() fault {
	count, hold := crowdSize(), long(10*time.Second, time.Second)
	k, _ := f.leader()
	s := f.c.nodes[k]
	var notes []string
	return fault{
		name: "connections", did: fmt.Sprintf("%d to each port of the leader, held for %v", count, hold),
		inject: func() {
			for _, p := range s.ports() {
				conns, open := crowd(p, count)
				time.Sleep(hold) // under test: the connections stay open for a while
				notes = append(notes, fmt.Sprintf("%s: %d served, %.0f MiB then", p.name, open, f.vitals(s).rss))
				for _, c := range conns {
					_ = c.Close()
				}
			}
		},
		heal: func() {}, calm: true, memory: 64, note: func() string { return strings.Join(notes, "; ") },
	}
}

// crowd opens connections and returns them with the number that the node served: those that got an
// answer or, on ports that do not answer strangers, those that stayed open.
func crowd(p port, count int) (conns []net.Conn, served int64) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var n, left atomic.Int64
	left.Store(int64(count))
	for range 32 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				conn, err := net.DialTimeout("tcp", p.addr, 5*time.Second)
				if err != nil {
					continue
				}
				mu.Lock()
				conns = append(conns, conn)
				mu.Unlock()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				if p.answered {
					_, _ = conn.Write(p.begin)
				} else {
					_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				}
				got, err := conn.Read(make([]byte, 512))
				if got > 0 || !p.answered && errors.Is(err, os.ErrDeadlineExceeded) {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return conns, n.Load()
}

// moreFiles raises the limit of open files of this process, and of those that it starts from now
// on, to that many connections plus some files.
func moreFiles(t *testing.T, connections int) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Max = max(limit.Max, uint64(connections)+1000)
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatalf("needs to open %d files: %v; raise the hard limit (ulimit -H -n), or give CAP_SYS_RESOURCE", limit.Max, err)
	}
}
