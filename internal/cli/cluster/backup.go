package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/backup"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/syncdir"
)

// backupper writes a backup to a file.
type backupper struct {
	remote.Targets
	out string
}

// NewBackupCommand returns "quorate backup".
func NewBackupCommand() *cobra.Command {
	var b backupper
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Copy the state of the cluster into a file",
		Long: `Copy the durable state of a running cluster into one file: limits with their
history, overrides, policies, accounts, roles and bearer tokens (hashed), and
durable counts. It contains everything that was acknowledged before, and each
transaction completely or not at all. Nodes keep deciding; transactions over
several ranges wait some milliseconds. It does not contain members, join tokens,
or keys of certificates.

The file gets its name once it is complete, verified and on disk; it replaces an
existing file of that name. "--out -" writes to standard output: check the exit
code, or run "quorate backup verify", to see whether the backup is complete.`,
		Example: `  quorate backup
  quorate backup --out /backups/monday.quorate
  quorate backup --out - | ssh store "cat > monday.quorate"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	b.AddFlags(cmd)
	cmd.Flags().StringVar(&b.out, "out", "", "the file, - for standard output (default: CLUSTER-TIME.quorate)")
	cmd.AddCommand(newBackupVerifyCommand())
	return cmd
}

// run asks the nodes in turn until one begins to answer.
func (b *backupper) run(ctx context.Context, stdout, stderr io.Writer) error {
	addrs, err := b.Resolve()
	if err != nil {
		return err
	}
	var last, said error
	for _, addr := range addrs {
		begun, err := b.from(ctx, addr, stdout, stderr)
		if err == nil {
			return nil
		}
		if last = err; begun || ctx.Err() != nil || status.Code(err) != codes.Unavailable && !remote.Unreachable(err) {
			break
		}
		if said == nil && !remote.Unreachable(err) {
			said = err
		}
	}
	if said != nil && remote.Unreachable(last) {
		last = said // a node's answer helps more than the next one's absence
	}
	if _, fromNode := status.FromError(last); !fromNode || ctx.Err() != nil {
		return last
	}
	if remote.Unreachable(last) || remote.WrongPort(last) != "" {
		return b.NoneAnswers(addrs, last)
	}
	return remote.Refusal(last)
}

// from makes a backup through one node; begun reports that the node sent something.
func (b *backupper) from(ctx context.Context, addr string, stdout, stderr io.Writer) (begun bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := b.Dial(addr)
	if err != nil {
		return false, err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	stream, err := quoratev1.NewBackupServiceClient(conn).Backup(ctx, &quoratev1.BackupRequest{})
	if err != nil {
		return false, err
	}
	in := &backupInput{stream: stream, progress: render.NewProgress(stderr)}
	if err := in.fill(); err != nil { // before creating a file
		return false, err
	}
	m, name, err := b.save(in, stdout)
	in.progress.End()
	if err != nil {
		return true, err
	}
	fmt.Fprintf(stderr, "cluster %s: %d ranges, %s, as of %s: %s\n", phrase.Show(m.Cluster), m.Ranges, phrase.Bytes(uint64(in.total)), m.At.Format(time.RFC3339), name)
	return true, nil
}

// save reads a backup, which checks it, and writes it at the same time.
func (b *backupper) save(in io.Reader, stdout io.Writer) (*backup.Manifest, string, error) {
	if b.out == "-" {
		m, err := copyBackup(stdout, in)
		return m, "standard output", err
	}
	dir := "."
	if b.out != "" {
		if st, err := os.Stat(b.out); err == nil && !st.Mode().IsRegular() {
			return saveInto(b.out, in)
		}
		if real, err := filepath.EvalSymlinks(b.out); err == nil {
			b.out = real
		}
		dir = filepath.Dir(b.out)
	}
	f, err := os.CreateTemp(dir, ".quorate-backup-*")
	if err != nil {
		if temp, ok := errors.AsType[*fs.PathError](err); ok { // its name says nothing to the caller
			err = fmt.Errorf("%s: no file can be created there: %w", dir, temp.Err)
		}
		return nil, "", fmt.Errorf("backup: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // after a success it no longer exists
	m, err := copyBackup(f, in)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, "", fmt.Errorf("%w\nno file was left", err)
	}
	name := b.out
	if name == "" {
		name = fmt.Sprintf("%s-%s.quorate", m.Cluster, m.At.Format("20060102T150405Z"))
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return nil, "", fmt.Errorf("backup: %w", err)
	}
	return m, name, syncdir.Sync(dir)
}

// saveInto writes to something that is not a regular file, such as a pipe, and must not be
// replaced.
func saveInto(name string, in io.Reader) (*backup.Manifest, string, error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, "", fmt.Errorf("backup: %w", err)
	}
	m, err := copyBackup(f, in)
	return m, name, errors.Join(err, f.Close())
}

// copyBackup copies a backup to its end and checks it.
func copyBackup(w io.Writer, in io.Reader) (*backup.Manifest, error) {
	r, err := backup.NewReader(io.TeeReader(in, w))
	for err == nil {
		_, err = r.Next()
	}
	if errors.Is(err, io.EOF) && r != nil && r.Whole() {
		return r.Manifest(), nil
	}
	if disk, ok := errors.AsType[*fs.PathError](err); ok { // an error of the writer, returned by the reader
		err = disk
	}
	return nil, err
}

// backupInput is the stream from a node as a reader.
type backupInput struct {
	stream   quoratev1.BackupService_BackupClient
	progress *render.Progress
	left     []byte
	total    int64
}

// fill waits for the next piece of the stream.
func (b *backupInput) fill() error {
	m, err := b.stream.Recv()
	if err != nil {
		return err
	}
	b.left = m.GetData()
	b.total += int64(len(b.left))
	b.progress.Bar(int64(m.GetGroupsDone()), int64(m.GetGroupsTotal()), "%s, %d of %d groups", phrase.Bytes(uint64(b.total)), m.GetGroupsDone(), m.GetGroupsTotal())
	return nil
}

func (b *backupInput) Read(p []byte) (int, error) {
	for len(b.left) == 0 {
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}
