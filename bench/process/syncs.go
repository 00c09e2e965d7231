package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Syncs counts calls of fsync and fdatasync.
type Syncs struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

// CountSyncs begins to count the calls of processes. It needs perf and the right to trace, and
// returns an error without them.
func CountSyncs(ps ...*Process) (*Syncs, error) {
	perf, err := Find("perf", "linux-perf")
	if err != nil {
		return nil, err
	}
	var pids []string
	for _, p := range ps {
		pids = append(pids, strconv.Itoa(p.PID()))
	}
	s := &Syncs{}
	//nolint:noctx // it runs until End
	s.cmd = exec.Command(perf, "stat", "-x", ",", "-e", "syscalls:sys_enter_fsync,syscalls:sys_enter_fdatasync", "-p", strings.Join(pids, ","))
	s.cmd.Stderr = &s.out
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	time.Sleep(attach)
	return s, nil
}

// attach is how long perf takes to begin.
const attach = 300 * time.Millisecond

// End ends the count and returns it.
func (s *Syncs) End() (int64, error) {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return 0, errors.Join(fmt.Errorf("perf: %w", err), s.cmd.Wait())
	}
	_ = s.cmd.Wait() // which says that it was interrupted
	var all int64
	lines := 0
	for line := range strings.Lines(s.out.String()) {
		if count, rest, ok := strings.Cut(line, ","); ok && strings.Contains(rest, "syscalls:") {
			n, err := strconv.ParseInt(count, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("perf: %q", line)
			}
			all, lines = all+n, lines+1
		}
	}
	if lines != 2 {
		return 0, fmt.Errorf("perf: %s", s.out.String())
	}
	return all, nil
}
