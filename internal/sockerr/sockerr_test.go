package sockerr

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// TestErrors checks the errors of real sockets against the functions that recognize them.
func TestErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, taken := net.Listen("tcp", l.Addr().String())
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second may arrive after the first was looked for
		if _, err := c.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = other.Close() // resets the connection: it has not read all
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, reset := c.Read(make([]byte, 1))
	_ = l.Close()
	_, refused := net.Dial("tcp", l.Addr().String())
	for _, c := range []struct {
		err                   error
		refused, reset, inUse bool
	}{
		{refused, true, false, false},
		{reset, false, true, false},
		{taken, false, false, true},
		{fmt.Errorf("of a call: %w", refused), true, false, false},
		{io.EOF, false, false, false},
		{nil, false, false, false},
	} {
		if Refused(c.err) != c.refused || Reset(c.err) != c.reset || InUse(c.err) != c.inUse {
			t.Errorf("%v: refused %v, reset %v, in use %v", c.err, Refused(c.err), Reset(c.err), InUse(c.err))
		}
	}
}
