package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Roles maps the roles of this program to what it does when [Role] starts it. Packages add their
// roles in init; nothing else writes here.
var Roles = map[string]func(args []string) error{}

// roleFlag is the first argument of a program in a role.
const roleFlag = "-role"

// Role starts this program again, in one of [Roles], with the given arguments.
func Role(name string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Start(self, append([]string{roleFlag, name}, args...)...)
}

// Play plays the role that the program was started for, if any. main calls it first.
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

// RunRole plays a role to its end and returns its output.
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
