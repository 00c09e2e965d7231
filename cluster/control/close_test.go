package control

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/snapshotio"
)

// slowCommit is a group in which an AdvanceCommit takes until its context ends, and a little longer.
type slowCommit struct {
	losing
	began chan struct{}
	ended atomic.Bool
}

func (n *slowCommit) MetaGroup() Group { return n }

func (n *slowCommit) Apply(ctx context.Context, data []byte) (any, error) {
	if bytes.Equal(data, advanceCommit) {
		close(n.began)
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // it ends late: a Close that does not wait has returned by then
		n.ended.Store(true)
	}
	return nil, nil
}

// TestCloseEndsSpread: Close ends the spreading of a commit, and returns only when it has ended.
func TestCloseEndsSpread(t *testing.T) {
	n := &slowCommit{began: make(chan struct{})}
	s := NewStore("n1", n, quietMeta(), slog.New(slog.DiscardHandler))
	s.Start()
	if _, err := s.ApplyMeta(t.Context(), snapshotio.Encode(&raftlogv1.MetaCommand{})); err != nil {
		t.Fatal(err)
	}
	<-n.began
	began := time.Now()
	s.Close()
	if took := time.Since(began); !n.ended.Load() || took > 10*time.Second {
		t.Errorf("Close took %v; the spread had ended: %v", took, n.ended.Load())
	}
}
