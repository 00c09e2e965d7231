package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Roles of this program: what it does when it was started by [Role]. A package adds
// its own in init, and nothing else writes here.
var Roles = map[string]func(args []string) error{}

// roleFlag comes first among the arguments of a program in a role.
const roleFlag = "-role"

// Role starts this program again, to play one of [Roles] with those arguments.
func Role(name string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Start(self, append([]string{roleFlag, name}, args...)...)
}

// Play plays the role that the program was started for, if it was; main calls it
// before anything else.
func Play() (played bool, err error) {
	if len(os.Args) < 3 || os.Args[1] != roleFlag {
		return false, nil
	}
	f, ok := Roles[os.Args[2]]
	if !ok {
		return true, fmt.Errorf("no role %q", os.Args[2])
	}
	return true, f(os.Args[3:])
}

// RunRole plays a role to its end and returns what it printed.
func RunRole(ctx context.Context, name string, args ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var failure bytes.Buffer
	cmd := exec.CommandContext(ctx, self, append([]string{roleFlag, name}, args...)...)
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %v: %w\n%s", name, args, err, failure.Bytes())
	}
	return out, err
}
