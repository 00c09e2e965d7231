package extract_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/quorate/quorate/client/extract"
)

func prefixes(s ...string) (out []netip.Prefix) {
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// remoteIP returns the key for a request from peer with the given lines of a header field.
func remoteIP(p extract.Proxies, peer string, lines ...string) (string, error) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	field := p.Field
	if field == "" {
		field = "X-Forwarded-For"
	}
	for _, l := range lines {
		r.Header.Add(field, l)
	}
	return extract.RemoteIP(p)(extract.Request{HTTP: r})
}

// TestRemoteIP checks the address that each trust setting finds in the headers, and guards against
// headers that a caller forged.
func TestRemoteIP(t *testing.T) {
	const peer = "10.0.0.9:4711"
	lan := prefixes("10.0.0.0/8", "fd00::/8")
	rfc7239 := func(p extract.Proxies) extract.Proxies { p.Field = "forwarded"; return p }
	for _, tc := range []struct {
		name    string
		p       extract.Proxies
		peer    string
		lines   []string
		want    string
		missing string
	}{
		// The zero value trusts no header.
		{"connection", extract.Proxies{}, "192.0.2.1:80", []string{"6.6.6.6"}, "192.0.2.1", ""},
		{"connection, v6", extract.Proxies{}, "[2001:db8:1:2:3:4:5:6]:80", nil, "2001:db8:1:2::/64", ""},
		{"connection, v6 whole", extract.Proxies{IPv6Prefix: 128}, "[2001:db8:0:0:0:0:0:6]:80", nil, "2001:db8::6", ""},
		{"connection, v6 /56", extract.Proxies{IPv6Prefix: 56}, "[2001:db8:1:2ff::6]:80", nil, "2001:db8:1:200::/56", ""},
		{"connection, v6 zone", extract.Proxies{}, "[fe80::1%eth0]:80", nil, "fe80::/64", ""},
		{"connection, v4 in v6", extract.Proxies{}, "[::ffff:192.0.2.1]:80", nil, "192.0.2.1", ""},
		{"unix socket", extract.Proxies{}, "@", nil, "", "the address of the connection is not an IP address"},

		// Hops.
		{"one proxy", extract.Proxies{Hops: 1}, peer, []string{"203.0.113.7"}, "203.0.113.7", ""},
		{"one proxy, forged", extract.Proxies{Hops: 1}, peer, []string{"6.6.6.6, 203.0.113.7"}, "203.0.113.7", ""},
		{"one proxy, own line", extract.Proxies{Hops: 1}, peer, []string{"6.6.6.6", "203.0.113.7"}, "203.0.113.7", ""},
		{"two proxies", extract.Proxies{Hops: 2}, peer, []string{"6.6.6.6,203.0.113.7,10.0.0.1"}, "203.0.113.7", ""},
		{"two proxies, lines", extract.Proxies{Hops: 2}, peer, []string{"6.6.6.6,203.0.113.7", "10.0.0.1"}, "203.0.113.7", ""},
		{"past a proxy", extract.Proxies{Hops: 2}, peer, []string{"203.0.113.7"}, "", "header X-Forwarded-For has fewer addresses than the 2 proxies in front should have written"},
		{"past all", extract.Proxies{Hops: 1}, peer, nil, "", "header X-Forwarded-For has fewer addresses than the 1 proxies in front should have written"},
		{"empty elements", extract.Proxies{Hops: 1}, peer, []string{"203.0.113.7, ,", ""}, "203.0.113.7", ""},
		{"port", extract.Proxies{Hops: 1}, peer, []string{"203.0.113.7:1234"}, "203.0.113.7", ""},
		{"v6", extract.Proxies{Hops: 1}, peer, []string{"2001:db8:1:2::3"}, "2001:db8:1:2::/64", ""},
		{"v6 with port", extract.Proxies{Hops: 1}, peer, []string{"[2001:db8:1:2::3]:99"}, "2001:db8:1:2::/64", ""},
		{"unknown", extract.Proxies{Hops: 1}, peer, []string{"6.6.6.6, unknown"}, "", "header X-Forwarded-For lacks an IP address where a proxy should have written one"},
		{"leading zeros", extract.Proxies{Hops: 1}, peer, []string{"010.1.1.1"}, "", "header X-Forwarded-For lacks an IP address"},
		{"port of nothing", extract.Proxies{Hops: 1}, peer, []string{"203.0.113.7:x"}, "", "header X-Forwarded-For lacks an IP address"},
		{"v4 in brackets", extract.Proxies{Hops: 1}, peer, []string{"[203.0.113.7]"}, "", "header X-Forwarded-For lacks an IP address"},
		{"over a unix socket", extract.Proxies{Hops: 1}, "@", []string{"203.0.113.7"}, "203.0.113.7", ""},
		{"other field", extract.Proxies{Hops: 1, Field: "x-real-ip"}, peer, []string{"203.0.113.7"}, "203.0.113.7", ""},

		// Trusted.
		{"stranger", extract.Proxies{Trusted: lan}, "192.0.2.1:80", []string{"6.6.6.6"}, "192.0.2.1", ""},
		{"trusted", extract.Proxies{Trusted: lan}, peer, []string{"6.6.6.6, 203.0.113.7, 10.1.1.1, fd00::1"}, "203.0.113.7", ""},
		{"within", extract.Proxies{Trusted: lan}, peer, []string{"10.1.1.1"}, "10.1.1.1", ""},
		{"trusted, no header", extract.Proxies{Trusted: lan}, peer, nil, "10.0.0.9", ""},
		{"trusted, mapped", extract.Proxies{Trusted: lan}, "[::ffff:10.0.0.9]:1", []string{"203.0.113.7"}, "203.0.113.7", ""},
		{"trusted, written as mapped", extract.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}}, peer, []string{"203.0.113.7, 10.1.1.1"}, "203.0.113.7", ""},
		{"all IPv4 trusted, written as mapped", extract.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/96")}}, peer, []string{"203.0.113.7, 10.1.1.1"}, "203.0.113.7", ""},
		{"trusted wrote nonsense", extract.Proxies{Trusted: lan}, peer, []string{"203.0.113.7, _hidden"}, "", "header X-Forwarded-For lacks an IP address"},
		{"trusted, not an address", extract.Proxies{Trusted: lan}, "@", []string{"203.0.113.7"}, "", "the address of the connection"},
		{"both: at most hops", extract.Proxies{Trusted: lan, Hops: 1}, peer, []string{"203.0.113.7, 10.1.1.1"}, "10.1.1.1", ""},
		{"both: past the proxy", extract.Proxies{Trusted: lan, Hops: 2}, "192.0.2.1:80", []string{"6.6.6.6, 10.1.1.1"}, "192.0.2.1", ""},
		{"no end of trust", extract.Proxies{Trusted: prefixes("0.0.0.0/0")}, peer, []string{strings.Repeat("10.0.0.1,", 1000) + strings.Repeat("10.0.0.2,", 16)}, "10.0.0.2", ""},

		// Forwarded.
		{"rfc7239", rfc7239(extract.Proxies{Hops: 1}), peer, []string{"for=203.0.113.7"}, "203.0.113.7", ""},
		{"rfc7239, all of it", rfc7239(extract.Proxies{Hops: 1}), peer, []string{`for=6.6.6.6, For="203.0.113.7:47011" ; proto=https;by=203.0.113.43;host="a,b;\"for=6.6.6.6"`}, "203.0.113.7", ""},
		{"rfc7239, v6", rfc7239(extract.Proxies{Hops: 1}), peer, []string{`for="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::/64", ""},
		{"rfc7239, obfuscated port", rfc7239(extract.Proxies{Hops: 1}), peer, []string{`for="203.0.113.7:_p"`}, "203.0.113.7", ""},
		{"rfc7239, two proxies", rfc7239(extract.Proxies{Hops: 2}), peer, []string{"for=6.6.6.6,for=203.0.113.7", "for=10.0.0.1"}, "203.0.113.7", ""},
		{"rfc7239, open quote of the caller", rfc7239(extract.Proxies{Hops: 1}), peer, []string{`for=", for=203.0.113.7`}, "203.0.113.7", ""},
		{"rfc7239, hidden", rfc7239(extract.Proxies{Hops: 1}), peer, []string{"for=_secret"}, "", "header Forwarded lacks an IP address"},
		{"rfc7239, v6 without brackets", rfc7239(extract.Proxies{Hops: 1}), peer, []string{`for="2001:db8::1"`}, "", "header Forwarded lacks an IP address"},
		{"rfc7239, twice", rfc7239(extract.Proxies{Hops: 1}), peer, []string{"for=203.0.113.7;for=6.6.6.6"}, "", "header Forwarded lacks an IP address"},
		{"rfc7239, none", rfc7239(extract.Proxies{Hops: 1}), peer, []string{"proto=https"}, "", "header Forwarded lacks an IP address"},
		{"rfc7239, no value", rfc7239(extract.Proxies{Hops: 1}), peer, []string{"for"}, "", "header Forwarded lacks an IP address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := remoteIP(tc.p, tc.peer, tc.lines...)
			if got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
			if (err != nil) != (tc.missing != "") || err != nil && (!strings.HasPrefix(err.Error(), tc.missing) || !errors.Is(err, extract.ErrMissing)) {
				t.Errorf("error %v, want %q", err, tc.missing)
			}
		})
	}
}

// TestRemoteIPRefusesBadProxies checks that RemoteIP panics on invalid settings and names the
// field.
func TestRemoteIPRefusesBadProxies(t *testing.T) {
	for want, p := range map[string]extract.Proxies{
		"extract: RemoteIP: Proxies.Hops: 17; must be 0 to 16":                                                                  {Hops: 17},
		"extract: RemoteIP: Proxies.Hops: -1; must be 0 to 16":                                                                  {Hops: -1},
		"extract: RemoteIP: Proxies.Trusted[0]: invalid Prefix; must be a network such as 10.0.0.0/8":                           {Trusted: make([]netip.Prefix, 1)},
		"extract: RemoteIP: Proxies.Trusted[0]: ::ffff:0.0.0.0/80; a network of IPv4 addresses within IPv6 has 96 bits or more": {Trusted: []netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/80")}},
		"extract: RemoteIP: Proxies.IPv6Prefix: 129; must be 1 to 128, or 0 for 64":                                             {IPv6Prefix: 129},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v, want %q", got, want)
				}
			}()
			extract.RemoteIP(p)
		}()
	}
}

// FuzzForwardedFor checks that a caller cannot forge its address: whatever it sends, the key is the
// address that the proxy appended.
func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"", "6.6.6.6", "6.6.6.6,", `"`, "a,,b", ", ,", "[::1", "\x00\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		for _, lines := range [][]string{{sent + ", 203.0.113.7"}, {sent, "203.0.113.7"}} {
			if got, err := remoteIP(extract.Proxies{Hops: 1}, "10.0.0.9:1", lines...); got != "203.0.113.7" {
				t.Errorf("%q: %q, %v", lines, got, err)
			}
			if got, err := remoteIP(extract.Proxies{Trusted: prefixes("10.0.0.0/8")}, "10.0.0.9:1", lines...); got != "203.0.113.7" {
				t.Errorf("trusted, %q: %q, %v", lines, got, err)
			}
		}
		wellFormed(t, extract.Proxies{Hops: 2}, sent+", 10.0.0.1")
	})
}

// FuzzForwarded checks the same for RFC 7239.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"", "for=6.6.6.6", `for="`, `for="\`, `for="[::1]:8"`, `host="a\", for=9.9.9.9"`, `for=a;for=b`, `="`, ";;"} {
		f.Add(s)
	}
	p := extract.Proxies{Hops: 1, Field: "Forwarded"}
	f.Fuzz(func(t *testing.T, sent string) {
		for _, lines := range [][]string{
			{sent + ", for=203.0.113.7"},
			{sent, `proto=http;host="x,\"y\\";for="203.0.113.7:80"`},
			{sent + `,for="203.0.113.7";host="\\"`},
		} {
			if got, err := remoteIP(p, "10.0.0.9:1", lines...); got != "203.0.113.7" {
				t.Errorf("%q: %q, %v", lines, got, err)
			}
		}
		wellFormed(t, extract.Proxies{Hops: 2, Field: "Forwarded"}, sent+", for=10.0.0.1")
	})
}

// wellFormed checks that the result is an address, a network, or an error.
func wellFormed(t *testing.T, p extract.Proxies, line string) {
	got, err := remoteIP(p, "10.0.0.9:1", line)
	if err != nil {
		if got != "" || !extract.IsMissing(err) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
		return
	}
	if a, err := netip.ParseAddr(got); err == nil && a.Is4() {
		return
	}
	if n, err := netip.ParsePrefix(got); err != nil || n.Bits() != 64 || n.String() != got {
		t.Errorf("%q: %q", line, got)
	}
}
