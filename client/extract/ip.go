package extract

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Proxies says which of the addresses in a request are to be believed. The zero
// value believes none: the address is that of the connection.
//
// Each proxy adds the address that connected to it at the right end of a header
// field. So what your own n proxies wrote are the last n addresses, and all to
// the left of them is what the caller sent, which may be anything. RemoteIP
// reads from the right and never gets there.
type Proxies struct {
	// Hops is how many proxies of yours a request passes, 0 to 16. The address is
	// the Hops-th from the right. With Trusted it is how many may be passed over
	// at most.
	Hops int
	// Trusted are the addresses of your proxies. The address is the first from the
	// right that is not of one of them, beginning with the connection's own: a
	// request that comes past the proxies gains nothing by a header field. Networks
	// of IPv4 addresses within IPv6 (::ffff:10.0.0.0/104) count as IPv4.
	Trusted []netip.Prefix
	// Field is the header field: X-Forwarded-For if empty, Forwarded (RFC 7239), or
	// another one that is written as X-Forwarded-For is.
	Field string
	// IPv6Prefix is how many bits of an IPv6 address count, 1 to 128: whoever has
	// one has a whole network of them. 0 means 64.
	IPv6Prefix int
}

// Bounds of Proxies.
const (
	MaxHops           = 16
	DefaultIPv6Prefix = 64
)

// RemoteIP is the address of the caller: 203.0.113.7, or the network of an IPv6
// address, 2001:db8:1:2::/64. IPv4 addresses within IPv6 count as IPv4. A field
// with fewer addresses than Hops, or with something else than an address where
// one of your proxies should have written one, is a [*MissingError]. It panics
// if p is out of range.
func RemoteIP(p Proxies) Key {
	k := newIPKey(p)
	return k.of
}

// Validate says what is out of range. Whoever has p from a configuration asks it
// before RemoteIP.
func (p Proxies) Validate() error {
	if p.Hops < 0 || p.Hops > MaxHops {
		return fmt.Errorf("Proxies.Hops: %d; must be 0 to %d", p.Hops, MaxHops)
	}
	if p.IPv6Prefix < 0 || p.IPv6Prefix > 128 {
		return fmt.Errorf("Proxies.IPv6Prefix: %d; must be 1 to 128, or 0 for %d", p.IPv6Prefix, DefaultIPv6Prefix)
	}
	for i, t := range p.Trusted {
		if !t.IsValid() {
			return fmt.Errorf("Proxies.Trusted[%d]: %v; must be a network such as 10.0.0.0/8", i, t)
		}
		if t.Addr().Is4In6() && t.Bits() < mappedBits {
			return fmt.Errorf("Proxies.Trusted[%d]: %v; a network of IPv4 addresses within IPv6 has %d bits or more", i, t, mappedBits)
		}
	}
	return nil
}

// mappedBits come before an IPv4 address within IPv6.
const mappedBits = 96

// unmapped are networks as addresses are looked up in them: IPv4 addresses within IPv6 are IPv4.
func unmapped(networks []netip.Prefix) []netip.Prefix {
	out := slices.Clone(networks)
	for i, n := range out {
		if n.Addr().Is4In6() {
			out[i] = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mappedBits)
		}
	}
	return out
}

type ipKey struct {
	Proxies
	field, lower string
	next         func(line string) (rest, element string)
	parse        func(element string) (netip.Addr, string, bool)

	noPeer, tooFew, noAddress *MissingError
}

func newIPKey(p Proxies) *ipKey {
	if err := p.Validate(); err != nil {
		panic("extract: RemoteIP: " + err.Error()) // invariant: the program's own text, or validated
	}
	if p.IPv6Prefix == 0 {
		p.IPv6Prefix = DefaultIPv6Prefix
	}
	p.Trusted = unmapped(p.Trusted)
	if p.Field == "" {
		p.Field = "X-Forwarded-For"
	}
	k := &ipKey{Proxies: p, field: http.CanonicalHeaderKey(p.Field), lower: strings.ToLower(p.Field), next: lastItem, parse: parseIP}
	if k.field == "Forwarded" {
		k.next, k.parse = lastElement, parseForwarded
	}
	k.noPeer = &MissingError{"the address of the connection", "is not an IP address"}
	k.tooFew = &MissingError{"header " + k.field, fmt.Sprintf("has fewer addresses than the %d proxies in front should have written", p.Hops)}
	k.noAddress = &MissingError{"header " + k.field, "has something else than an IP address where a proxy should have written one"}
	return k
}

func (k *ipKey) of(r Request) (string, error) {
	remote := r.remote()
	addr, text, ok := parseIP(remote)
	if k.Hops == 0 && len(k.Trusted) == 0 {
		if !ok {
			return "", k.noPeer
		}
		return k.key(addr, text), nil
	}
	if !ok && len(k.Trusted) > 0 {
		return "", k.noPeer
	}
	name := k.field
	if r.HTTP == nil {
		name = k.lower
	}
	return k.walk(addr, text, r.values(name))
}

// walk goes over the addresses from the right, beginning with the connection's
// own, as far as they are believed.
func (k *ipKey) walk(addr netip.Addr, text string, lines []string) (string, error) {
	most := MaxHops
	if k.Hops > 0 {
		most = k.Hops
	}
	list := fromRight{lines: lines, next: k.next}
	for range most {
		if len(k.Trusted) > 0 && !k.trusts(addr) {
			break
		}
		element := list.pop()
		if element == "" {
			if len(k.Trusted) == 0 {
				return "", k.tooFew
			}
			break
		}
		var ok bool
		if addr, text, ok = k.parse(element); !ok {
			return "", k.noAddress
		}
	}
	return k.key(addr, text), nil
}

// fromRight is a list over several lines of a header, from its right end. Empty
// elements do not count.
type fromRight struct {
	lines []string
	line  string
	next  func(line string) (rest, element string)
}

// pop returns "" at the end.
func (l *fromRight) pop() (element string) {
	for element == "" {
		if l.line == "" {
			if len(l.lines) == 0 {
				return ""
			}
			l.line, l.lines = l.lines[len(l.lines)-1], l.lines[:len(l.lines)-1]
		}
		l.line, element = l.next(l.line)
	}
	return element
}

func (k *ipKey) trusts(a netip.Addr) bool {
	for _, p := range k.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// key writes an address. An IPv4 address has one form only: the text that it was
// read from will do.
func (k *ipKey) key(a netip.Addr, text string) string {
	switch {
	case a.Is4():
		return text
	case k.IPv6Prefix == 128:
		return a.String()
	}
	p, _ := a.Prefix(k.IPv6Prefix) // the bits are in range
	return p.String()
}

// parseIP reads an address with or without a port, and returns it without its
// zone, and the text of it.
func parseIP(s string) (a netip.Addr, text string, ok bool) {
	switch {
	case strings.HasPrefix(s, "["):
		host, rest, closed := strings.Cut(s[1:], "]")
		if !closed || rest != "" && !isPort(rest) {
			return a, "", false
		}
		s = host
		if !strings.Contains(s, ":") {
			return a, "", false // brackets are for IPv6
		}
	case strings.Count(s, ":") == 1:
		i := strings.IndexByte(s, ':')
		if !isPort(s[i:]) {
			return a, "", false
		}
		s = s[:i]
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, "", false
	}
	if a.Is4In6() {
		a = a.Unmap()
		s = a.String()
	}
	return a.WithZone(""), s, true
}

// isPort reports whether s is ":" and a port, or ":_" and a word, which RFC 7239
// lets a proxy write in its place.
func isPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	if s[1] == '_' {
		return len(s) <= 64
	}
	_, err := strconv.ParseUint(s[1:], 10, 16)
	return err == nil
}

// lastItem cuts the last item off a list with commas; element is "" if it is
// empty.
func lastItem(line string) (rest, element string) {
	i := strings.LastIndexByte(line, ',')
	if i < 0 {
		return "", trim(line)
	}
	return line[:i], trim(line[i+1:])
}

func trim(s string) string { return strings.Trim(s, " \t") }
