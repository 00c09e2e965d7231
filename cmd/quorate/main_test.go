package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/server"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quorate": main})
}

// TestScripts runs the real command line against a fake cluster of three nodes. In a script, "exits
// N command" runs the command and expects exit code N.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("every command is a process of its own; left out by -short")
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *rewrite,
		Setup: func(env *testscript.Env) error {
			base, stop, err := startFake()
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Setenv("QUORATE_USER", "tester")
			env.Setenv("BASE", strconv.Itoa(base))
			env.Setenv("DEAD", deadBase)
			for k := 1; k <= 3; k++ {
				env.Setenv(fmt.Sprintf("NODE%d", k), fmt.Sprintf("127.0.0.1:%d", remote.GRPCPort(base, k)))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": func(ts *testscript.TestScript, _ bool, args []string) {
			err := ts.Exec(args[1], args[2:]...)
			code := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code = exit.ExitCode()
			} else if err != nil {
				ts.Fatalf("%v", err)
			}
			if want, _ := strconv.Atoi(args[0]); code != want {
				ts.Fatalf("exit code %d, want %d", code, want)
			}
		}},
	})
}

// startFake serves a cluster of three nodes and returns its base port.
func startFake() (base int, stop func(), err error) {
	c := newFakeCluster()
	for range 20 {
		base = freeBase()
		var stops []func()
		stop = func() {
			for _, s := range stops {
				s()
			}
		}
		for k := 1; k <= 3; k++ {
			var l net.Listener
			if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", remote.GRPCPort(base, k))); err != nil {
				stop()
				break
			}
			srv := grpcapi.New(api.New(c, api.Options{ParseLimits: config.ParseLimits, FormatLimits: config.FormatLimits, Lint: server.LintLimits, Grants: fakeGrants{}}), nil)
			go srv.Serve(l) // returns after Stop
			stops = append(stops, srv.Stop)
		}
		if err == nil {
			return base, stop, nil
		}
	}
	return 0, nil, err
}

// deadBase is a base port at which no node answers: its ports are never given to a process that asks for a free one.
const deadBase = "900"

// freeBase returns a base port at which the ports of the first two nodes are probably free.
func freeBase() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return min(l.Addr().(*net.TCPAddr).Port, 65000) - 12
}

var rewrite = flag.Bool("rewrite", false, "write what the commands print into testdata and docs/reference/cli; then read the diff")
