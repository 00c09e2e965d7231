package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster"
)

func newBackupVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a backup, and say what is in it",
		Long: `Read a backup whole ("-": standard input): its checksums, and all that is in it,
as a node would that starts from it. No cluster is needed. The exit code is 1 if
it is cut off, damaged, or no backup; the error says where and why.`,
		Example: `  quorate backup verify monday.quorate
  quorate backup -o - | quorate backup verify -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, name, err := openBackup(cmd, args[0])
			if err != nil {
				return err
			}
			defer in.Close() //nolint:errcheck // it was only read
			c, err := inspectBackup(in, name, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return printBackup(cmd.OutOrStdout(), c)
		},
	}
}

// openBackup opens a file, or standard input.
func openBackup(cmd *cobra.Command, path string) (in io.ReadCloser, name string, err error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), "standard input", nil
	}
	f, err := os.Open(path)
	return f, path, invalid(err)
}

// inspectBackup reads a backup whole. The error names it.
func inspectBackup(in io.Reader, name string, stderr io.Writer) (*cluster.BackupContent, error) {
	p := newProgress(stderr)
	c, err := cluster.InspectBackup(in, func(n int64) { p.show("%s: %s read", name, bytesText(n)) })
	p.end()
	if err != nil {
		return nil, &exitError{fmt.Errorf("%s: %w\nDo not restore it; take another backup, or use an older one", name, err), exitNo}
	}
	return c, nil
}

func printBackup(w io.Writer, c *cluster.BackupContent) error {
	m := &c.Meta
	fmt.Fprintf(w, "cluster    %s, %d ranges, made by version %s\nas of      %s\nlimits     version %d: %d limits; %d versions in the history\noverrides  %d\npolicies   %d in %d configs\nsecurity   %d bindings of roles, %d bearer tokens\n\n",
		show(c.Cluster), c.Head.Ranges, orDash(c.Software), c.At.Format(time.RFC3339Nano),
		m.LimitsVersion, m.Limits, m.Versions, m.Overrides, m.Policies, m.PolicyConfigs, m.Bindings, m.Tokens)
	t := newTable("GROUP", "INDEX", "TERM", "BYTES", "ACCOUNTS", "REQUEST IDS", "TRANSACTIONS", "LEVELS", "SHA-256")
	total := cluster.RangeContent{}
	for i := range c.Groups {
		g := &c.Groups[i]
		row := []string{g.Name, num(g.Index), num(g.Term), num(g.Size), "-", "-", "-", "-", g.SHA256[:12]}
		if i > 0 {
			r := &c.Ranges[i-1]
			copy(row[4:], []string{num(r.Accounts), num(r.Requests), num(r.Transactions), num(r.Levels)})
			total.Accounts += r.Accounts
			total.Requests += r.Requests
			total.Transactions += r.Transactions
			total.Levels += r.Levels
		}
		t.row(row...)
	}
	t.row("all", "-", "-", num(c.Size()), num(total.Accounts), num(total.Requests), num(total.Transactions), num(total.Levels), "-")
	return t.write(w)
}
