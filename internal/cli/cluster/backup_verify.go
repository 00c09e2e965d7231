package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster/backup"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

func newBackupVerifyCommand() *cobra.Command {
	var output render.Output
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a backup, and list its content",
		Long: `Read a whole backup ("-": standard input) and verify its checksums and content,
as a restoring node would. This needs no cluster. The exit code is 1 if the file
is truncated, damaged, or not a backup; the error says where and why.`,
		Example: `  quorate backup verify monday.quorate
  quorate backup --out - | quorate backup verify -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, name, err := openBackup(cmd, args[0])
			if err != nil {
				return err
			}
			defer in.Close() //nolint:errcheck // read only
			c, err := inspectBackup(in, name, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			data, err := json.Marshal(backupData(c))
			if err != nil {
				return err
			}
			return output.Print(cmd, json.RawMessage(data), func(p *render.Page) { printBackup(p, c) })
		},
	}
	output.AddFlags(cmd, render.FormatTable, render.FormatJSON)
	return cmd
}

// backupJSON is the output of "quorate backup verify -o json". Fields may be added, but not
// renamed.
type backupJSON struct {
	Cluster  string    `json:"cluster"`
	Ranges   int       `json:"ranges"`
	Software string    `json:"software"`
	AsOf     time.Time `json:"as_of"`
	Bytes    int64     `json:"bytes"`

	LimitsVersion uint64 `json:"limits_version"`
	Limits        int    `json:"limits"`
	Versions      int    `json:"versions"`
	Overrides     int    `json:"overrides"`
	Policies      int    `json:"policies"`
	PolicyConfigs int    `json:"policy_configs"`
	Bindings      int    `json:"bindings"`
	Tokens        int    `json:"tokens"`

	Groups []backupGroupJSON `json:"groups"`
}

type backupGroupJSON struct {
	Name         string `json:"name"`
	Index        uint64 `json:"index"`
	Term         uint64 `json:"term"`
	Bytes        int64  `json:"bytes"`
	SHA256       string `json:"sha256"`
	Accounts     int    `json:"accounts"`
	RequestIDs   int    `json:"request_ids"`
	Transactions int    `json:"transactions"`
	Levels       int    `json:"levels"`
}

func backupData(c *backup.Content) backupJSON {
	m := &c.Meta
	out := backupJSON{
		Cluster: c.Cluster, Ranges: c.Head.Ranges, Software: c.Software, AsOf: c.At, Bytes: c.Size(),
		LimitsVersion: m.LimitsVersion, Limits: m.Limits, Versions: m.Versions, Overrides: m.Overrides,
		Policies: m.Policies, PolicyConfigs: m.PolicyConfigs, Bindings: m.Bindings, Tokens: m.Tokens,
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		row := backupGroupJSON{Name: g.Name, Index: g.Index, Term: g.Term, Bytes: g.Size, SHA256: g.SHA256}
		if i > 0 {
			r := &c.Ranges[i-1]
			row.Accounts, row.RequestIDs, row.Transactions, row.Levels = r.Accounts, r.Requests, r.Transactions, r.Levels
		}
		out.Groups = append(out.Groups, row)
	}
	return out
}

// openBackup opens a file, or standard input.
func openBackup(cmd *cobra.Command, path string) (in io.ReadCloser, name string, err error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), "standard input", nil
	}
	f, err := os.Open(path)
	return f, path, exit.Invalid(err)
}

// inspectBackup reads a whole backup. Its error names the backup.
func inspectBackup(in io.Reader, name string, stderr io.Writer) (*backup.Content, error) {
	p := render.NewProgress(stderr)
	c, err := backup.Inspect(in, func(n int64) { p.Bar(n, render.FileSize(name), "%s: %s read", name, phrase.Bytes(uint64(n))) })
	p.End()
	if unread, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, exit.Invalid(unread)
	}
	if err != nil {
		return nil, exit.Errorf(exit.No, "%s: %w\nDo not restore it; take another backup, or use an older one", name, err)
	}
	return c, nil
}

func printBackup(p *render.Page, c *backup.Content) {
	m := &c.Meta
	fmt.Fprintf(p, "cluster    %s, %s, made by version %s\nas of      %s\nlimits     version %d: %s; %s in the history\noverrides  %d\npolicies   %d in %s\nsecurity   %s, %s\n\n",
		phrase.Show(c.Cluster), phrase.Plural(c.Head.Ranges, "range"), render.OrDash(c.Software), c.At.Format(time.RFC3339Nano),
		m.LimitsVersion, phrase.Plural(m.Limits, "limit"), phrase.Plural(m.Versions, "version"), m.Overrides, m.Policies, phrase.Plural(m.PolicyConfigs, "config"),
		phrase.Plural(m.Bindings, "role binding"), phrase.Plural(m.Tokens, "bearer token"))
	t := render.NewTable("GROUP", "INDEX", "TERM", "BYTES", "ACCOUNTS", "REQUEST IDS", "TRANSACTIONS", "LEVELS", "SHA-256")
	total := backup.RangeContent{}
	for i := range c.Groups {
		g := &c.Groups[i]
		row := []any{g.Name, g.Index, g.Term, g.Size, render.Nothing, render.Nothing, render.Nothing, render.Nothing, render.Cell{Human: g.SHA256[:12], Machine: g.SHA256, Text: true}}
		if i > 0 {
			r := &c.Ranges[i-1]
			row[4], row[5], row[6], row[7] = r.Accounts, r.Requests, r.Transactions, r.Levels
			total.Accounts += r.Accounts
			total.Requests += r.Requests
			total.Transactions += r.Transactions
			total.Levels += r.Levels
		}
		t.Row(row...)
	}
	t.Row("all", render.Nothing, render.Nothing, c.Size(), total.Accounts, total.Requests, total.Transactions, total.Levels, render.Nothing)
	p.Table(t)
}
