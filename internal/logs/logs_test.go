package logs

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestBudget checks that a flood of lines passes as a burst and then a line a second, separately
// per message, and that the next line reports how many were dropped.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := New(slog.NewTextHandler(&b, nil))
		log := slog.New(l).With("node", "n1").WithGroup("g")
		for range 100 {
			log.Warn("again")
		}
		log.Warn("another")
		log.Error("again")
		log.Debug("too little")
		count := func(text string) int { return strings.Count(b.String(), text) }
		if count("level=WARN msg=again") != burst || count("another") != 1 || count("level=ERROR") != 1 || l.Dropped() != 100-burst {
			t.Fatalf("%d dropped of\n%s", l.Dropped(), b.String())
		}
		b.Reset()
		time.Sleep(2 * time.Second)
		for range 10 {
			log.Warn("again")
		}
		if count("again") != 2 || count("dropped=80") != 1 || l.Dropped() != 88 {
			t.Errorf("%d dropped of\n%s", l.Dropped(), b.String())
		}
		b.Reset()
		time.Sleep(time.Hour)
		log.Warn("again")
		if count("dropped=8") != 1 {
			t.Errorf("what was held back is forgotten: %s", b.String())
		}
	})
}

// TestManyMessages checks the bound on remembered messages.
func TestManyMessages(t *testing.T) {
	l := New(slog.DiscardHandler)
	for i := range 3 * maxKinds {
		l.lines.Allow(message{slog.LevelInfo, strconv.Itoa(i)}, time.Now(), burst, every)
	}
	if n := len(l.lines.kinds); n > maxKinds {
		t.Errorf("%d messages are remembered; at most %d", n, maxKinds)
	}
}
