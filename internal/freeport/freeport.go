// Package freeport gives ports of loopback to processes that are about to be started.
//
// A port that is only found free can be taken before its process listens, or while its process is down to be
// started again: by an outgoing connection, or by another test. The ports of this package lie below those that
// the system gives to outgoing connections, and are claimed: no other process that uses this package
// gets them until this one ends.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Linux gives ports from 32,768 to outgoing connections, other systems higher ones.
const (
	first = 10_000
	count = 22_000
)

var (
	mu     sync.Mutex
	claims = map[int]net.PacketConn{}
)

// ErrTaken is the error of Claim for a port that is used or claimed.
var ErrTaken = errors.New("port is taken")

// Claim reserves a port until this process ends or Release is called. A claim is a UDP socket with the same number: TCP has its own
// ports, so the claim does not prevent a process from listening, and the system releases it when this process dies.
func Claim(port int) error {
	mu.Lock()
	defer mu.Unlock()
	if claims[port] != nil {
		return ErrTaken
	}
	var lc net.ListenConfig
	at := fmt.Sprintf("127.0.0.1:%d", port)
	claim, err := lc.ListenPacket(context.Background(), "udp", at)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTaken, err)
	}
	tried, err := lc.Listen(context.Background(), "tcp", at)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTaken, errors.Join(err, claim.Close()))
	}
	claims[port] = claim
	return tried.Close()
}

// Release ends a claim of this process.
func Release(port int) {
	mu.Lock()
	defer mu.Unlock()
	if c := claims[port]; c != nil {
		_ = c.Close()
		delete(claims, port)
	}
}

// Port claims any port.
func Port() (port int, err error) {
	for range 1000 {
		port = first + rand.IntN(count)
		if err = Claim(port); err == nil {
			return port, nil
		}
	}
	return 0, err
}

// Addr claims any port and returns its address, host:port.
func Addr() (string, error) {
	port, err := Port()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
