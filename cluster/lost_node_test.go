package cluster

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestOrdinaryLifeWarnsOfNothing checks that a start, a transfer of all leaderships and the stop of a
// node log no warnings, and that the other nodes warn of a killed node.
func TestOrdinaryLifeWarnsOfNothing(t *testing.T) {
	testspeed.Full(t)
	var w buftest.Buffer // the warnings of nodes
	for range 5 {
		c, ids := startWarned(t, &w)
		stopWithout(t, c, ids[2])
		got := w.Take()
		if strings.Contains(got, "heartbeat timeout reached") {
			t.Logf("not an ordinary life: the machine was so busy that there was an election\n%s", got)
			c.stop()
			w.Take()
			continue
		}
		if got != "" {
			t.Errorf("of a start and a stop:\n%s", got)
		}
		c.kill(ids[1])
		c.eventually(10*time.Second, "the node that was killed is told of", func() error {
			if got := w.Take(); !strings.Contains(got, "has not announced a stop") || !strings.Contains(got, "node="+string(ids[1])) {
				return fmt.Errorf("%q", got)
			}
			return nil
		})
		return
	}
	t.Error("five times there was an election that nobody asked for")
}

// TestLeaverIsQuiet checks that a node that has left does not warn of peers that refuse it.
func TestLeaverIsQuiet(t *testing.T) {
	testspeed.Full(t)
	w := &buftest.Buffer{}
	c := newThreeNodes(t, 2, func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})).With("node_here", cfg.Self)
	})
	c.seeded()
	c.join("n4", c.token())
	c.settled(time.Minute, 3)
	n4 := c.nodes["n4"]
	w.Take()
	c.leave("n4")
	for _, id := range c.ids() {
		if n4.routes.up(id) {
			t.Errorf("%s is still connected", id)
		}
	}
	for line := range strings.Lines(w.Take()) {
		if strings.Contains(line, "node_here=n4") && strings.Contains(line, "unreachable") {
			t.Error(line)
		}
	}
}

func startWarned(t *testing.T, w *buftest.Buffer) (*threeNodes, []quota.NodeID) {
	t.Helper()
	c := newThreeNodes(t, 4, func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})).With("node_here", cfg.Self)
	})
	c.awaitReady(10 * time.Second)
	return c, c.ids()
}

// stopWithout stops a node, and waits until the others would have warned.
func stopWithout(t *testing.T, c *threeNodes, id quota.NodeID) {
	t.Helper()
	if err := c.nodes[id].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(c.nodes, id)
	c.eventually(10*time.Second, "the others miss the node that stopped", func() error {
		for _, n := range c.running() {
			if n.routes.up(id) {
				return fmt.Errorf("%s does not", n.cfg.Self)
			}
		}
		return nil
	})
	time.Sleep(600 * time.Millisecond) // nodes report faults within a lease
}
