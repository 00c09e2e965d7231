package backup

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/quota"
)

// restoredDirs are the directories that contain the files of groups.
var restoredDirs = []string{"raft", "snapshots"}

// RestoreConfig configures Restore.
type RestoreConfig struct {
	Dir     string       // data directory; must be empty or missing
	Node    quota.NodeID // name of the new node
	Cluster string       // name of the new cluster; empty keeps the old name
	// Progress is called with the pass ("checked" or "restored") and the bytes that it has read so far.
	// It may be nil.
	Progress func(what string, bytes int64)
}

// Restore creates the data directory of a new cluster of one node, which starts
// with the state in a backup. Other nodes can then join it.
//
// Restore reads the file twice. It first verifies the whole file, as Inspect does, and
// creates nothing unless the file is sound. It never restores the members,
// placement, join tokens and authority of the old cluster, nor the tokens of limits that its nodes
// held, even if the file contains them. An error leaves the directory empty, as it was. If the process
// ends early, only files remain with which no node starts.
func Restore(open func() (io.ReadCloser, error), cfg RestoreConfig) (c *Content, err error) {
	if cfg.Progress == nil {
		cfg.Progress = func(string, int64) {}
	}
	var errs []error
	if cfg.Cluster != "" {
		errs = append(errs, quota.CheckName("cluster", cfg.Cluster))
	}
	errs = append(errs, quota.CheckName("node", string(cfg.Node)), datadir.CheckEmpty(cfg.Dir))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if c, err = checkBackup(open, &cfg); err != nil {
		return nil, err
	}
	if cfg.Cluster == "" {
		cfg.Cluster = c.Cluster
	}
	lock, err := datadir.BeginRestore(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err = restoreGroups(open, c, &cfg); err == nil {
		id := datadir.Identity{Format: datadir.Format, Cluster: cfg.Cluster, Node: cfg.Node, Ranges: c.Head.Ranges, Incarnation: uint64(time.Now().UnixNano())}
		id.First = id.Incarnation
		err = datadir.EndRestore(cfg.Dir, id, restoredDirs...)
	}
	if err != nil {
		err = errors.Join(err, datadir.Discard(cfg.Dir, restoredDirs...))
	}
	return c, errors.Join(err, lock.Close())
}

func checkBackup(open func() (io.ReadCloser, error), cfg *RestoreConfig) (*Content, error) {
	in, err := open()
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	return Inspect(in, func(n int64) { cfg.Progress("checked", n) })
}

// restoreGroups reads the backup a second time and creates the files of the groups.
func restoreGroups(open func() (io.ReadCloser, error), c *Content, cfg *RestoreConfig) error {
	file, err := open()
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	in, err := NewReader(file)
	for err == nil {
		var g *Group
		if g, err = in.Next(); err == nil {
			cfg.Progress("restored", in.Offset())
			err = restoreGroup(in, g, cfg)
		}
	}
	switch {
	case !errors.Is(err, io.EOF) || !in.Whole():
		return err
	case !slices.Equal(in.Manifest().Groups, c.Groups):
		return errors.New("the backup has changed while it was restored")
	}
	return nil
}

func restoreGroup(in io.Reader, g *Group, cfg *RestoreConfig) error {
	filter := replica.CopyForRestore
	if g.Name == raftgroup.GroupName(raftgroup.MetaGroup) {
		filter = restoredMeta
	}
	number, ok := raftgroup.GroupNumber(g.Name)
	if !ok {
		return fmt.Errorf("the backup has a group %q; groups are meta, range-000, range-001 and so on", g.Name)
	}
	from, to := io.Pipe()
	filtered := make(chan struct{})
	go func() {
		defer close(filtered)
		_ = to.CloseWithError(filter(to, in))
	}()
	err := raftgroup.SeedGroup(cfg.Dir, number, cfg.Node, max(g.Index, 1), max(g.Term, 1), from)
	_ = from.Close()
	<-filtered
	return err
}
