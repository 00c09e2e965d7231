package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// Subjects of the table of the Redis protocol.
const (
	incr   = "redis-server, INCR"
	script = "redis-server, a bucket in Lua"
)

// bucketScript is a token bucket as commonly written for Redis: two numbers in a hash, the server's
// time, and an expiry.
const bucketScript = `
local at = redis.call('TIME')
local now = at[1] + at[2] / 1000000
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local was = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = math.min(burst, (tonumber(was[1]) or burst) + (now - (tonumber(was[2]) or now)) * rate)
local allowed = 0
if tokens >= 1 then
  tokens, allowed = tokens - 1, 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], 60)
return {allowed, math.floor(tokens)}`

func redis() suite.Group {
	return group("redis", "Redis protocol, 64 connections, pipelines of 16", "redis-server runs commands on one thread; the bucket in Lua does the same for one key as Quorate.",
		redisServer(incr, func(_ net.Conn) (pipeline, error) {
			return pipelineOf(func(k string) []byte { return command("INCR", k) }), nil
		}),
		redisServer(script, func(c net.Conn) (pipeline, error) {
			sha, err := ask(c, command("SCRIPT", "LOAD", bucketScript))
			return pipelineOf(func(k string) []byte { return command("EVALSHA", sha, "1", "b"+k, "1000000", "1000000") }), err
		}),
		overRedis(quorate+", QUORATE.ALLOW", func(k string) []byte { return command("QUORATE.ALLOW", "bench", "check", k) }),
		overRedis(quorate+", CL.THROTTLE", func(k string) []byte { return command("CL.THROTTLE", k, "999999", "1000000", "1") }))
}

func overRedis(name string, cmd func(key string) []byte) suite.Subject {
	return ours(name, 1, func(r *runner, c *process.Cluster) error {
		r.load = pipelineOf(cmd).to(c.Nodes[0].Redis)
		return nil
	}, atLeast(rate, .8, incr), atLeast(rate, 5, script))
}

// pipeline holds the commands of a load.
type pipeline [][]byte

func pipelineOf(cmd func(key string) []byte) pipeline {
	out := make(pipeline, keys)
	for i := range out {
		out[i] = cmd(key(i))
	}
	return out
}

func (p pipeline) to(addr string) load {
	return (&wire{addr: addr, conns: redisConns, pipeline: redisPipeline, requests: p, read: readRESP}).run
}

// redisServer is redis-server, in memory only, under a load that is made once it runs.
func redisServer(name string, make func(net.Conn) (pipeline, error)) suite.Subject {
	return redisWith(name, func(string) []string { return []string{"--save", "", "--appendonly", "no"} }, func(r *runner, addr string) error {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		commands, err := make(c)
		r.load = commands.to(addr)
		return err
	})
}

// redisWith is redis-server with some settings, given a directory for its data, under the load that
// on makes from its address.
func redisWith(name string, settings func(dir string) []string, on func(r *runner, addr string) error) suite.Subject {
	return suite.Subject{Name: name, Start: func(ctx context.Context) (suite.Runner, error) {
		path, err := process.Find("redis-server", "redis-server")
		if err != nil {
			return nil, err
		}
		return begin(ctx, func(r *runner) error {
			dir, err := os.MkdirTemp("", "redis-")
			if err != nil {
				return err
			}
			r.closers = append(r.closers, func() error { return os.RemoveAll(dir) })
			addrs, err := freeAddrs(1)
			if err != nil {
				return err
			}
			host, port, _ := strings.Cut(addrs[0], ":")
			p, err := process.Start(path, append([]string{"--bind", host, "--port", port}, settings(dir)...)...)
			if err != nil {
				return err
			}
			r.servers = []*process.Process{p}
			r.closers = append(r.closers, p.Close)
			if err := p.AwaitPort(ctx, addrs[0]); err != nil {
				return err
			}
			return on(r, addrs[0])
		})
	}}
}

// command encodes a command in the Redis protocol.
func command(args ...string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
	}
	return out
}

// ask sends a command and returns the string that answers it.
func ask(c net.Conn, cmd []byte) (string, error) {
	if _, err := c.Write(cmd); err != nil {
		return "", err
	}
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "$") {
		err = fmt.Errorf("answered %q", line)
	}
	if err == nil {
		line, err = in.ReadString('\n')
	}
	return strings.TrimSpace(line), err
}

// severalRESP returns a function that reads as many answers.
func severalRESP(count int) func(*bufio.Reader) error {
	return func(in *bufio.Reader) error {
		for range count {
			if err := readRESP(in); err != nil {
				return err
			}
		}
		return nil
	}
}

// readRESP reads one answer, or an array of simple ones.
func readRESP(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	switch line[0] {
	case ':', '+':
		return nil
	case '-':
		return fmt.Errorf("answered %q", line)
	}
	n := 0
	for _, c := range bytes.TrimSpace(line[1:]) {
		if c < '0' || c > '9' {
			return errors.New("an answer of no length")
		}
		n = 10*n + int(c-'0')
	}
	if line[0] == '$' {
		_, err := in.Discard(n + len("\r\n"))
		return err
	}
	for range n {
		if err := readRESP(in); err != nil {
			return err
		}
	}
	return nil
}
