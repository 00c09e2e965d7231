package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// warnings collects what nodes warn of.
type warnings struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.out.Reset()
	return w.out.String()
}

// TestOrdinaryLifeWarnsOfNothing: a start, a transfer of all leaderships and the stop of a
// node are in the log, and nobody is warned. A node that is killed is told of by the others.
func TestOrdinaryLifeWarnsOfNothing(t *testing.T) {
	var w warnings
	c := newTrio(t, 4, func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&w, &slog.HandlerOptions{Level: slog.LevelWarn})).With("node_here", cfg.Self)
	})
	c.awaitReady(10 * time.Second)
	ids := c.ids()
	stopped, killed := ids[2], ids[1]
	if err := c.nodes[stopped].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(c.nodes, stopped)
	c.eventually(10*time.Second, "the others miss the node that stopped", func() error {
		for _, n := range c.running() {
			if n.routes.up(stopped) {
				return fmt.Errorf("%s does not", n.cfg.Self)
			}
		}
		return nil
	})
	time.Sleep(600 * time.Millisecond) // what is wrong is told of within a lease
	if got := w.take(); got != "" {
		t.Errorf("of a start and a stop:\n%s", got)
	}
	c.kill(killed)
	c.eventually(10*time.Second, "the node that was killed is told of", func() error {
		if got := w.take(); !strings.Contains(got, "has not said that it stops") || !strings.Contains(got, "node="+string(killed)) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}
