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

// fabric connects nodes in network namespaces by a switch that runs in this process. The switch
// reads each frame that a node sends to another and delivers it on time, late or not at all. The
// test can therefore cut, slow down or make lossy each direction of each link alone, even on
// kernels without traffic shaping. The test reaches each node over a separate cable, which no fault
// affects.
type fabric struct {
	t      *testing.T
	spaces netNamespaces // names, and the message where namespaces are impossible
	subnet int           // of the cables: 10.214.subnet; between the nodes: 10.215.subnet
	ports  []*fabricPort
	ended  chan struct{}

	mu    sync.Mutex
	rng   *rand.Rand
	rules map[way]rule
	macs  map[[6]byte]int // the port where a sender was seen
	stats struct{ passed, lost int64 }
}

// way is one direction of a link: from one node to another, numbered from 1.
type way struct{ from, to int }

// rule says what the switch does to the frames on a way.
type rule struct {
	cut   bool
	delay time.Duration
	loss  float64 // fraction lost, from 0 to 1
}

type fabricPort struct {
	file *os.File
	to   map[int]chan frame // by sender
}

type frame struct {
	due  time.Time
	data []byte
}

// vnetHeader is the length of the header before every frame. It says which checksums and segments
// the kernel left for the receiver to do.
const vnetHeader = 10

// fabricQueue bounds the frames in flight on one way. The fabric drops more, as a switch does.
const fabricQueue = 4096

// newFabric creates the namespaces of nodes 1 to n, and removes them when the test ends.
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
	f.remove(n) // leftovers of a process with the same number
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

// plug creates a node's namespace, its cable, and its port on the switch. It disables IPv6, whose
// neighbour discovery would also run on the host's side.
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
		allProtocols   = 0x0300 // ETH_P_ALL, in network byte order
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

// receive reads the frames of node k and queues each for its destination.
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

// fate reports whether a frame goes to the destination of a way and gets there, and how late.
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

// deliver writes the frames for node k when they are due. All frames on a way have the same delay,
// so they keep their order.
func (f *fabric) deliver(k int, frames chan frame) {
	for {
		var fr frame
		select {
		case fr = <-frames:
		case <-f.ended:
			return
		}
		time.Sleep(time.Until(fr.due))          // the delay of the way
		_, _ = f.ports[k-1].file.Write(fr.data) // a frame that cannot be sent is lost
	}
}

// set adds a rule for some ways; heal removes all rules.
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

// all returns both directions of all links.
func (f *fabric) all() (out []way) {
	for k := 1; k <= len(f.ports); k++ {
		out = append(out, f.into(k)...)
	}
	return out
}

// into returns the ways to a node, outOf the ways from it, and around both.
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

// servers returns one node per namespace and starts none of them.
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
