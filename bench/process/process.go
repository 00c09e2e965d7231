package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a child process that runs until it is closed.
type Process struct {
	cmd   *exec.Cmd
	out   output
	ended chan struct{}
}

// output keeps the end of a child's output.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const mostOutput = 1 << 20

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b.Len() > mostOutput {
		o.b.Reset()
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Start runs a program.
func Start(name string, args ...string) (*Process, error) {
	//nolint:noctx // it runs until it is closed
	p := &Process{cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID returns the process id of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill kills the child with SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Close stops the child with SIGTERM, and after ten seconds with SIGKILL.
func (p *Process) Close() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.Kill()
	}
	return nil
}

// Output returns the end of the child's output.
func (p *Process) Output() string { return p.out.String() }

// Await calls f until it returns no error, for at most half a minute.
func (p *Process) Await(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s: it has ended\n%s", what, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w\n%s", what, err, p.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// AwaitPort waits until the address accepts connections.
func (p *Process) AwaitPort(ctx context.Context, addr string) error {
	return p.Await(ctx, addr, func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// ErrNotFound is the error of Find for a missing program.
var ErrNotFound = errors.New("not installed")

// Find returns the path of a program. Its error names the Debian package of the program.
func Find(program, pkg string) (string, error) {
	at, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s: %w (apt install %s)", program, ErrNotFound, pkg)
	}
	return at, nil
}

// CPU returns the processor time that the processes have used so far, over all threads, user and
// system, in clock ticks of 10 ms.
func CPU(ps ...*Process) (time.Duration, error) {
	var all time.Duration
	for _, p := range ps {
		f, err := stat(p.PID())
		if err != nil {
			return 0, err
		}
		all += f
	}
	return all, nil
}

func stat(pid int) (time.Duration, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain blanks.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var ticks int64
	for _, at := range []int{11, 12} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// Used is the total use of processes since they started.
type Used struct {
	CPU     time.Duration
	Disk    int64 // bytes that went to the disk
	Written int64 // bytes written to files and sockets
}

// Use returns what processes have used so far.
func Use(ps ...*Process) (Used, error) {
	var u Used
	var err error
	if u.CPU, err = CPU(ps...); err != nil {
		return u, err
	}
	for _, p := range ps {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/io")
		if err != nil {
			return u, err
		}
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil:
				return u, fmt.Errorf("io of a process: %q", line)
			case name == "wchar":
				u.Written += n
			case name == "write_bytes":
				u.Disk += n
			}
		}
	}
	return u, nil
}

// RSS returns the resident bytes of a process, and how many of them are mapped files: its own
// binary, and its logs.
func RSS(pid int) (all, files int64, err error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, 0, err
	}
	var size int64
	_, err = fmt.Sscan(string(data), &size, &all, &files)
	page := int64(os.Getpagesize())
	return all * page, files * page, err
}
