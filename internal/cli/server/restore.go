package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster/backup"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// NewRestoreCommand returns "quorate restore".
func NewRestoreCommand() *cobra.Command {
	o := &initOptions{}
	cmd := &cobra.Command{
		Use:   "restore FILE --data DIR",
		Short: "Create a cluster of one node from a backup",
		Long: `Create a cluster of one node from a backup, in an empty directory: its settings,
a CA, the node's certificate, and that of a first administrator, as "quorate
init" does. This needs no cluster and changes none. The whole file is verified
before anything is created. Start the node with "quorate serve", then join
others.

The members, join tokens and CA of the old cluster are not restored: its nodes
and clients do not trust the new one. Counts are those of the backup. Give it
another name if the old cluster may still run: nodes of different clusters never
talk to each other.`,
		Example: `  quorate restore monday.quorate --data /var/lib/quorate --node n1 --host 10.0.0.1
  quorate restore monday.quorate --data ./trial --node n1 --cluster trial --insecure`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.restore(args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.placeFlags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.cluster, "cluster", "", "`name` of the new cluster (default: the old one's)")
	f.IntVar(&o.replicas, "replicas", config.Default().Replicas, "replicas of each range, 1, 3 or 5; fewer while the cluster has fewer nodes")
	f.BoolVar(&o.plain, "insecure", false, "no TLS and no authentication: only for a fully trusted network")
	return cmd
}

// restore creates the first node of a cluster from a backup.
func (o *initOptions) restore(file string, stdout, stderr io.Writer) error {
	head, err := backupHead(file)
	if err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	o.ranges = head.Ranges
	if o.cluster == "" {
		o.cluster = head.Cluster
	}
	s, text, err := o.prepare()
	if err != nil {
		return err
	}
	p, size := render.NewProgress(stderr), render.FileSize(file)
	c, err := backup.Restore(func() (io.ReadCloser, error) { return os.Open(file) }, backup.RestoreConfig{
		Dir: o.data, Node: quota.NodeID(o.node), Cluster: o.cluster,
		Progress: func(what string, n int64) { p.Bar(n, size, "%s: %s %s", file, phrase.Bytes(uint64(n)), what) },
	})
	p.End()
	if err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	if err := o.make(&s, text); err != nil {
		return fmt.Errorf("%w\n%s is not complete: empty it, and restore again", err, o.data)
	}
	fmt.Fprint(stdout, restoredText(c))
	if err := o.report(stdout, &s); err != nil || o.plain {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\nThe CA is new. Clients need its %s; with it, existing bearer tokens remain valid. Issue new certificates with \"quorate cert issue\".\n",
		filepath.Join(o.data, adminDir, "ca.crt"))
	return err
}

// restoredText describes what was restored.
func restoredText(c *backup.Content) string {
	accounts := 0
	for i := range c.Ranges {
		accounts += c.Ranges[i].Accounts
	}
	return fmt.Sprintf("Restored as of %s: limits version %d, %s, %s, %s.\n", c.At.Format(time.RFC3339), c.Meta.LimitsVersion,
		phrase.Plural(c.Meta.Overrides, "override"), phrase.Plural(accounts, "account"), phrase.Plural(c.Head.Ranges, "range"))
}

// backupHead reads the head of a backup, without checking the rest.
func backupHead(file string) (head backup.Head, err error) {
	f, err := os.Open(file)
	if err != nil {
		return head, exit.Invalid(err)
	}
	r, err := backup.NewReader(f)
	if err == nil {
		head = r.Head()
	}
	return head, errors.Join(err, f.Close())
}
