package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// Times of a backup.
const (
	maxBackup     = time.Hour             // all of it
	cutLimit      = 15 * time.Second      // until all groups have been kept at once
	cutPause      = 50 * time.Millisecond // before another try
	cutStep       = holdLimit             // one step
	readLimit     = 10 * time.Second      // one piece
	readTries     = 3
	stayEvery     = keptIdle / 3
	backupRelease = 2 * time.Second // telling all that it is over
)

// BusyError says that this node is making a backup already.
type BusyError struct{}

func (*BusyError) Error() string {
	return "this node is making a backup already: wait for that one, or ask another node"
}

// TooBusy marks the error for package api.
func (*BusyError) TooBusy() bool { return true }

// Take writes a backup, the durable state of the cluster, to w: limits, overrides, policies, accounts, and the levels of limits as
// they were checkpointed. Members, placement, join tokens and the authority are not in
// it. All that was acknowledged before the call is in it, and of each transaction all
// or nothing. progress is told how many of the groups are written.
//
// A node makes one backup at a time, another call gets a *BusyError; while a node
// of an earlier version is connected the error is a *membership.Error that names it. It takes an
// hour at most; for as long the leaders keep a view of what they hold, which costs
// memory for what changes meanwhile. An error is that of w or ctx, a NoLeaderError
// when there was no moment of 15 seconds at which all groups had a leader, or says which
// node was lost on the way; what was written is not whole then.
//
// # Why it is consistent
//
// Groups are not copied at the same moment, and of a transaction over two ranges the
// one might have committed in the copy and the other not. No order of copying helps:
// every range is home of some transactions and takes part in others. So the leaders of
// all ranges stop two kinds of entries for the moment in which the copies are taken:
// the home's decision to commit, and its forgetting. A copy is a view that shares the
// trees of what it copies, so that moment is two rounds to the leaders: some
// milliseconds, 2 seconds at most, then the attempt has failed. Everything else goes on,
// and who is stopped waits and tries again.
//
// Let the stop be from S, when the last leader has stopped and applied what was in its
// log, to G, when the first goes on; all copies are taken between. A transaction that
// was decided before S has been prepared at all its ranges before S: in the copies each
// has it, prepared or finished, and home has it, unless it was forgotten, which means that all had
// finished before S. One that is decided after G is in the copies prepared
// at some ranges, or none, and decided at none. So who restores the copies finds of each transaction either a decision, which
// the ranges carry out as after a crash, or none, and aborts it. That no
// leader was deposed meanwhile, and another had taken a decision, is confirmed by a
// round to each group's quorum at G, in the same term as at S.
//
// Meta is copied last: it has every policy that an account in the copies was given.
func (s *Service) Take(ctx context.Context, w io.Writer, progress func(done, total int)) error {
	if !s.taking.TryLock() {
		return &BusyError{}
	}
	defer s.taking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, maxBackup)
	defer cancel()
	began := time.Now()
	c := &collector{Service: s, id: make([]byte, 16), asked: map[quota.NodeID]bool{}}
	_, _ = rand.Read(c.id) // never fails
	defer c.drop()
	if err := c.cut(ctx); err != nil {
		return err
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	go c.stay(ctx)
	return c.write(ctx, w, began, progress)
}

// collector makes one backup.
type collector struct {
	*Service
	id     []byte
	groups []source
	asked  map[quota.NodeID]bool // who may keep something
}

// source is who has kept a group.
type source struct {
	at          quota.NodeID
	index, term uint64
}

// cut has all groups kept as of one moment.
func (c *collector) cut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cutLimit)
	defer cancel()
	for {
		err := c.cutOnce(ctx)
		if err == nil {
			return nil
		}
		c.drop()
		select {
		case <-ctx.Done():
			return &quota.NoLeaderError{Reason: fmt.Sprintf("no moment was found at which all groups could be copied: %v", err)}
		case <-time.After(cutPause):
		}
	}
}

func (c *collector) cutOnce(ctx context.Context) error {
	c.groups = make([]source, c.cfg.Ranges+1)
	ranges := make([]uint32, c.cfg.Ranges)
	for r := range ranges {
		ranges[r] = raftgroup.OfRange(quota.RangeID(r))
	}
	began := time.Now()
	for _, step := range []peerv1.BackupStep{peerv1.BackupStep_BACKUP_STEP_HOLD, peerv1.BackupStep_BACKUP_STEP_KEEP, peerv1.BackupStep_BACKUP_STEP_GO_ON} {
		if err := c.step(ctx, step, ranges); err != nil {
			return err
		}
	}
	c.cfg.Log.Info("backup: all ranges are copied", "transactions_waited", time.Since(began))
	for _, step := range []peerv1.BackupStep{peerv1.BackupStep_BACKUP_STEP_HOLD, peerv1.BackupStep_BACKUP_STEP_KEEP} {
		if err := c.step(ctx, step, []uint32{raftgroup.MetaGroup}); err != nil {
			return err
		}
	}
	return nil
}

// step has the leaders of groups carry out a step, all at the same time.
func (c *collector) step(ctx context.Context, step peerv1.BackupStep, groups []uint32) error {
	by := map[quota.NodeID][]uint32{}
	for _, g := range groups {
		if step == peerv1.BackupStep_BACKUP_STEP_HOLD {
			c.groups[g].at = c.leaderOf(g)
		}
		at := c.groups[g].at
		if at == "" {
			return fmt.Errorf("%s has no leader", raftgroup.GroupName(g))
		}
		by[at] = append(by[at], g)
		c.asked[at] = true
	}
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for at, list := range by {
		wg.Go(func() {
			out, err := c.ask(ctx, at, &peerv1.CallBackup{Step: step, Id: c.id, Groups: list})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w", at, err))
				return
			}
			errs = append(errs, c.note(at, list, out))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// note keeps what a node has answered to a step.
func (c *collector) note(at quota.NodeID, groups []uint32, out *peerv1.CallBackupResult) error {
	if len(out.GetGroups()) != len(groups) {
		return fmt.Errorf("node %s: answered for %d of %d groups", at, len(out.GetGroups()), len(groups))
	}
	for i, g := range out.GetGroups() {
		if g.GetFault() != "" {
			return fmt.Errorf("%s at node %s: %s", raftgroup.GroupName(groups[i]), at, g.GetFault())
		}
		s := &c.groups[groups[i]]
		s.index, s.term = max(s.index, g.GetIndex()), g.GetTerm()
	}
	return nil
}

func (c *collector) ask(ctx context.Context, at quota.NodeID, m *peerv1.CallBackup) (*peerv1.CallBackupResult, error) {
	ctx, cancel := context.WithTimeout(ctx, cutStep)
	defer cancel()
	if at == c.cfg.Self {
		return c.carryOut(ctx, m), nil
	}
	out, err := c.call(ctx, at, &peerv1.Call{Body: &peerv1.Call_Backup{Backup: m}})
	return out.GetBackupResult(), err
}

// stay keeps what is kept from being dropped while other groups are read.
func (c *collector) stay(ctx context.Context) {
	tick := time.NewTicker(stayEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for at := range c.asked {
			_, _ = c.ask(ctx, at, &peerv1.CallBackup{Step: peerv1.BackupStep_BACKUP_STEP_STAY, Id: c.id}) // a node that is lost is noticed when it is read
		}
	}
}

// drop tells all that it is over, also when the caller has gone.
func (c *collector) drop() {
	ctx, cancel := context.WithTimeout(context.Background(), backupRelease)
	defer cancel()
	var wg sync.WaitGroup
	for at := range c.asked {
		var groups []uint32
		for g := range c.groups {
			if c.groups[g].at == at {
				groups = append(groups, uint32(g))
			}
		}
		wg.Go(func() {
			_, _ = c.ask(ctx, at, &peerv1.CallBackup{Step: peerv1.BackupStep_BACKUP_STEP_DROP, Id: c.id, Groups: groups}) // else it ends by itself
		})
	}
	wg.Wait()
}

func (c *collector) write(ctx context.Context, w io.Writer, began time.Time, progress func(done, total int)) error {
	out, err := NewWriter(w, Head{Cluster: c.cfg.Cluster, Software: c.cfg.Version, Level: int(c.node.Level()), At: began, Ranges: c.cfg.Ranges})
	if err != nil {
		return err
	}
	for g := range c.groups {
		s := &c.groups[g]
		progress(g, len(c.groups))
		if err := out.Begin(raftgroup.GroupName(uint32(g)), s.index, s.term); err != nil {
			return err
		}
		if err := c.copy(ctx, out, uint32(g)); err != nil {
			return fmt.Errorf("%s at node %s: %w", raftgroup.GroupName(uint32(g)), s.at, err)
		}
		if err := out.End(); err != nil {
			return err
		}
	}
	progress(len(c.groups), len(c.groups))
	return out.Close()
}

// copy writes one snapshot.
func (c *collector) copy(ctx context.Context, w io.Writer, group uint32) error {
	for offset := uint64(0); ; {
		data, err := c.read(ctx, group, offset)
		if err != nil || len(data) == 0 {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		offset += uint64(len(data))
	}
}

// read reads the next piece. One whose answer was lost is asked for again.
func (c *collector) read(ctx context.Context, group uint32, offset uint64) ([]byte, error) {
	m := &peerv1.CallBackupRead{Id: c.id, Group: group, Offset: offset}
	for try := 1; ; try++ {
		out, err := c.readOnce(ctx, c.groups[group].at, m)
		switch {
		case err == nil && out.GetFault() != "":
			return nil, errors.New(out.GetFault())
		case err == nil:
			return out.GetData(), nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case try == readTries:
			return nil, fmt.Errorf("%w; the backup has ended, take it again", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(cutPause):
		}
	}
}

func (c *collector) readOnce(ctx context.Context, at quota.NodeID, m *peerv1.CallBackupRead) (*peerv1.CallBackupReadResult, error) {
	if at == c.cfg.Self {
		return c.next(m), nil
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	out, err := c.call(ctx, at, &peerv1.Call{Body: &peerv1.Call_BackupRead{BackupRead: m}})
	if err == nil && out.GetBackupReadResult() == nil {
		err = errors.New("answered nothing")
	}
	return out.GetBackupReadResult(), err
}

// call calls another node; a version that makes no backups is named.
func (s *Service) call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	out, err := s.node.Call(ctx, to, c)
	if remote := (*transport.RemoteError)(nil); errors.As(err, &remote) && strings.Contains(remote.Text, "does not know") {
		return nil, fmt.Errorf("is of a version that makes no backups; upgrade it: %w", err)
	}
	return out, err
}

// leaderOf returns who leads a group; this node only if it can serve it.
func (s *Service) leaderOf(group uint32) quota.NodeID {
	if g := s.node.Host().Group(group); g != nil {
		id, _, serving := g.Leader()
		if serving || id != "" && id != s.cfg.Self {
			return id
		}
	}
	if id := s.node.Leader(group); id != s.cfg.Self {
		return id
	}
	return ""
}
