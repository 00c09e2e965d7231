package exit

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes. Scripts rely on them: codes may be added, but not changed.
const (
	OK          = 0
	No          = 1
	Usage       = 2
	Conflict    = 3
	Unreachable = 4
	NotFound    = 5
	Fault       = 6
	Denied      = 7
)

// CodesHelp lists the exit codes for help texts.
const CodesHelp = `  0  success, or the answer is yes
  1  the answer is no: a check was refused, operations on accounts were not
     applied, limits differ, a file has findings (with --strict), a converted
     file has notes, a scenario of sim did not end as it expects, the cluster is
     not healthy (status --check), or refuses the change in its current state;
     of dev, serve, load and replay: they failed
  2  wrong usage, or an input that is not valid or cannot be read
  3  conflict: another caller changed the limits first, or a request id was
     used for other operations
  4  no node can be reached, or a leader is missing: try again
  5  not found: what the command names does not exist
  6  the cluster answered that something is wrong with it
  7  a permission is missing`

// NewTopic returns the text of "quorate help exit-codes".
func NewTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes of all commands mean",
		Long: `Every command ends with one of these codes:

` + CodesHelp + `

Results go to standard output, everything else to standard error.`,
	}
}

// exitError ends the program with its own code. A nil err prints nothing, because the output has
// said it.
type exitError struct {
	err  error
	code int
}

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the error that is printed.
func (e *exitError) Unwrap() error { return e.err }

// Silent reports whether err ends the program without a message.
func Silent(err error) bool {
	e, ok := errors.AsType[*exitError](err)
	return ok && e.err == nil
}

// With returns err with an exit code, nil if err is nil.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{err, code}
}

// Errorf formats an error with an exit code.
func Errorf(code int, format string, args ...any) error {
	return &exitError{fmt.Errorf(format, args...), code}
}

// AnswerNo returns the error of a command whose answer is no; its output has said why.
func AnswerNo() error { return &exitError{code: No} }

// NotFoundf formats the error of something that does not exist.
func NotFoundf(format string, args ...any) error { return Errorf(NotFound, format, args...) }

// HasCode reports whether err has an exit code already.
func HasCode(err error) bool {
	_, ok := errors.AsType[*exitError](err)
	return ok || WrongUsage(err)
}

// Invalid marks an input as unusable; err says where and why.
func Invalid(err error) error { return With(Usage, err) }

// usageError is the error of an invalid command line.
type usageError struct{ error }

// Usagef formats the error of an invalid command line.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// WrongUsage reports whether err is the error of an invalid command line.
func WrongUsage(err error) bool { return errors.As(err, new(usageError)) }

// CodeOf returns the exit code of err.
func CodeOf(err error) int {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if WrongUsage(err) {
		return Usage
	}
	return No
}
