package control

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

func quietMeta() *Machine { return NewMachine(func(*quota.Limits) {}, func([]quota.Key) {}) }

// change returns an entry that replaces the limits; id is the proposal's ID.
func change(id string, expect int64, limits ...quota.Limit) *raftlogv1.SetLimits {
	set := EncodeLimits(limits, time.Unix(0, int64(len(id))))
	set.RequestId, set.By, set.Comment = []byte(id), "by "+id, "for "+id
	if expect != quota.AnyVersion {
		set.Expect = new(uint64(expect))
	}
	return set
}

func (m *Machine) take(t *testing.T, set *raftlogv1.SetLimits) limitsResult {
	t.Helper()
	res, ok := m.Apply(1, 1, snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetLimits{SetLimits: set}})).(limitsResult)
	if !ok {
		t.Fatal("no limitsResult")
	}
	return res
}

func TestVersions(t *testing.T) {
	m := quietMeta()
	a, b, c := testLimit("a", 1, quota.Soft), testLimit("b", 2, quota.Hard), testLimit("c", 3, quota.Soft)
	a2 := testLimit("a", 9, quota.Soft)
	m.take(t, change("one", 0, a, b))
	m.take(t, change("two!", 1, a2, c))
	m.take(t, change("three", quota.AnyVersion))
	back := change("back", 3)
	back.RollbackTo = 1
	if r := m.take(t, back); r.err != nil || !r.changed || r.version.Number != 4 {
		t.Errorf("rollback: %+v", r)
	}
	want := []quota.Version{
		{Number: 4, At: 4, By: "by back", Comment: "for back", RollbackTo: 1, Limits: 2, Added: 2},
		{Number: 3, At: 5, By: "by three", Comment: "for three", Removed: 2},
		{Number: 2, At: 4, By: "by two!", Comment: "for two!", Limits: 2, Added: 1, Changed: 1, Removed: 1},
		{Number: 1, At: 3, By: "by one", Comment: "for one", Limits: 2, Added: 2},
	}
	if got := m.versions(0, 10); !slices.Equal(got, want) {
		t.Errorf("versions\n%+v\nwant\n%+v", got, want)
	}
	if got := m.versions(4, 2); !slices.Equal(got, want[1:3]) {
		t.Errorf("two before 4: %+v", got)
	}
	if got := m.versions(1, 2); len(got) != 0 {
		t.Errorf("before the first: %+v", got)
	}
	for number, list := range map[uint64][]quota.Limit{1: {a, b}, 2: {a2, c}, 3: nil, 4: {a, b}} {
		v, err := m.version(number)
		if err != nil {
			t.Fatal(err)
		}
		limits, err := v.decode()
		if err != nil || !slices.EqualFunc(limits.All(), list, func(x, y quota.Limit) bool { return x.Equal(&y) }) {
			t.Errorf("version %d has %v, %v; want %v", number, limits.All(), err, list)
		}
	}
}

// TestVersionErrors: a refused change leaves no trace but its answer.
func TestVersionErrors(t *testing.T) {
	m := quietMeta()
	a, b := testLimit("a", 1, quota.Soft), testLimit("b", 2, quota.Soft)
	m.take(t, change("one", 0, a))
	before := machinetest.Snapshot(t, m)
	rollback := change("two", quota.AnyVersion)
	rollback.RollbackTo = 7
	for name, c := range map[string]struct {
		set  *raftlogv1.SetLimits
		want error
	}{
		"not the first":   {change("two", 0, b), &quota.ConflictError{Expected: 0, Current: 1, By: "by one"}},
		"from the future": {change("two", 2, b), &quota.ConflictError{Expected: 2, Current: 1, By: "by one"}},
		"same, but stale": {change("two", 0, a), &quota.ConflictError{Expected: 0, Current: 1, By: "by one"}},
		"no such version": {rollback, &quota.UnknownVersionError{Version: 7, Oldest: 1, Newest: 1}},
	} {
		r := m.take(t, c.set)
		if r.changed || fmt.Sprintf("%#v", r.err) == "" || r.err == nil || r.err.Error() != c.want.Error() || r.version.Number != 1 {
			t.Errorf("%s: %+v; want %v", name, r, c.want)
		}
		// The error is the same after the leader has sent it to another node.
		if over := decodeLimitsResult(encodeLimitsResult(r)); fmt.Sprintf("%T %v", over.err, over.err) != fmt.Sprintf("%T %v", c.want, c.want) {
			t.Errorf("%s: over the wire %T %v", name, over.err, over.err)
		}
	}
	if r := m.take(t, change("two", 1, a)); r.changed || r.err != nil || r.version.By != "by one" {
		t.Errorf("the same limits: %+v", r)
	}
	if !bytes.Equal(before, machinetest.Snapshot(t, m)) {
		t.Error("a refused change left something behind")
	}
}

func TestLimitsResultOverTheWire(t *testing.T) {
	want := limitsResult{version: filltest.Filled[quota.Version](t), changed: true}
	if got := decodeLimitsResult(encodeLimitsResult(want)); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got := decodeLimitsResult(encodeLimitsResult(limitsResult{err: errors.New("burst: -1")}))
	if got.err == nil || got.err.Error() != "burst: -1" || got.changed {
		t.Errorf("a fault became %+v", got)
	}
	if got := decodeLimitsResult(encodeLimitsResult(nil)); got.err == nil {
		t.Error("an entry without a result became success")
	}
}

// TestRetry repeats a proposal whose answer was lost.
func TestRetry(t *testing.T) {
	m := quietMeta()
	calls := 0
	m.changed = func(*quota.Limits) { calls++ }
	first := change("one", 0, testLimit("a", 1, quota.Soft))
	m.take(t, first)
	m.take(t, change("two", 1, testLimit("b", 1, quota.Soft)))
	if r := m.take(t, first); r.err != nil || !r.changed || r.version.Number != 1 || r.version.By != "by one" {
		t.Errorf("repeated after another change: %+v", r)
	}
	if v := m.Current(); v.Version != 2 || v.All()[0].LimitName.Limit != "b" || calls != 2 {
		t.Errorf("the repetition was applied again: version %d, %d calls", v.Version, calls)
	}
}

func TestHistoryBounds(t *testing.T) {
	m := quietMeta()
	for i := range maxVersions + 10 {
		m.take(t, change(strconv.Itoa(i), int64(i), testLimit("a", int64(i), quota.Soft)))
	}
	if got := m.versions(0, 5000); len(got) != maxVersions || got[0].Number != maxVersions+10 || got[maxVersions-1].Number != 11 {
		t.Errorf("%d versions, newest %v", len(got), got[0])
	}
	_, err := m.version(10)
	if unknown := (*quota.UnknownVersionError)(nil); !errors.As(err, &unknown) || unknown.Oldest != 11 || unknown.Newest != maxVersions+10 {
		t.Errorf("a dropped version: %v", err)
	}
	big := func(n int) *pastLimits { return &pastLimits{limits: make([]byte, n)} }
	var h limitVersions
	h.add(big(maxHistoryBytes / 2))
	h.add(big(maxHistoryBytes / 2))
	if len(h.list) != 2 {
		t.Errorf("%d versions of just the bound", len(h.list))
	}
	if h.add(big(1)); len(h.list) != 2 || h.bytes != maxHistoryBytes/2+1 {
		t.Errorf("beyond the bound: %d versions, %d bytes", len(h.list), h.bytes)
	}
	if h.add(big(maxHistoryBytes + 1)); len(h.list) != 1 || h.bytes != maxHistoryBytes+1 {
		t.Errorf("one that is too large by itself: %d versions, %d bytes", len(h.list), h.bytes)
	}
}

// TestOtherFormat: a snapshot of another format is refused, the error names both formats, and
// nothing changes.
func TestOtherFormat(t *testing.T) {
	meta := quietMeta()
	meta.take(t, EncodeLimits([]quota.Limit{testLimit("a", 1, quota.Soft)}, time.Unix(1, 0)))
	for name, tt := range map[string]struct {
		m    machinetest.Machine
		data string
		want string
	}{
		"a newer one": {meta, "\x00meta2\nmore", `meta snapshot: format: begins with "\x00meta2\n"; this version of quorate reads "\x00meta1\n"`},
		"nothing":     {meta, "", "meta snapshot: format: unexpected EOF"},
	} {
		before := machinetest.Snapshot(t, tt.m)
		if err := tt.m.Restore(strings.NewReader(tt.data)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %s", name, err, tt.want)
		}
		if !bytes.Equal(machinetest.Snapshot(t, tt.m), before) {
			t.Errorf("%s: the state has changed", name)
		}
	}
}

// TestStoredNumbers: enum values are stored as numbers, so they must never change. Later kinds have
// the number of the proto's Kind minus one (TestWordsAreTheSame), which cannot change.
func TestStoredNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		got  fmt.Stringer
		want string
	}{
		"kind 5": {quota.Kind(5), "concurrency"}, "kind 3": {quota.Kind(3), "calendar"}, "kind 0": {quota.Kind(0), "bucket"},
		"kind 1": {quota.Kind(1), "fixed"}, "kind 2": {quota.Kind(2), "sliding"}, "kind 4": {quota.Kind(4), "periodic"},
		"unit 1": {quota.CalendarUnit(1), "minute"}, "unit 3": {quota.CalendarUnit(3), "day"}, "unit 6": {quota.CalendarUnit(6), "year"},
		"class 1": {quota.Class(1), "unlimited"}, "class 2": {quota.Class(2), "banned"},
		"enforcement 1": {quota.Enforcement(1), "shadow"}, "enforcement 2": {quota.Enforcement(2), "off"},
		"decide 1":  {quota.Decide(1), "leader"},
		"cut off 1": {quota.CutOffPolicy(1), "local"}, "cut off 2": {quota.CutOffPolicy(2), "share"}, "cut off 3": {quota.CutOffPolicy(3), "hold"},
		"cut off 4": {quota.CutOffPolicy(4), "open"}, "cut off 5": {quota.CutOffPolicy(5), "closed"}, "cut off 6": {quota.CutOffPolicy(6), "rate"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s is %v; logs were written with it as %s", name, c.got, c.want)
		}
	}
}

// TestBrokenSnapshots cuts a snapshot at every byte.
func TestBrokenSnapshots(t *testing.T) {
	m := quietMeta()
	m.take(t, change("one", 0, testLimit("a", 1, quota.Soft)))
	m.take(t, change("two", 1, testLimit("a", 2, quota.Soft)))
	m.Apply(1, 1, snapshotio.Encode(setOverridesCommand(
		quota.Override{Key: testKey("test", "a", "k"), Burst: 7, Expires: 99}, quota.Override{Key: testKey("test", "a", "m"), Burst: 0},
	)))
	config := policies("#7", 3)
	m.Apply(1, 1, snapshotio.Encode(loadCommand(config)))
	whole := machinetest.Snapshot(t, m)
	for end := range whole {
		r := quietMeta()
		if err := r.Restore(bytes.NewReader(whole[:end])); err == nil && end > 0 {
			t.Errorf("the first %d of %d bytes were taken for a snapshot", end, len(whole))
		}
		if r.Current().Version != 0 || r.overrides.Load().count != 0 || r.Policies.Load().Bytes != 0 {
			t.Errorf("the first %d of %d bytes changed the state", end, len(whole))
		}
	}
	r := quietMeta()
	told := false
	r.overridden = func(keys []quota.Key) { told = keys == nil }
	if err := r.Restore(bytes.NewReader(whole)); err != nil || !told {
		t.Errorf("whole: %v, told %v", err, told)
	}
	if o := r.Override(testKey("test", "a", "k")); o == nil || o.Burst != 7 || o.Expires != 99 {
		t.Errorf("restored %+v", o)
	}
	if c := r.Policies.Load().Find(config.id); c == nil || !reflect.DeepEqual(c, config) {
		t.Errorf("restored %+v", c)
	}
}

// testLimit returns a limit in namespace test that hardly refills.
func testLimit(name string, burst int64, ceiling quota.Ceiling) quota.Limit {
	return quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: name},
		Rate:      quota.Rate{Tokens: 5, Per: time.Hour}, Burst: burst, Ceiling: ceiling,
	}
}

func testKey(namespace, limit, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: namespace, Limit: limit}, Key: k}
}
