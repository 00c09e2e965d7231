package account

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
)

// snapshotMagic begins a snapshot. No encoded message begins with it.
const snapshotMagic = "\x00acct1\n"

// snapshotVersion is the format version that Write writes.
const snapshotVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write writes a snapshot: the same bytes on every replica. It needs memory for one record, and
// runs while the store applies commands.
func (v View) Write(w io.Writer) error {
	out := &recordWriter{w: bufio.NewWriterSize(w, 1<<16), places: map[policy]uint64{}}
	out.bytes([]byte(snapshotMagic))
	out.message(&raftlogv1.AccountSnapshotHeader{Version: snapshotVersion, NowUnixNanos: int64(v.now), Changes: v.changes})
	if !v.accounts.none() {
		v.accounts.Scan(out.account)
		v.applied.Scan(out.request)
		v.txs.Scan(out.transaction)
		v.ended.Scan(out.over)
	}
	out.end.Checksum = out.sum
	out.message(&raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_End{End: &out.end}})
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("write accounts: %w", out.err)
	}
	return nil
}

// recordWriter writes a snapshot. After an error it writes nothing more.
type recordWriter struct {
	w      *bufio.Writer
	sum    uint32
	end    raftlogv1.AccountEnd
	places map[policy]uint64 // numbers of the policies written so far
	last   *policy           // the last one looked up
	place  uint64
	buf    []byte
	err    error
}

func (w *recordWriter) bytes(b []byte) {
	if w.err != nil {
		return
	}
	w.sum = crc32.Update(w.sum, castagnoli, b)
	_, w.err = w.w.Write(b)
}

func (w *recordWriter) message(m message) {
	if w.err != nil {
		return
	}
	w.buf = binary.AppendUvarint(w.buf[:0], uint64(sizeOf(m)))
	if w.buf, w.err = appendMessage(w.buf, m); w.err == nil {
		w.bytes(w.buf)
	}
}

func (w *recordWriter) account(r *record) bool {
	stored := w.stored(r)
	w.end.Accounts++
	w.message(&raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_Account{Account: stored}})
	return w.err == nil
}

func (w *recordWriter) stored(r *record) *raftlogv1.StoredAccount {
	return &raftlogv1.StoredAccount{
		Key: []byte(r.key), Balance: r.balance,
		UpdatedUnixNanos: int64(r.updated), RefilledUnixNanos: int64(r.refilled), PolicySetUnixNanos: int64(r.policySet),
		Policy: w.policy(r.policy), Version: r.version, History: []byte(r.history),
	}
}

// policy returns a policy's number, writing the policy first if it has none.
func (w *recordWriter) policy(p *policy) uint64 {
	if p == nil {
		return 0
	}
	if p == w.last {
		return w.place
	}
	n, ok := w.places[*p]
	if !ok {
		w.end.Policies++
		n = w.end.Policies
		w.places[*p] = n
		w.message(&raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_Policy{Policy: encodePolicy(p)}})
	}
	w.last, w.place = p, n
	return n
}

func (w *recordWriter) request(a *applied) bool {
	w.end.Applied++
	w.message(&raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_Applied{Applied: &raftlogv1.StoredApplied{
		Key: []byte(a.key), Hash: a.hash[:], AtUnixNanos: int64(a.at), ExpiresUnixNanos: int64(a.expires),
		Elsewhere: a.elsewhere, Results: []byte(a.results),
	}}})
	return w.err == nil
}

func (w *recordWriter) transaction(t *txn) bool {
	stored := &raftlogv1.StoredTransaction{
		Tx: t.tx.ID[:], Home: uint32(t.tx.Home), AtHome: t.atHome, SinceUnixNanos: int64(t.since),
		Others: encodeRanges(t.others), Decided: t.decided, Commit: t.commit,
	}
	for i, p := range t.parts {
		part := w.part(p)
		if i > 0 {
			stored.More = append(stored.More, part)
			continue
		}
		stored.By, stored.RequestId, stored.Hash, stored.TtlNanos = part.By, part.RequestId, part.Hash, part.TtlNanos
		stored.Accounts, stored.Results = part.Accounts, part.Results
	}
	w.end.Transactions++
	w.message(&raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_Transaction{Transaction: stored}})
	return w.err == nil
}

func (w *recordWriter) part(p *part) *raftlogv1.StoredPart {
	out := &raftlogv1.StoredPart{
		By: p.by, RequestId: p.id, Hash: p.hash[:], TtlNanos: int64(p.ttl), Results: []byte(packResults(p.results)),
	}
	for _, r := range p.records {
		out.Accounts = append(out.Accounts, w.stored(r))
	}
	return out
}

func (w *recordWriter) over(e ended) bool {
	w.end.Ended++
	w.message(&raftlogv1.AccountRecord{Record: &raftlogv1.AccountRecord_Ended{Ended: &raftlogv1.StoredEnded{
		Tx: e.id[:], Commit: e.commit, UntilUnixNanos: int64(e.until),
	}}})
	return w.err == nil
}
