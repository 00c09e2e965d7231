package deadline

import (
	"context"
	"errors"
	"testing"
	"time"
)

// silent is a context whose deadline passes without ending it.
type silent struct {
	context.Context
	at time.Time
}

func (s silent) Deadline() (time.Time, bool) { return s.at, true }

// TestErr checks that a deadline counts from its moment on, and that other contexts are as they say.
func TestErr(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{
		{t.Context(), nil},
		{silent{t.Context(), time.Now().Add(time.Hour)}, nil},
		{silent{t.Context(), time.Now()}, context.DeadlineExceeded},
		{silent{canceled, time.Now()}, context.Canceled},
		{canceled, context.Canceled},
	} {
		if got := Err(c.ctx); !errors.Is(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}
