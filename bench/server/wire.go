package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
	"github.com/quorate/quorate/internal/freeport"
)

// freeAddrs returns unused addresses on loopback.
func freeAddrs(n int) ([]string, error) {
	out := make([]string, n)
	for i := range out {
		var err error
		if out[i], err = freeport.Addr(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// wire is a load of raw bytes: requests encoded in advance, and answers that are barely parsed.
type wire struct {
	addr     string
	conns    int
	pipeline int
	requests [][]byte                  // one operation each
	read     func(*bufio.Reader) error // one answer
}

func (w *wire) run(ctx context.Context, length time.Duration) (int, []time.Duration, error) {
	open := make([]net.Conn, w.conns)
	for i := range open {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.addr)
		if err != nil {
			return 0, nil, err
		}
		defer func() { _ = c.Close() }() //nolint:gocritic // all of them, at the end
		open[i] = c
	}
	return crowd(w.conns, length, func(i int, rng *rand.Rand) (func() error, error) {
		c, in := open[i], bufio.NewReaderSize(open[i], 16<<10)
		var out []byte
		return func() error {
			out = out[:0]
			for range w.pipeline {
				out = append(out, w.requests[rng.IntN(len(w.requests))]...)
			}
			if _, err := c.Write(out); err != nil {
				return err
			}
			for range w.pipeline {
				if err := w.read(in); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}, w.pipeline)
}

// readHTTP reads an answer with status 200 and a content length.
func readHTTP(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("answered %q", line)
	}
	length := -1
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) == len("\r\n") {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); string(name) == "Content-Length" {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without Content-Length")
	}
	_, err = in.Discard(length)
	return err
}

// posts returns a check of each key as an HTTP request.
func posts() [][]byte {
	out := make([][]byte, keys)
	for i := range out {
		body := fmt.Sprintf(`{"namespace":"bench","limit":"check","key":%q}`, key(i))
		out[i] = fmt.Appendf(nil, "POST /v1/allow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	return out
}

func web() suite.Group {
	load := func(addr string) load {
		return (&wire{addr: addr, conns: unaryCallers, pipeline: 1, requests: posts(), read: readHTTP}).run
	}
	return group("http", "HTTP/JSON, 64 connections", "POST /v1/allow on persistent connections, compared with an empty net/http handler.",
		emptyServer(empty, func(r *runner, _, addr string) error {
			r.load = load(addr)
			return nil
		}),
		ours(quorate, 1, func(r *runner, c *process.Cluster) error {
			r.load = load(c.Nodes[0].HTTP)
			return nil
		}, atLeast(rate, .8, empty)))
}
