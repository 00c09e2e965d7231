package extract

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Proxies says which addresses in a request to trust. The zero value trusts none: the result is the
// address of the connection.
//
// Each proxy appends the address that connected to it at the right end of a header field. So the
// last n addresses were written by your n proxies, and everything to the left is from the caller
// and may be anything. RemoteIP reads from the right and never gets that far.
type Proxies struct {
	// Hops is the number of your proxies that a request passes, 0 to 16. The result is the Hops-th
	// address from the right. With Trusted it is the maximum number of addresses to skip.
	Hops int
	// Trusted are the networks of your proxies. The result is the first address from the right that
	// is not in one of them, beginning with the connection's own, so a request that bypasses the
	// proxies cannot use the header field. IPv4-mapped networks (::ffff:10.0.0.0/104) count as
	// IPv4.
	Trusted []netip.Prefix
	// Field is the header field: X-Forwarded-For if empty, Forwarded (RFC 7239), or another one in
	// the form of X-Forwarded-For.
	Field string
	// IPv6Prefix is the number of significant bits of an IPv6 address, 1 to 128, because each
	// caller has a whole network. 0 means 64.
	IPv6Prefix int
}

// Bounds of Proxies.
const (
	MaxHops           = 16
	DefaultIPv6Prefix = 64
)

// RemoteIP returns the address of the caller: 203.0.113.7, or the network of an IPv6 address,
// 2001:db8:1:2::/64. IPv4-mapped addresses count as IPv4. It is a [*MissingError] if the field has
// fewer addresses than Hops, or no address where one of your proxies should have written one. It
// panics if p is invalid.
func RemoteIP(p Proxies) Key {
	k := newIPKey(p)
	return k.of
}

// Validate returns an error if p is invalid. Call it before RemoteIP if p comes from a
// configuration.
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

// mappedBits is the length of the prefix of IPv4-mapped addresses.
const mappedBits = 96

// unmapped converts IPv4-mapped networks to IPv4.
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
	field field
	next  func(line string) (rest, element string)
	parse func(element string) (netip.Addr, string, bool)

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
	k := &ipKey{Proxies: p, field: fieldOf(p.Field), next: lastItem, parse: parseIP}
	if k.field.http == "Forwarded" {
		k.next, k.parse = lastElement, parseForwarded
	}
	k.noPeer = &MissingError{"the address of the connection", "is not an IP address"}
	k.tooFew = &MissingError{"header " + k.field.http, fmt.Sprintf("has fewer addresses than the %d proxies in front should have written", p.Hops)}
	k.noAddress = &MissingError{"header " + k.field.http, "lacks an IP address where a proxy should have written one"}
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
	return k.walk(addr, text, r.values(k.field))
}

// walk follows the addresses from the right, beginning with the connection's own, as long as they
// are trusted.
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

// fromRight iterates over a list in several lines of a header, from the right. It skips empty
// elements.
type fromRight struct {
	lines []string
	line  string
	next  func(line string) (rest, element string)
}

// pop returns the next element, "" at the end.
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

// key formats an address. IPv4 addresses have one form only, so the parsed text is used.
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

// parseIP parses an address with or without a port. It returns the address without its zone, and
// its text.
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

// isPort reports whether s is ":" and a port, or ":_" and an obfuscated port as in RFC 7239.
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

// lastItem cuts the last item off a comma-separated list; element is "" if it is empty.
func lastItem(line string) (rest, element string) {
	i := strings.LastIndexByte(line, ',')
	if i < 0 {
		return "", trim(line)
	}
	return line[:i], trim(line[i+1:])
}

func trim(s string) string { return strings.Trim(s, " \t") }
