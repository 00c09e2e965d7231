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
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// Time limits and intervals of a backup.
const (
	maxBackup     = time.Hour             // the whole backup
	cutLimit      = 15 * time.Second      // until all groups are kept as of one moment
	cutPause      = 50 * time.Millisecond // before another try
	cutStep       = holdLimit             // one step
	readLimit     = 10 * time.Second      // one piece
	readTries     = 3
	stayEvery     = keptIdle / 3
	backupRelease = 2 * time.Second // releasing the states at all nodes
)

// BusyError means that this node is taking a backup already.
type BusyError struct{}

func (*BusyError) Error() string {
	return "this node is making a backup already: wait for that one, or ask another node"
}

// TooBusy marks the error as a lack of capacity for package api.
func (*BusyError) TooBusy() bool { return true }

// Take writes a backup of the durable state of the cluster to w: limits, overrides, policies,
// accounts, and the checkpointed levels of limits. The backup does not contain members, placement,
// join tokens and the authority. It contains all that was acknowledged before the call, and each
// transaction entirely or not at all. Take calls progress with the number of groups written.
//
// A node takes one backup at a time, and other calls get a *BusyError. If a connected node has a
// version that cannot take part in backups, the error names that node. A backup takes at most an
// hour. During this time the leaders keep a view of their state, which costs memory for what
// changes. An error is from w or ctx, a *quota.NoLeaderError if within 15 seconds there was no
// moment at which all groups could be copied, or names the node that was lost. On an error the
// file is incomplete.
//
// # Why the backup is consistent
//
// Groups are not copied at exactly the same time. Of a transaction over two ranges, one copy
// could contain the commit and the other not. No order of copying prevents that:
// every range is the home of some transactions and takes part in others. So, while the copies are
// taken, the leaders of all ranges hold back two kinds of entries:
// the home's decision to commit, and the home's forgetting of a transaction. A copy is a view that
// shares the trees of the original, so the hold lasts two rounds to the leaders: some
// milliseconds, and 2 seconds at most, after which the attempt fails. All other entries proceed,
// and those held back wait and retry.
//
// Let the hold last from S, when the last leader holds and has applied its
// log, to G, when the first leader releases. All copies are taken in between. A transaction that
// was decided before S was prepared at all its ranges before S. Every copy has
// it, prepared or finished, and the home has it too, unless the home has forgotten it, which means
// that all ranges had finished before S. A transaction that is decided after G is prepared in some
// of the copies or in none, and decided in none. After a restore, each transaction therefore either
// has a decision, which the ranges carry out as after a crash, or has none and is aborted. A round
// to each group's quorum at G, in the same term as at S, confirms that no leader was deposed in
// between, whose successor could have decided.
//
// The meta group is copied last, so that it has every policy that an account in the copies uses.
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
	ctx, stop := context.WithCancel(ctx)
	var staying sync.WaitGroup
	staying.Go(func() { c.keepAlive(ctx) })
	defer staying.Wait()
	defer stop()
	return c.write(ctx, w, began, progress)
}

// collector takes one backup.
type collector struct {
	*Service
	id     []byte
	groups []source
	asked  map[quota.NodeID]bool // nodes that may keep states
}

// source is the node that keeps a group's state, with its log position.
type source struct {
	at          quota.NodeID
	index, term uint64
}

// cut makes the leaders keep all groups as of one moment. It retries for cutLimit.
func (c *collector) cut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cutLimit)
	defer cancel()
	for {
		err := c.cutOnce(ctx)
		if err == nil {
			return nil
		}
		c.drop()
		if backoff.Sleep(ctx, cutPause) != nil {
			return &quota.NoLeaderError{Reason: fmt.Sprintf("the groups could not be copied at one moment: %v", err)}
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

// step makes the leaders of groups carry out a step, all concurrently.
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
			errs = append(errs, c.recordAnswer(at, list, out))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// recordAnswer records a node's answer to a step, or returns the fault in it.
func (c *collector) recordAnswer(at quota.NodeID, groups []uint32, out *peerv1.CallBackupResult) error {
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

// keepAlive keeps the states at other nodes from expiring while groups are read.
func (c *collector) keepAlive(ctx context.Context) {
	tick := time.NewTicker(stayEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.sendToAll(ctx, peerv1.BackupStep_BACKUP_STEP_STAY)
	}
}

// drop releases the states at all nodes, even if the caller's context has ended.
func (c *collector) drop() {
	ctx, cancel := context.WithTimeout(context.Background(), backupRelease)
	defer cancel()
	c.sendToAll(ctx, peerv1.BackupStep_BACKUP_STEP_DROP)
}

// sendToAll sends a step to all nodes that may keep states, and waits for their answers. It ignores errors:
// reading notices a lost node, and states that were not dropped expire.
func (c *collector) sendToAll(ctx context.Context, step peerv1.BackupStep) {
	var wg sync.WaitGroup
	for at := range c.asked {
		m := &peerv1.CallBackup{Step: step, Id: c.id}
		for g := range c.groups {
			if step == peerv1.BackupStep_BACKUP_STEP_DROP && c.groups[g].at == at {
				m.Groups = append(m.Groups, uint32(g))
			}
		}
		wg.Go(func() { _, _ = c.ask(ctx, at, m) })
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

// copy writes the snapshot of one group to w.
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

// read reads the next piece, and retries when an answer is lost, for readTries tries in all.
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
		_ = backoff.Sleep(ctx, cutPause)
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

// call calls another node. If that node's version does not know backups, the error says so.
func (s *Service) call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	out, err := s.node.Call(ctx, to, c)
	if remote := (*transport.RemoteError)(nil); errors.As(err, &remote) && strings.Contains(remote.Text, "does not know") {
		return nil, fmt.Errorf("is of a version that makes no backups; upgrade it: %w", err)
	}
	return out, err
}

// leaderOf returns the leader of a group; this node only if it serves the group, "" if unknown.
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
