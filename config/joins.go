package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
)

// maxJoins bounds the addresses to join through.
const maxJoins = 32

const (
	joinExample = "10.0.0.1:7412"
	joinWant    = "host:port of a member's gRPC port, such as " + joinExample
)

// readAddresses reads a list of addresses from a file.
func readAddresses(to *[]string) func(decoder, place) bool {
	return func(d decoder, p place) bool {
		before := len(d.faults)
		var out []string
		ok := d.list(p, maxJoins, "["+joinExample+"]", func(item place) {
			var one string
			d.scalar(item, reachable(&one, joinWant))
			out = append(out, one)
		})
		if !ok || len(d.faults) > before {
			return false
		}
		*to = out
		return true
	}
}

// addresses reads the list from a variable: with commas.
func addresses(to *[]string) scalar {
	return scalar{want: joinWant + ",10.0.0.2:7412", set: func(text string) error {
		items := strings.Split(text, ",")
		if len(items) > maxJoins {
			return fmt.Errorf("has %d addresses; must be 1 to %d", len(items), maxJoins)
		}
		out := make([]string, len(items))
		for i, item := range items {
			if err := reachable(&out[i], joinWant).set(strings.TrimSpace(item)); err != nil {
				return fmt.Errorf("join[%d] %w", i, err)
			}
		}
		*to = out
		return nil
	}}
}

// hostName is a name that DNS or a hosts file may have. Its last part has a
// letter: 10.0.0.300 and 10.0.0 are slips of an address, and no names.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_-]{1,63}\.)*[0-9_-]{0,62}[A-Za-z][A-Za-z0-9_-]{0,62}\.?$`)

// host reads the name or address of a machine, without a port.
func host(to *string) scalar {
	want := "a host without a port, such as 10.0.0.1 or n1.example.com"
	return scalar{want: want, set: func(text string) error {
		ip, err := netip.ParseAddr(text)
		if err == nil && ip.IsUnspecified() || err != nil && (len(text) > 253 || !hostName.MatchString(text)) {
			return wrong(text, want)
		}
		*to = text
		return nil
	}}
}

// maxHosts bounds the host names of a node.
const maxHosts = 64

// hostNames reads a comma-separated list of host names.
func hostNames(to *[]string) scalar {
	want := "host names with commas between them, such as n1.example.com,quorate.example.com"
	return scalar{want: want, set: func(text string) error {
		items := strings.Split(text, ",")
		if len(items) > maxHosts {
			return fmt.Errorf("has %d names; must be 1 to %d", len(items), maxHosts)
		}
		out := make([]string, len(items))
		for i, item := range items {
			if err := host(&out[i]).set(strings.TrimSpace(item)); err != nil {
				return wrong(text, want)
			}
		}
		*to = out
		return nil
	}}
}

// Addresses are where others reach the node: Listen, with the host of Advertise.
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
