package subnet

import "testing"

func TestNetwork(t *testing.T) {
	for addr, want := range map[string]string{
		"203.0.113.7:5": "203.0.113.7/32", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[::ffff:203.0.113.7]:5": "203.0.113.7/32", "bufconn": "invalid Prefix",
	} {
		if got := OfConn(textAddr(addr)).String(); got != want {
			t.Errorf("%s: %s; want %s", addr, got, want)
		}
	}
}

type textAddr string

func (textAddr) Network() string { return "tcp" }

func (a textAddr) String() string { return string(a) }
