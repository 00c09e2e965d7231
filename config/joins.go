package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// maxJoins bounds the addresses to join through.
const maxJoins = 32

const joinExample = "10.0.0.1:7412"

// readAddresses reads a list of addresses from a file.
func readAddresses(to *[]string) func(decoder, place) bool {
	return func(d decoder, p place) bool {
		before := len(d.faults)
		var out []string
		ok := d.list(p, maxJoins, "["+joinExample+"]", func(item place) {
			var one string
			d.scalar(item, address(&one, false))
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
	want := "host:port of members, such as " + joinExample + ",10.0.0.2:7412"
	return scalar{want: want, set: func(text string) error {
		items := strings.Split(text, ",")
		if len(items) > maxJoins {
			return fmt.Errorf("has %d addresses; must be 1 to %d", len(items), maxJoins)
		}
		out := make([]string, len(items))
		for i, item := range items {
			if err := address(&out[i], false).set(strings.TrimSpace(item)); err != nil {
				return err
			}
		}
		*to = out
		return nil
	}}
}

// host reads the name or address of a machine, without a port.
func host(to *string) scalar {
	want := "a host without a port, such as 10.0.0.1 or n1.example.com"
	return scalar{want: want, set: func(text string) error {
		ip, err := netip.ParseAddr(text)
		switch {
		case err == nil && !ip.IsUnspecified():
		case err == nil, text == "", len(text) > 253, strings.ContainsAny(text, " /:@[]"):
			return wrong(text, want)
		}
		*to = text
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
