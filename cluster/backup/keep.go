package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/snapshotio"
)

// Bounds of the states that a node keeps for backups.
const (
	maxKept   = 2                // backups
	keptIdle  = 30 * time.Second // a backup that is not asked for is dropped after this
	holdLimit = 2 * time.Second  // how long transactions wait at most for one try of a cut
)

// keptStates holds the states that this node, as the leader of groups, keeps for backups.
type keptStates struct {
	mu     sync.Mutex
	byID   map[string]*kept
	closed bool
	done   sync.WaitGroup // of the goroutines that write states into pipes
}

// kept holds the states for one backup.
type kept struct {
	idle *time.Timer

	reading sync.Mutex // held while a piece is read

	mu      sync.Mutex
	dropped bool
	groups  map[uint32]*keptGroup
	last    piece // the piece read last; it is sent again if its answer was lost
}

// keptGroup is the state of one group. It shares the trees of the live state instead of copying
// them, and needs memory only for what changes in the live state.
type keptGroup struct {
	term  uint64
	write func(io.Writer) error // nil before the state is taken, and once reading starts
	from  *io.PipeReader
	read  uint64
}

type piece struct {
	group  uint32
	offset uint64
	data   []byte
	valid  bool
}

var errDropped = errors.New("this node no longer has the backup: it was not requested for 30 seconds, or the node was restarted")

// getOrCreate returns the states for a backup, and postpones their expiry. If the backup is unknown, it creates
// them if create is set, and otherwise returns errDropped.
func (k *keptStates) getOrCreate(id string, create bool) (*kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.byID[id]
	switch {
	case b != nil:
		b.idle.Reset(keptIdle)
		return b, nil
	case !create:
		return nil, errDropped
	case k.closed:
		return nil, errors.New("the node is closing")
	case len(k.byID) >= maxKept:
		return nil, fmt.Errorf("%d backups are being made already", maxKept)
	}
	b = &kept{groups: map[uint32]*keptGroup{}}
	b.idle = time.AfterFunc(keptIdle, func() { k.drop(id) })
	if k.byID == nil {
		k.byID = map[string]*kept{}
	}
	k.byID[id] = b
	return b, nil
}

// drop drops the states for a backup, if there are any. Reads of them fail with errDropped.
func (k *keptStates) drop(id string) {
	k.mu.Lock()
	b := k.byID[id]
	delete(k.byID, id)
	k.mu.Unlock()
	if b == nil {
		return
	}
	b.idle.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped = true
	for _, g := range b.groups {
		if g.from != nil {
			_ = g.from.CloseWithError(errDropped)
		}
	}
	b.groups = nil
}

// close drops all states and waits for the goroutines that write them.
func (k *keptStates) close() {
	k.mu.Lock()
	k.closed = true
	var ids []string
	for id := range k.byID {
		ids = append(ids, id)
	}
	k.mu.Unlock()
	for _, id := range ids {
		k.drop(id)
	}
	k.done.Wait()
}

// add stores the state of a group, unless the backup has been dropped.
func (b *kept) add(group uint32, g *keptGroup) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dropped {
		return errDropped
	}
	b.groups[group] = g
	return nil
}

func (b *kept) group(id uint32) *keptGroup {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.groups[id]
}

// next returns the piece of a state at an offset, which must follow the last piece or repeat it; empty
// at the end.
func (b *kept) next(k *keptStates, group uint32, offset uint64) ([]byte, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.mu.Lock()
	if b.last.valid && b.last.group == group && b.last.offset == offset {
		defer b.mu.Unlock()
		return b.last.data, nil
	}
	g := b.groups[group]
	if g == nil || g.read != offset || g.write == nil && g.from == nil {
		defer b.mu.Unlock()
		return nil, fmt.Errorf("group %d is not kept, or not from byte %d on", group, offset)
	}
	if g.from == nil {
		r, w := io.Pipe() // the state is written as it is read
		write := g.write
		g.from, g.write = r, nil
		k.done.Go(func() { _ = w.CloseWithError(write(w)) })
	}
	from := g.from
	b.mu.Unlock()
	data := make([]byte, MaxPiece)
	n, err := io.ReadFull(from, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g.read += uint64(n)
	b.last = piece{group, offset, data[:n], true}
	return data[:n], nil
}

// carryOut carries out one step for several groups, at most 16 at a time.
func (s *Service) carryOut(ctx context.Context, c *peerv1.CallBackup) *peerv1.CallBackupResult {
	id := string(c.GetId())
	out := &peerv1.CallBackupResult{Groups: make([]*peerv1.BackupGroup, len(c.GetGroups()))}
	if c.GetStep() == peerv1.BackupStep_BACKUP_STEP_DROP {
		s.kept.drop(id)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i, group := range c.GetGroups() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			g, err := s.step(ctx, c.GetStep(), id, group)
			if err != nil {
				g = &peerv1.BackupGroup{Fault: err.Error()}
			}
			out.Groups[i] = g
		})
	}
	wg.Wait()
	if c.GetStep() == peerv1.BackupStep_BACKUP_STEP_STAY {
		_, _ = s.kept.getOrCreate(id, false)
	}
	return out
}

func (s *Service) step(ctx context.Context, step peerv1.BackupStep, id string, group uint32) (*peerv1.BackupGroup, error) {
	if int(group) > s.cfg.Ranges {
		return nil, fmt.Errorf("unknown group %d", group)
	}
	g := s.node.Host().Group(group)
	if g == nil {
		return nil, raftgroup.ErrNotLeader
	}
	switch step {
	case peerv1.BackupStep_BACKUP_STEP_HOLD:
		return s.hold(ctx, g, id, group)
	case peerv1.BackupStep_BACKUP_STEP_KEEP:
		return s.keep(ctx, g, id, group)
	case peerv1.BackupStep_BACKUP_STEP_GO_ON:
		return s.goOn(ctx, g, id, group)
	case peerv1.BackupStep_BACKUP_STEP_DROP:
		if group != raftgroup.MetaGroup {
			s.cfg.Accounts.Release(raftgroup.RangeOf(group), id)
		}
		return &peerv1.BackupGroup{}, nil
	}
	return nil, errors.New("this version does not know the step")
}

// hold starts the hold of a range, during which it decides no transactions. It first checkpoints
// the counts of the leader, so that the backup contains them.
func (s *Service) hold(ctx context.Context, g *raftgroup.Group, id string, group uint32) (*peerv1.BackupGroup, error) {
	b, err := s.kept.getOrCreate(id, true)
	if err != nil {
		return nil, err
	}
	_, term, serving := g.Leader()
	if !serving {
		return nil, raftgroup.ErrNotLeader
	}
	if group != raftgroup.MetaGroup {
		s.node.Checkpoint(ctx, raftgroup.RangeOf(group))
		if err := s.cfg.Accounts.Hold(raftgroup.RangeOf(group), id, holdLimit); err != nil {
			return nil, err
		}
		if _, err := g.Apply(ctx, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Barrier{Barrier: &raftlogv1.Barrier{}}})); err != nil {
			return nil, err
		}
	}
	return &peerv1.BackupGroup{Term: term}, b.add(group, &keptGroup{term: term})
}

// ledSince confirms that this node has led and held the group without interruption since
// the hold step.
func (s *Service) ledSince(ctx context.Context, g *raftgroup.Group, id string, group uint32) (*keptGroup, *kept, error) {
	b, err := s.kept.getOrCreate(id, false)
	if err != nil {
		return nil, nil, err
	}
	k := b.group(group)
	if k == nil {
		return nil, nil, errDropped
	}
	if err := g.ConfirmLeadership(ctx); err != nil {
		return nil, nil, err
	}
	if _, term, serving := g.Leader(); !serving || term != k.term {
		return nil, nil, raftgroup.ErrNotLeader
	}
	if group != raftgroup.MetaGroup && !s.cfg.Accounts.Holding(raftgroup.RangeOf(group), id) {
		return nil, nil, fmt.Errorf("no request for %v: transactions have resumed", holdLimit)
	}
	return k, b, nil
}

// keep takes the state of a group that has been held since the hold step.
func (s *Service) keep(ctx context.Context, g *raftgroup.Group, id string, group uint32) (*peerv1.BackupGroup, error) {
	k, b, err := s.ledSince(ctx, g, id, group)
	if err != nil {
		return nil, err
	}
	if slow := s.slow.Load(); slow != nil {
		(*slow)(group)
	}
	index := g.Applied() // read before taking the state, which then contains at least this entry
	write, err := s.node.Snapshot(group)
	if err != nil {
		return nil, err
	}
	if group == raftgroup.MetaGroup {
		write = withoutMembers(write)
	}
	return &peerv1.BackupGroup{Index: index, Term: k.term}, b.add(group, &keptGroup{term: k.term, write: write})
}

// goOn ends the hold of a group. It returns an error if the hold, or this node's leadership, has been interrupted.
func (s *Service) goOn(ctx context.Context, g *raftgroup.Group, id string, group uint32) (*peerv1.BackupGroup, error) {
	k, _, err := s.ledSince(ctx, g, id, group)
	if group != raftgroup.MetaGroup {
		s.cfg.Accounts.Release(raftgroup.RangeOf(group), id)
	}
	if err != nil {
		return nil, err
	}
	return &peerv1.BackupGroup{Term: k.term}, nil
}

// next answers a peer's request for a piece.
func (s *Service) next(c *peerv1.CallBackupRead) *peerv1.CallBackupReadResult {
	b, err := s.kept.getOrCreate(string(c.GetId()), false)
	if err != nil {
		return &peerv1.CallBackupReadResult{Fault: err.Error()}
	}
	data, err := b.next(&s.kept, c.GetGroup(), c.GetOffset())
	if err != nil {
		return &peerv1.CallBackupReadResult{Fault: err.Error()}
	}
	return &peerv1.CallBackupReadResult{Data: data}
}
