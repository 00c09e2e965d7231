package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/internal/quota"
)

func newRestoreCommand() *cobra.Command {
	var cfg cluster.RestoreConfig
	var node string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a new cluster of one node from a backup",
		Long: `Make the data directory of a new cluster of one node that begins with what is in a
backup. No cluster is needed, and none is touched. The file is checked whole
before anything is made. Start the node with "quorate serve"; then let others
join it.

Not restored are the members of the old cluster, join tokens, and the authority
that signed certificates: the new cluster is one of its own. Counts are those of
the backup. Give it another name if the old cluster may still run: nodes of
different clusters never talk to each other.`,
		Example: `  quorate restore monday.quorate --data /var/lib/quorate --node n1
  quorate restore monday.quorate --data ./trial --node n1 --cluster trial`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cfg.Dir == "":
				return usagef("--data is missing; say where the node keeps its data: an empty directory")
			case node == "":
				return usagef("--node is missing; say what the node is called, such as --node n1")
			}
			cfg.Node = quota.NodeID(node)
			p := newProgress(cmd.ErrOrStderr())
			cfg.Progress = func(what string, n int64) { p.show("%s: %s %s", args[0], bytesText(n), what) }
			c, err := cluster.RestoreBackup(func() (io.ReadCloser, error) { return os.Open(args[0]) }, cfg)
			p.end()
			if err != nil {
				return fmt.Errorf("restore %s: %w", args[0], err)
			}
			return printRestored(cmd.OutOrStdout(), c, &cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "data", "", "the node's data directory; empty, or made")
	f.StringVar(&node, "node", "", "the node's name")
	f.StringVar(&cfg.Cluster, "cluster", "", "the new cluster's name (default: the old one's)")
	return cmd
}

func printRestored(w io.Writer, c *cluster.BackupContent, cfg *cluster.RestoreConfig) error {
	name := cfg.Cluster
	if name == "" {
		name = c.Cluster
	}
	accounts := 0
	for i := range c.Ranges {
		accounts += c.Ranges[i].Accounts
	}
	dir := cfg.Dir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	_, err := fmt.Fprintf(w, `%s holds cluster %s as of %s: limits version %d, %d overrides, %d accounts
Start it with the settings
  cluster: %s
  node: %s
  data: %s
  ranges: %d
`, dir, show(name), c.At.Format("2006-01-02T15:04:05Z07:00"), c.Meta.LimitsVersion, c.Meta.Overrides, accounts, name, cfg.Node, dir, c.Head.Ranges)
	return err
}
