package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Exit codes. Scripts rely on them: they are added to, never changed.
const (
	exitOK          = 0
	exitNo          = 1
	exitUsage       = 2
	exitConflict    = 3
	exitUnreachable = 4
	exitNotFound    = 5
	exitFault       = 6
	exitDenied      = 7
)

const exitCodes = `  0  it is done, or the answer is yes
  1  the answer is no: a check was refused, operations on accounts were not
     applied, limits differ, a file has findings
     (with --strict), a converted file has notes, a scenario of sim did not end
     as it expects, the cluster is not healthy (status --check), or refuses a
     change as long as it is as it is; of dev, serve, load and replay: they failed
  2  wrong usage, or an input that is not valid or cannot be read
  3  conflict: somebody else changed the limits meanwhile, or a request id was
     used for other operations
  4  no node can be reached, or a leader is missing: try again
  5  what is named does not exist
  6  the cluster answered that something is wrong with it
  7  a permission is missing`

// newExitCodesTopic is read with "quorate help exit-codes".
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes of all commands mean",
		Long: `Every command ends with one of these codes:

` + exitCodes + `

Results go to standard output, everything else to standard error.`,
	}
}

// exitError ends the program with a code of its own, without a word if err is
// nil: then the output has said it.
type exitError struct {
	err  error
	code int
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// no is the answer of a command that has printed why.
func no() error { return &exitError{code: exitNo} }

func notFoundf(format string, args ...any) error {
	return &exitError{fmt.Errorf(format, args...), exitNotFound}
}

// invalid is an input that cannot be used; err says where and why.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{err, exitUsage}
}

// usageError is a command line that cannot be run.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// unreachableError is a cluster of which no node answers.
type unreachableError struct{ error }

// codeOf returns what the program ends with.
func codeOf(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, new(unreachableError)):
		return exitUnreachable
	}
	return exitNo
}

// refusal turns what a node answered into an error of ours, without gRPC's
// wrapping.
func refusal(err error) error {
	st := status.Convert(err)
	code := exitFault
	switch st.Code() {
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		code = exitUsage
		if reasonOf(st) == "NOT_NOW" {
			code = exitNo
		}
	case codes.Aborted, codes.AlreadyExists:
		code = exitConflict
		if reasonOf(st) == "ACCOUNTS_HELD" {
			code = exitUnreachable
		}
	case codes.ResourceExhausted:
		if reasonOf(st) == "OVERLOADED" {
			code = exitUnreachable
		}
	case codes.PermissionDenied, codes.Unauthenticated:
		code = exitDenied
	case codes.Unavailable, codes.DeadlineExceeded:
		code = exitUnreachable
	case codes.NotFound:
		code = exitNotFound
	}
	return &exitError{errors.New(explain(st) + denied(st, deniedIdentity(st.Message()))), code}
}

// reasonOf returns a node's word for what is wrong, for machines.
func reasonOf(st *status.Status) string {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}

// explain returns what a node said was wrong.
func explain(st *status.Status) string {
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.BadRequest:
			if len(d.FieldViolations) > 0 && isFile(d.FieldViolations[0].GetField()) {
				return d.FieldViolations[0].GetDescription()
			}
		case *errdetails.ErrorInfo:
			if d.Reason == "VERSION_CONFLICT" {
				return conflict(d.Metadata)
			}
		}
	}
	return strings.TrimPrefix(st.Message(), "version: limits: ")
}

// isFile says whether a field is the text of a file, whose faults name their
// own places.
func isFile(field string) bool { return field == "yaml" || strings.HasSuffix(field, ".yaml") }

func conflict(meta map[string]string) string {
	by := ""
	if meta["by"] != "" {
		by = ", made by " + show(meta["by"]) + ","
	}
	return fmt.Sprintf("conflict: version %s was expected, but version %s%s is in force; see what it changed with \"quorate limits diff %s %s\", then repeat this",
		meta["expected"], meta["current"], by, meta["expected"], meta["current"])
}

// group is a command that only has others below it.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		RunE: func(*cobra.Command, []string) error {
			return usagef("%s: say what to do: %s", use, strings.Join(names, ", "))
		},
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("%s: unknown command %q; did you mean %s?", use, args[0], near[0])
		}
		if others := elsewhere(cmd.Root(), args[0]); others != "" {
			return fmt.Errorf("%s: unknown command %q; did you mean %s?", use, args[0], others)
		}
		if right := ofLimit(cmd, args[0]); right != "" {
			return fmt.Errorf("%s: unknown command %q; did you mean %s?", use, args[0], right)
		}
		return fmt.Errorf("%s: unknown command %q; must be %s", use, args[0], strings.Join(names, ", "))
	}
	// A command that there is not is told before a flag that it would have.
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.AddCommand(commands...)
	return cmd
}
