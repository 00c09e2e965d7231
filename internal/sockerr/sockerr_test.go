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
	_, foreign := net.Listen("tcp", "192.0.2.1:0")
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
		err                             error
		refused, reset, inUse, notLocal bool
	}{
		{refused, true, false, false, false},
		{reset, false, true, false, false},
		{taken, false, false, true, false},
		{foreign, false, false, false, true},
		{fmt.Errorf("of a call: %w", refused), true, false, false, false},
		{io.EOF, false, false, false, false},
		{nil, false, false, false, false},
	} {
		if Refused(c.err) != c.refused || Reset(c.err) != c.reset || InUse(c.err) != c.inUse || NotLocal(c.err) != c.notLocal {
			t.Errorf("%v: refused %v, reset %v, in use %v, not local %v", c.err, Refused(c.err), Reset(c.err), InUse(c.err), NotLocal(c.err))
		}
	}
}
