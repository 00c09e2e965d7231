package systemtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fabric joins nodes in network namespaces by a switch that is part of this
// process: it reads each frame that a node sends to another, and passes it on,
// late or not at all. So every direction of every link can be cut, slowed down and
// made lossy by itself, on kernels that have no traffic shaping. The test talks to
// each node over a cable of its own, which is never harmed.
type fabric struct {
	t      *testing.T
	spaces netNamespaces // names, and what to say where there can be none
	subnet int           // of the cables: 10.214.subnet; between the nodes: 10.215.subnet
	ports  []*fabricPort
	ended  chan struct{}

	mu    sync.Mutex
	rng   *rand.Rand
	rules map[way]rule
	macs  map[[6]byte]int // where a sender was seen
	stats struct{ passed, lost int64 }
}

// way is a direction of a link: from one node to another, counted from 1.
type way struct{ from, to int }

// rule is what happens to frames on a way.
type rule struct {
	cut   bool
	delay time.Duration
	loss  float64 // of 1
}

type fabricPort struct {
	file *os.File
	to   map[int]chan frame // by the sender
}

type frame struct {
	due  time.Time
	data []byte
}

// vnetHeader precedes every frame: what the kernel left undone of checksums and
// segments, so that the next one knows.
const vnetHeader = 10

// fabricQueue bounds the frames that are on one way; more are lost, as in a switch.
const fabricQueue = 4096

// newFabric makes the namespaces of nodes 1 to n, and removes them when the test
// ends.
func newFabric(t *testing.T, n int) *fabric {
	t.Helper()
	f := &fabric{
		t: t, spaces: netNamespaces{t: t, name: "qf" + strconv.FormatInt(int64(os.Getpid()%46656), 36)}, subnet: os.Getpid() % 250, ended: make(chan struct{}),
		rng: rand.New(rand.NewPCG(1, 2)), rules: map[way]rule{}, macs: map[[6]byte]int{},
	}
	if reason := f.spaces.cannot(); reason != "" {
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	t.Cleanup(func() {
		close(f.ended)
		for _, p := range f.ports {
			_ = p.file.Close()
		}
		f.remove(n)
	})
	f.remove(n) // what a process of the same number left
	for k := 1; k <= n; k++ {
		f.plug(k)
	}
	for k := 1; k <= n; k++ {
		for from := 1; from <= n; from++ {
			if from != k {
				f.ports[k-1].to[from] = make(chan frame, fabricQueue)
				go f.deliver(k, f.ports[k-1].to[from])
			}
		}
	}
	for k := 1; k <= n; k++ {
		go f.receive(k)
	}
	return f
}

func (f *fabric) remove(n int) {
	for k := 1; k <= n; k++ {
		for _, link := range []string{f.spaces.cable(k), f.portName(k)} {
			_ = exec.Command("ip", "link", "del", link).Run()
		}
		_ = exec.Command("ip", "netns", "del", f.spaces.space(k)).Run()
	}
}

func (f *fabric) portName(k int) string { return fmt.Sprintf("%sp%d", f.spaces.name, k) }
func (f *fabric) peer(k int) string     { return fmt.Sprintf("10.215.%d.%d", f.subnet, k) }
func (f *fabric) cable(k int) string    { return fmt.Sprintf("10.214.%d.%d", f.subnet, 4*k+2) }

// plug makes the namespace of a node, its cable, and its port on the switch. IPv6
// is not used: its neighbours would be looked for on the host's side too.
func (f *fabric) plug(k int) {
	f.t.Helper()
	ip, space, port := f.spaces.ip, f.spaces.space(k), f.portName(k)
	ip("netns add " + space)
	ip("-n " + space + " link set lo up")
	ip(fmt.Sprintf("link add %s type veth peer name peer netns %s", port, space))
	ip("link set " + port + " addrgenmode none")
	ip("link set " + port + " up")
	ip(fmt.Sprintf("-n %s addr add %s/24 dev peer", space, f.peer(k)))
	ip("-n " + space + " link set peer up")
	ip(fmt.Sprintf("link add %s type veth peer name test netns %s", f.spaces.cable(k), space))
	ip(fmt.Sprintf("addr add 10.214.%d.%d/30 dev %s", f.subnet, 4*k+1, f.spaces.cable(k)))
	ip("link set " + f.spaces.cable(k) + " up")
	ip(fmt.Sprintf("-n %s addr add %s/30 dev test", space, f.cable(k)))
	ip("-n " + space + " link set test up")
	ip(fmt.Sprintf("route replace %s/32 via %s", f.peer(k), f.cable(k))) // for strangers at the peer port
	f.ports = append(f.ports, &fabricPort{file: openPort(f.t, port), to: map[int]chan frame{}})
}

// openPort opens a socket that reads and writes whole frames of an interface.
func openPort(t *testing.T, name string) *os.File {
	t.Helper()
	const (
		allProtocols   = 0x0300 // ETH_P_ALL, in the order of the network
		vnetHdr        = 15     // PACKET_VNET_HDR
		ignoreOutgoing = 23     // PACKET_IGNORE_OUTGOING
	)
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, allProtocols)
	if err != nil {
		t.Fatalf("needs CAP_NET_RAW, to be a switch: %v", err)
	}
	for _, option := range []int{vnetHdr, ignoreOutgoing} {
		if err := syscall.SetsockoptInt(fd, syscall.SOL_PACKET, option, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<20); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: allProtocols, Ifindex: ifc.Index}); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), name)
}

// receive takes what node k sends and queues it for whom it is.
func (f *fabric) receive(k int) {
	buf := make([]byte, vnetHeader+14+64<<10)
	for {
		n, err := f.ports[k-1].file.Read(buf)
		if err != nil {
			return // closed
		}
		if n < vnetHeader+14 {
			continue
		}
		data, now := append([]byte(nil), buf[:n]...), time.Now()
		for to := range f.ports {
			if delay, pass := f.fate(way{k, to + 1}, data[vnetHeader:]); pass {
				select {
				case f.ports[to].to[k] <- frame{now.Add(delay), data}:
				default: // the queue is full
				}
			}
		}
	}
}

// fate says whether a frame is for that node, and gets there.
func (f *fabric) fate(w way, data []byte) (delay time.Duration, pass bool) {
	if w.from == w.to {
		return 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.macs[[6]byte(data[6:12])] = w.from
	if at, known := f.macs[[6]byte(data[:6])]; known && at != w.to {
		return 0, false
	}
	r := f.rules[w]
	if r.cut || r.loss > 0 && f.rng.Float64() < r.loss {
		f.stats.lost++
		return 0, false
	}
	f.stats.passed++
	return r.delay, true
}

// deliver gives node k its frames when they are due. A delay is the same for all
// of a way, so they keep their order.
func (f *fabric) deliver(k int, frames chan frame) {
	for {
		var fr frame
		select {
		case fr = <-frames:
		case <-f.ended:
			return
		}
		time.Sleep(time.Until(fr.due))          // the delay of the way
		_, _ = f.ports[k-1].file.Write(fr.data) // what cannot be sent is lost
	}
}

// set makes a rule for ways; heal ends all rules.
func (f *fabric) set(r rule, ways ...way) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range ways {
		f.rules[w] = r
	}
}

func (f *fabric) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = map[way]rule{}
}

// all are both directions of all links.
func (f *fabric) all() (out []way) {
	for k := 1; k <= len(f.ports); k++ {
		out = append(out, f.into(k)...)
	}
	return out
}

// into are the ways to a node, outOf those from it, around both.
func (f *fabric) into(k int) (out []way) {
	for from := 1; from <= len(f.ports); from++ {
		if from != k {
			out = append(out, way{from, k})
		}
	}
	return out
}

func (f *fabric) outOf(k int) (out []way) {
	for _, w := range f.into(k) {
		out = append(out, way{w.to, w.from})
	}
	return out
}

func (f *fabric) around(k int) []way { return append(f.into(k), f.outOf(k)...) }

// servers makes nodes, not started, one in each namespace.
func (f *fabric) servers(ranges int) *servers {
	c := &servers{t: f.t, dir: f.t.TempDir(), ranges: ranges}
	for k := 1; k <= len(f.ports); k++ {
		at := func(port int) string { return f.cable(k) + ":" + strconv.Itoa(port) }
		c.nodes = append(c.nodes, &server{
			id: fmt.Sprintf("n%d", k), httpAddr: at(7411), grpc: at(7412), peer: f.peer(k) + ":7413",
			prefix: []string{"ip", "netns", "exec", f.spaces.space(k)},
		})
	}
	return c
}
