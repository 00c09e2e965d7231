package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// TestLeftoverReplica checks that a node deletes the files of a replica that has moved to another node, if it
// stopped after it had saved its copy of the placement and before it deleted them.
func TestLeftoverReplica(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := newOne(t, 4)
	c.join("n2", c.token())
	c.settled(40*time.Second, 1)
	v := c.nodes["n2"].members.View()
	moved := quota.RangeID(0)
	for ; membership.Names(v.Ranges[moved], "n2"); moved++ {
	}
	group := raftgroup.OfRange(moved)
	c.kill("n2")
	dir := filepath.Join(c.dir, "n2")
	if err := raftgroup.SeedGroup(dir, group, "n2", 5, 1, strings.NewReader("what it held")); err != nil {
		t.Fatal(err)
	}
	c.start("n2", nil)
	c.eventually(20*time.Second, "the files are gone", func() error {
		found, err := filepath.Glob(filepath.Join(dir, "snapshots", raftgroup.GroupName(group)))
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%v", found)
		}
		return err
	})
	c.kill("n2")
	holds, err := raftgroup.Holds(dir, group)
	if _, gone := os.Stat(filepath.Join(dir, "snapshots", raftgroup.GroupName(group))); err != nil || holds || !errors.Is(gone, os.ErrNotExist) {
		t.Errorf("the log holds range %d: %v, %v; its snapshots: %v", moved, holds, err, gone)
	}
}
