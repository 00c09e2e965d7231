package account

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// maxRecord bounds one record of a snapshot, in bytes. A transaction of MaxOps accounts with the
// longest ids and histories fits.
const maxRecord = 64 << 20

// Restore replaces the store with a snapshot. An error leaves the store unchanged. Restore ignores
// what follows the snapshot's end, but may have read some of it from r. The store keeps its bounds:
// a snapshot above them is restored, and the store then accepts nothing new.
func (s *Store) Restore(r io.Reader) error {
	s.init()
	in := &recordReader{r: bufio.NewReaderSize(r, 1<<16), store: New(s.bounds)}
	if err := in.all(); err != nil {
		return fmt.Errorf("restore accounts: record %d: %w", in.count, err)
	}
	*s = *in.store
	return nil
}

// recordReader reads a snapshot into a new store.
type recordReader struct {
	r        *bufio.Reader
	sum      uint32
	before   uint32 // checksum before the current record
	buf      []byte
	store    *Store
	policies []*policy
	got      raftlogv1.AccountEnd // counts read so far
	kind     int                  // of the newest record; kinds come in order
	count    int                  // records read
	lastKey  string               // key of the newest record
}

func (in *recordReader) all() error {
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(in.r, magic); err != nil {
		return cut(err)
	}
	if string(magic) != snapshotMagic {
		return fmt.Errorf("begins with %q, not with %q: not a snapshot of accounts", magic, snapshotMagic)
	}
	in.sum = crc32.Update(in.sum, castagnoli, magic)
	var head raftlogv1.AccountSnapshotHeader
	if err := in.message(&head); err != nil {
		return err
	}
	if head.GetVersion() != snapshotVersion {
		return fmt.Errorf("version %d; this node understands %d", head.GetVersion(), snapshotVersion)
	}
	in.store.now, in.store.changes = quota.Time(head.GetNowUnixNanos()), head.GetChanges()
	for {
		in.count++
		var rec raftlogv1.AccountRecord
		if err := in.message(&rec); err != nil {
			return err
		}
		if end := rec.GetEnd(); end != nil {
			in.got.Checksum = in.before
			if !proto.Equal(end, &in.got) {
				return fmt.Errorf("the end says %v, but %v were read", end, &in.got)
			}
			return nil
		}
		if err := in.record(&rec); err != nil {
			return err
		}
	}
}

// cut turns an early end of file into an error that says the snapshot is cut off.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the snapshot is cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}

func (in *recordReader) message(m message) error {
	in.before = in.sum
	n, err := binary.ReadUvarint(in.r)
	if err != nil {
		return cut(err)
	}
	if n > maxRecord {
		return fmt.Errorf("has %d bytes; at most %d", n, maxRecord)
	}
	in.buf = binary.AppendUvarint(in.buf[:0], n)
	head := len(in.buf)
	for rest := int(n); rest > 0; { // in pieces: the length may be forged
		piece := min(rest, 1<<16)
		at := len(in.buf)
		in.buf = append(in.buf, make([]byte, piece)...)
		if _, err := io.ReadFull(in.r, in.buf[at:]); err != nil {
			return cut(err)
		}
		rest -= piece
	}
	in.sum = crc32.Update(in.sum, castagnoli, in.buf)
	return unmarshal(in.buf[head:], m)
}

// The kinds of records, in their order. Policies may come between any of them.
const (
	kindAccount = iota
	kindApplied
	kindTransaction
	kindEnded
)

// next checks the order of kinds and keys.
func (in *recordReader) next(kind int, key string) error {
	if kind < in.kind || kind == in.kind && in.lastKey != "" && key <= in.lastKey {
		return fmt.Errorf("%q is out of order", key)
	}
	in.kind, in.lastKey = kind, key
	return nil
}

func (in *recordReader) record(rec *raftlogv1.AccountRecord) error {
	switch {
	case rec.GetPolicy() != nil:
		return in.policy(rec.GetPolicy())
	case rec.GetAccount() != nil:
		return in.account(rec.GetAccount())
	case rec.GetApplied() != nil:
		return in.applied(rec.GetApplied())
	case rec.GetTransaction() != nil:
		return in.transaction(rec.GetTransaction())
	case rec.GetEnded() != nil:
		return in.ended(rec.GetEnded())
	}
	return errors.New("has a kind that this node does not know")
}

func (in *recordReader) policy(p *raftlogv1.StoredPolicy) error {
	in.got.Policies++
	ref, rule := decodePolicy(p)
	if rule == nil {
		return fmt.Errorf("policy %s has no content", ref)
	}
	if err := errors.Join(ref.Validate(), rule.Validate()); err != nil {
		return fmt.Errorf("policy %s: %w", ref, err)
	}
	in.policies = append(in.policies, &policy{Ref: ref, Rule: *rule})
	return nil
}

func (in *recordReader) account(a *raftlogv1.StoredAccount) error {
	in.got.Accounts++
	if err := in.next(kindAccount, string(a.GetKey())); err != nil {
		return err
	}
	r, err := in.stored(a)
	if err != nil {
		return err
	}
	in.store.putLast(r)
	return nil
}

// stored decodes and checks an account.
func (in *recordReader) stored(a *raftlogv1.StoredAccount) (*record, error) {
	r := &record{
		key: string(a.GetKey()), balance: a.GetBalance(), updated: quota.Time(a.GetUpdatedUnixNanos()),
		refilled: quota.Time(a.GetRefilledUnixNanos()), policySet: quota.Time(a.GetPolicySetUnixNanos()),
		version: a.GetVersion(), history: string(a.GetHistory()),
	}
	id, ok := parseKey(r.key)
	if !ok {
		return nil, fmt.Errorf("account key %q has not six parts", r.key)
	}
	if err := id.Validate(); err != nil {
		return nil, fmt.Errorf("account %q: %w", r.key, err)
	}
	switch n := a.GetPolicy(); {
	case n > uint64(len(in.policies)):
		return nil, fmt.Errorf("account %q: policy %d of %d", r.key, n, len(in.policies))
	case n > 0:
		r.policy = in.policies[n-1]
	}
	if status, message := within(r.balance); status != Success {
		return nil, fmt.Errorf("account %q: %s", r.key, message)
	}
	if r.version > in.store.changes {
		return nil, fmt.Errorf("account %q: version %d, of %d changes", r.key, r.version, in.store.changes)
	}
	var room [MaxHistory + 1]Change
	if list, ok := unpackHistory(room[:0], r.history, r.policy); !ok || len(list) > MaxHistory {
		return nil, fmt.Errorf("account %q: its history cannot be read", r.key)
	}
	return r, nil
}

func (in *recordReader) applied(a *raftlogv1.StoredApplied) error {
	in.got.Applied++
	key := string(a.GetKey())
	if err := in.next(kindApplied, key); err != nil {
		return err
	}
	hash, err := decodeHash(a.GetHash())
	if err != nil {
		return err
	}
	_, _, sound := splitAppliedKey(key)
	if _, ok := unpackResults(string(a.GetResults())); !ok || !sound {
		return fmt.Errorf("request %q cannot be read", key)
	}
	in.store.remember(&applied{
		key: key, hash: hash, at: quota.Time(a.GetAtUnixNanos()), expires: quota.Time(a.GetExpiresUnixNanos()),
		elsewhere: a.GetElsewhere(), results: string(a.GetResults()),
	})
	return nil
}

func (in *recordReader) transaction(st *raftlogv1.StoredTransaction) error {
	in.got.Transactions++
	id, err := decodeTx(st.GetTx())
	if err != nil {
		return err
	}
	if err := in.next(kindTransaction, string(id[:])); err != nil {
		return err
	}
	t := &txn{
		tx: Tx{ID: id, Home: quota.RangeID(st.GetHome())}, atHome: st.GetAtHome(), since: quota.Time(st.GetSinceUnixNanos()),
		others: decodeRanges(st.GetOthers()), decided: st.GetDecided(), commit: st.GetCommit(),
	}
	if t.decided && !t.atHome {
		return fmt.Errorf("transaction %x is decided outside its home range", id)
	}
	if !t.decided {
		if err := in.parts(t, st); err != nil {
			return fmt.Errorf("transaction %x: %w", id, err)
		}
	}
	in.store.txs.Set(t)
	return nil
}

// parts restores the prepared parts of a transaction.
func (in *recordReader) parts(t *txn, st *raftlogv1.StoredTransaction) error {
	in.store.preparing = t
	defer func() { in.store.preparing = nil }()
	first := &raftlogv1.StoredPart{
		By: st.GetBy(), RequestId: st.GetRequestId(), Hash: st.GetHash(), TtlNanos: st.GetTtlNanos(), Accounts: st.GetAccounts(), Results: st.GetResults(),
	}
	for _, stored := range append([]*raftlogv1.StoredPart{first}, st.GetMore()...) {
		p, err := in.part(t, stored)
		if err != nil {
			return err
		}
		in.store.holdPart(t, p)
	}
	return nil
}

func (in *recordReader) part(t *txn, st *raftlogv1.StoredPart) (*part, error) {
	hash, err := decodeHash(st.GetHash())
	if err != nil {
		return nil, err
	}
	results, ok := unpackResults(string(st.GetResults()))
	if !ok {
		return nil, errors.New("its results cannot be read")
	}
	p := &part{by: st.GetBy(), id: st.GetRequestId(), hash: hash, ttl: time.Duration(st.GetTtlNanos()), results: results}
	if p.id != "" && in.store.pending[appliedKey(p.by, p.id)] != nil {
		return nil, fmt.Errorf("request %q is held by another", p.id)
	}
	for _, a := range st.GetAccounts() {
		r, err := in.stored(a)
		if err != nil {
			return nil, err
		}
		if h, held := in.store.holds.Get(hold{key: r.key}); held && h.tx != t.tx {
			return nil, fmt.Errorf("account %q is held by another", r.key)
		}
		if slices.ContainsFunc(p.records, func(o *record) bool { return o.key == r.key }) {
			return nil, fmt.Errorf("duplicate account %q", r.key)
		}
		p.records = append(p.records, r)
	}
	p.created = in.store.missing(p.records)
	return p, nil
}

func (in *recordReader) ended(e *raftlogv1.StoredEnded) error {
	in.got.Ended++
	id, err := decodeTx(e.GetTx())
	if err != nil {
		return err
	}
	if err := in.next(kindEnded, string(id[:])); err != nil {
		return err
	}
	over := ended{id: id, commit: e.GetCommit(), until: quota.Time(e.GetUntilUnixNanos())}
	in.store.ended.Set(over)
	in.store.endedOrder.Set(over)
	return nil
}
