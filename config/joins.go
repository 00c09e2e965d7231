package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
)

// maxJoins bounds the list of addresses to join through.
const maxJoins = 32

const (
	joinExample = "10.0.0.1:7412"
	joinWant    = "host:port of a member's gRPC port, such as " + joinExample
)

func readAddress(v Value, _ []string) (one string) {
	v.scalar(reachable(&one, joinWant))
	return one
}

// addresses reads a comma-separated list of addresses from a variable.
func addresses(to *[]string) scalar {
	return listWithCommas(to, maxJoins, joinWant+",10.0.0.2:7412", "addresses", func(i int, text string, _ []string) (one string, err error) {
		if err := reachable(&one, joinWant).set(text); err != nil {
			return one, fmt.Errorf("join[%d] %w", i, err)
		}
		return one, nil
	})
}

// hostName matches names that DNS or a hosts file may have. The last part must contain a letter:
// 10.0.0.300 and 10.0.0 are mistyped addresses, not names.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_-]{1,63}\.)*[0-9_-]{0,62}[A-Za-z][A-Za-z0-9_-]{0,62}\.?$`)

// host reads the name or address of a machine, without a port.
func host(to *string) scalar {
	return matching(to, "a host without a port, such as 10.0.0.1 or n1.example.com", func(text string) bool {
		if ip, err := netip.ParseAddr(text); err == nil {
			return !ip.IsUnspecified()
		}
		return len(text) <= 253 && hostName.MatchString(text)
	})
}

// maxHosts bounds the host names of a node.
const maxHosts = 64

// hostNames reads a comma-separated list of host names.
func hostNames(to *[]string) scalar {
	const want = "host names with commas between them, such as n1.example.com,quorate.example.com"
	return listWithCommas(to, maxHosts, want, "names", func(_ int, text string, _ []string) (one string, err error) {
		if host(&one).set(text) != nil {
			err = errMust
		}
		return one, err
	})
}

// Addresses returns where others reach the node: Listen, with the host of Advertise.
func (n *Node) Addresses() Listen {
	reach := func(addr string) string {
		_, port, err := net.SplitHostPort(addr)
		if err != nil || n.Advertise == "" {
			return addr
		}
		return net.JoinHostPort(n.Advertise, port)
	}
	return Listen{HTTP: reach(n.Listen.HTTP), GRPC: reach(n.Listen.GRPC), Peer: reach(n.Listen.Peer)}
}
