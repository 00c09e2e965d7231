// Package subnet returns the network in which one peer can choose any address, so that bounds per peer hold.
package subnet

import (
	"net"
	"net/netip"
)

// Of returns the network of an address: the address itself for IPv4, its /64 network for IPv6, and the zero Prefix
// if it is invalid.
func Of(ip netip.Addr) netip.Prefix {
	ip, bits := ip.Unmap(), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // zero only if ip is
	return p
}

// OfConn returns the network of a connection's remote address, and the zero Prefix if it is not an IP address.
func OfConn(a net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	return Of(ap.Addr())
}
