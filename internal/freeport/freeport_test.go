package freeport

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestClaim checks that a claimed port is free to listen on, is not claimed twice, here or by another
// process, and can be claimed again when it is released.
func TestClaim(t *testing.T) {
	if given := os.Getenv("FREEPORT_OTHER"); given != "" { // the other process, see below
		port, err := strconv.Atoi(given)
		if err != nil {
			t.Fatal(err)
		}
		if err := Claim(port); !errors.Is(err, ErrTaken) {
			t.Errorf("the other process: %v, want %v", err, ErrTaken)
		}
		return
	}
	port, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	if err := Claim(port); !errors.Is(err, ErrTaken) {
		t.Errorf("claimed twice: %v, want %v", err, ErrTaken)
	}
	other := exec.Command(os.Args[0], "-test.run", "^TestClaim$")
	other.Env = append(os.Environ(), "FREEPORT_OTHER="+strconv.Itoa(port))
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	Release(port)
	if err := Claim(port); !errors.Is(err, ErrTaken) {
		t.Errorf("claimed while somebody listens: %v, want %v", err, ErrTaken)
	}
	l.Close()
	if err := Claim(port); err != nil {
		t.Errorf("released, but not claimed again: %v", err)
	}
	Release(port)
}
