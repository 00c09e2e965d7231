package inprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/quorate/quorate/client"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// The memory that linking the client adds to a service, measured in its own process.

const residentRole = "resident"

func init() { process.Roles[residentRole] = measureResident }

// measureResident uses keys through a client of the node at an address, and prints the growth of
// resident memory since before the client existed.
func measureResident(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%q: want an address and a number of keys", args)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	keys := keyNames(n)
	before, err := resident()
	if err != nil {
		return err
	}
	c, err := client.New(ctx, []string{args[0]}, client.WithMaxKeys(n))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	select {
	case <-c.Ready():
	case <-ctx.Done():
		return fmt.Errorf("not attached: %w", ctx.Err())
	}
	s := clientStore{ctx, c}
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		for _, k := range keys { // again and again, so that all keys stay in use and get grants
			s.allow(k)
		}
	}
	after, err := resident()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(suite.Sample{"RSS": float64(after-before) / (1 << 20)})
}

// resident returns the resident memory of this process after a garbage collection.
func resident() (int64, error) {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // a second time for what the first made unreachable
	all, _, err := process.RSS(os.Getpid())
	return all, err
}

func residentClient() suite.Group {
	const keys = 10_000
	return suite.Group{
		Name: "client-memory", Title: "Memory that a client adds to a service",
		Note: "Resident memory of a process that runs only a client of a real node, which uses all keys all the time, " +
			"less the memory that it had before the client. Both rows include gRPC, which most services link anyway.",
		Measures: []suite.Measure{{Name: "RSS", Unit: "MiB more"}}, Rounds: 3, QuickRounds: 1,
		Subjects: []suite.Subject{
			residentSubject("Quorate, client, 1 key", 1),
			residentSubject("Quorate, client, 10,000 keys", keys, suite.Target{Measure: "RSS", AtMost: 2}),
		},
	}
}

func residentSubject(name string, keys int, targets ...suite.Target) suite.Subject {
	return suite.Subject{Name: name, Ours: true, Targets: targets, Start: func(ctx context.Context) (suite.Runner, error) {
		addr, stop, err := realNode(ctx)
		if err != nil {
			return nil, err
		}
		return residentRunner{addr, keys, stop}, nil
	}}
}

type residentRunner struct {
	addr string
	keys int
	stop func() error
}

// Round implements suite.Runner.
func (r residentRunner) Round(ctx context.Context, _ time.Duration) (suite.Sample, error) {
	text, err := process.RunRole(ctx, residentRole, r.addr, strconv.Itoa(r.keys))
	if err != nil {
		return nil, err
	}
	var s suite.Sample
	err = json.Unmarshal(text, &s)
	return s, err
}

// Close implements suite.Runner.
func (r residentRunner) Close() error { return r.stop() }
