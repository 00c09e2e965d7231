package systemtest

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/quota"
)

var clientProcesses = flag.Int("client-processes", 20, "how many processes TestClientProcesses runs")

// clientProcessEnv, if set, makes this test binary run as one of the client processes. Its value
// holds the addresses of the nodes, the duration, and the key.
const clientProcessEnv = "QUORATE_TEST_CLIENT_PROCESS"

// runAsClient runs a client process and prints how many tokens it admitted.
func runAsClient(args string) int {
	f := strings.Split(args, " ")
	d, err := time.ParseDuration(f[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), d+20*time.Second)
	defer cancel()
	c, err := client.New(ctx, strings.Split(f[0], ","), client.WithName("process-"+strconv.Itoa(os.Getpid())))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {
	case <-c.Ready():
	case <-ctx.Done():
		fmt.Fprintf(os.Stderr, "no node has told its limits: %+v\n", c.Stats())
		return 1
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil { // all processes are ready
		return 1
	}
	told := 0
	b := c.Bucket("api", f[3], f[2])
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if b.Allow() {
			told++
		}
	}
	if err := c.Close(); err != nil || c.Stats().Dropped > 0 {
		fmt.Fprintf(os.Stderr, "close: %v, %+v\n", err, c.Stats())
		return 1
	}
	fmt.Println(told)
	return 0
}

// TestClientProcesses runs processes that share one key of a limit that they exceed and one of a
// limit that they do not. It checks that together they get exactly the first limit, and that every
// token of the second is counted once.
func TestClientProcesses(t *testing.T) {
	s := newServers(t, 4)
	s.run(clientLimits + `
      tight: {rate: 300/s, burst: 300}
`)
	for _, limit := range []string{"soft", "tight"} {
		k := s.keysLedBy("n2", "api/"+limit)[0]
		asking := time.Second
		if *clientProcesses >= measuredProcesses {
			asking = measuredFor
		}
		told, took := s.runProcesses(k, asking)
		t.Logf("api/%s: %d processes admitted %d in %v", limit, *clientProcesses, told, took.Round(10*time.Millisecond))
		if limit == "soft" {
			c := &fleet{t: t}
			c.told.Store(told)
			s.agree(c, k)
			continue
		}
		ideal := 300 + 300*took.Seconds()
		if asked := int64(float64(*clientProcesses) * 90 * asking.Seconds()); asked > int64(1.5*ideal) && (float64(told) < 0.85*ideal-30 || float64(told) > 1.15*ideal+30) {
			t.Errorf("admitted %d; an ideal bucket admits %.0f", told, ideal)
		}
	}
}

// With measuredProcesses or more, the nodes run alone for measuredFor, then with attached processes that ask for
// nothing, then with processes that ask for a key, and the test logs what each costs the nodes.
const (
	measuredProcesses = 100
	measuredFor       = 10 * time.Second
)

// used holds the resident bytes of all nodes, and their seconds of processor time so far.
type used struct {
	at       time.Time
	rss, cpu float64
}

func (c *servers) used() used {
	c.t.Helper()
	u := used{at: time.Now()}
	for _, s := range c.nodes {
		u.rss += s.metric(c.t, "process_resident_memory_bytes")
		u.cpu += s.metric(c.t, "process_cpu_seconds_total")
	}
	return u
}

// core is the processor time used until a later moment, in percent of a core.
func (u used) core(later used) float64 {
	return 100 * (later.cpu - u.cpu) / later.at.Sub(u.at).Seconds()
}

// runProcesses starts the processes, and starts their load at the moment when all are ready.
func (c *servers) runProcesses(k quota.Key, d time.Duration) (told int64, took time.Duration) {
	c.t.Helper()
	type one struct {
		cmd *exec.Cmd
		in  interface{ Write([]byte) (int, error) }
		out *bufio.Reader
		msg *buftest.Buffer
	}
	wait := func() {
		if *clientProcesses >= measuredProcesses {
			time.Sleep(measuredFor)
		}
	}
	var all []one
	idle := c.used()
	wait()
	alone := c.used()
	for i := range *clientProcesses {
		addrs := []string{c.nodes[i%3].grpc, c.nodes[(i+1)%3].grpc, c.nodes[(i+2)%3].grpc}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), clientProcessEnv+"="+strings.Join([]string{strings.Join(addrs, ","), d.String(), k.Key, k.Limit}, " "))
		in, err := cmd.StdinPipe()
		if err != nil {
			c.t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			c.t.Fatal(err)
		}
		o := one{cmd, in, bufio.NewReader(out), &buftest.Buffer{}}
		cmd.Stderr = o.msg
		if err := cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = cmd.Process.Kill() })
		all = append(all, o)
	}
	for _, o := range all {
		if line, err := o.out.ReadString('\n'); err != nil || line != "ready\n" {
			c.t.Fatalf("%q, %v\n%s", line, err, o.msg)
		}
	}
	attached := c.used()
	wait()
	start, quiet := time.Now(), c.used()
	for _, o := range all {
		if _, err := o.in.Write([]byte("\n")); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, o := range all {
		line, err := o.out.ReadString('\n')
		n, bad := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || bad != nil {
			c.t.Fatalf("%q, %v\n%s", line, err, o.msg)
		}
		told += n
	}
	took = time.Since(start)
	busy := c.used()
	if *clientProcesses >= measuredProcesses {
		c.t.Logf("three nodes: %.0f MB, with %d processes %.0f MB; CPU %.1f %% of a core alone, %.1f %% while the processes are quiet, %.1f %% while they ask and close",
			alone.rss/1e6, len(all), busy.rss/1e6, idle.core(alone), attached.core(quiet), quiet.core(busy))
	}
	for _, o := range all {
		if err := o.cmd.Wait(); err != nil {
			c.t.Errorf("%v\n%s", err, o.msg)
		}
	}
	return told, took
}
