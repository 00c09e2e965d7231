package mutation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutation is a small fault: it replaces old, which occurs once in the file, by new.
type mutation struct{ name, file, old, new string }

// mutations are the faults that tests of the core must find.
var mutations = []mutation{
	// Counting.
	{"a debit is dropped", "leader/allocation.go", "used: max(0, e.Used-al.used), over:", "used: 0, over:"},
	{"an overdraft is not booked", "leader/allocation.go", "over: max(0, e.Overdrawn-al.over), refused:", "over: 0, refused:"},
	{"a refund is booked twice", "leader/allocation.go", "refunded: max(0, e.Refunded-refunded),", "refunded: 2 * max(0, e.Refunded-refunded),"},
	{"a first report's refunds count as just given back", "leader/requests.go", "		return e.AccruedTo, e.AccruedTo >= l.started\n", "		return now, true\n"},
	{"refunds after a final report count as given back after its answer", "aggregator/apply.go", "b.countRefund(since, ", "b.countRefund(max(now, since), "},
	{"unreported use counts as known", "leader/allocation.go", "known := total - min(e.Unreported, total)", "known := total"},
	{"a repeated report is booked again", "leader/ledger.go", "if r.Seq <= m.seq {", "if r.Seq < m.seq {"},
	{"reports of an earlier process are booked", "leader/ledger.go", "if r.Incarnation < m.inc {", "if false {"},
	{"reports of another term are booked", "leader/ledger.go", "if r.Range != l.id || r.Term != l.term {", "if r.Range != l.id {"},
	{"a repeated decide request is booked again", "leader/requests.go", "if was, ok := s.known[q.ID]; ok {", "if was, ok := s.known[q.ID]; ok && false {"},
	{"an overdraft that a report has booked counts again at decide requests", "leader/ask.go", "	b.pool.Add(-kept)\n", "	if al := b.allocationOf(q); al != nil {\n		kept = kept.Plus(al.over)\n	}\n	b.pool.Add(-kept)\n"},
	{"an answered use is booked again when it is reported", "leader/allocation.go", "	current = min(d.used-min(late, d.used), g.answered)\n", "	current = 0 * late\n"},
	{"an answer stays in the level that the log keeps", "leader/allocation.go", "al.returnable+cost, al.log().answered+cost", "al.returnable, al.log().answered+cost"},
	{"what a member spends itself is booked at the leader too", "leader/ask.go", "b.pool.Take(now, b.limit, q.Booked(), q.MaxWait)", "b.pool.Take(now, b.limit, q.Cost, q.MaxWait)"},
	{"a node spends nothing of its own when the leader admits the rest", "aggregator/decide.go", "an.Report || !b.take(int64(t.held), &a.urgent)", "an.Report"},
	{"calls count on the same held tokens", "aggregator/call.go", "quota.Units(b.hot().held.Load())-b.pledged", "quota.Units(b.hot().held.Load())"},
	{"a grant from before an answer sets the level back", "aggregator/apply.go", "overtaken > 0 && overtaken < maxOvertaking", "overtaken > maxOvertaking && overtaken < maxOvertaking"},
	{"a missed grant goes unnoticed", "aggregator/apply.go", "!missed && e.Free < max(", "(missed || !missed) && e.Free < max("},
	{"an unused answer stays booked", "leader/requests.go", "	b.pool.Add(back)\n", ""},

	// Grants.
	{"granted tokens stay in the pool", "leader/divide.go", "		b.pool.Add(-tokens)\n		al.out,", "		al.out,"},
	{"granted tokens are not out", "leader/divide.go", "al.out, al.returnable = al.out+tokens, al.returnable+tokens", "al.returnable = al.returnable + tokens"},
	{"tokens in transit are not counted", "leader/divide.go", "		al.addUnacked(tokens)\n", ""},
	{"a grant counts as received too early", "internal/quota/unacked.go", "if g.Seq > applied {", "if g.Seq > applied+1 {"},
	{"rates exceed the limit's rate", "leader/divide.go", "room := b.gains - others\n", "room := b.gains\n"},
	{"what a member is owed takes the shares of others", "leader/divide.go", "due += quota.RoundUnits(fair) - o.charged", "due += 0 * quota.RoundUnits(fair)"},
	{"the old rate is forgotten before the member acknowledges the cut", "leader/divide.go", "al.charged = max(al.charged, al.rate)", "al.charged = al.rate"},
	{"caps exceed the burst", "leader/divide.go", "limit = min(limit, b.limit.BurstUnits()-othersCap(b, al))", "limit = min(limit, b.limit.BurstUnits())"},
	{"a member's cap does not bound its tokens", "leader/divide.go", "part = min(part, max(0, room))", "part = max(part, 0)"},
	{"nothing is recalled", "leader/push.go", "	o.editRare(true).recalled = now\n", "	return\n"},
	{"too few tokens are divided", "leader/divide.go", "	least := b.smallAmount()\n", "	least := 0.0\n"},

	// What members may have used.
	{"accrued tokens are not out", "leader/allocation.go", "al.out, al.returnable = al.out.Plus(got), al.returnable.Plus(got)", "al.returnable = al.returnable.Plus(got)"},
	{"use during a late report is not charged", "leader/allocation.go", "al.out, al.returnable, al.held = out, standing,", "al.out, al.returnable, al.held = min(out, standing), standing,"},
	{"all tokens that a member does not hold are returned", "leader/allocation.go", "allowed := min(max(certain, least), left)", "allowed := max(left, min(certain, 0))"},
	{"tokens in transit count as used", "leader/allocation.go", "return min(sum.Plus(al.unacked.Tokens()), quota.Most)", "return min(sum, quota.Most)"},
	{"the level exceeds the burst", "leader/bucket.go", "withheld := standing.Plus(b.earlier())", "withheld := b.earlier()"},
	{"tokens of a window outlast it", "leader/bucket.go", "		b.allocations[i].void()\n", ""},
	{"a lost answer returns overflowed tokens", "leader/requests.go", "back = min(back, b.rooms.since(booked.at, b.room()))", "back = max(back, 0)"},
	{"tokens that members may return use no room", "leader/bucket.go", "full-b.pool.Level()-max(0, b.returnableTokens()-b.answered()-standing)", "full-b.pool.Level()"},

	// New leaders.
	{"a new leader grants before it has learned", "leader/ask.go", "!l.mayGrant(now, b) && q.Cost > 0", "false && q.Cost > 0"},
	{"a leader that does not know of decide: leader yet keeps its answers out of reports", "leader/ask.go", "b.limit.Ceiling == quota.Soft && b.endures() {", "b.limit.ReportsAnswers() {"},
	{"a booking before a window was resized is not reversed", "leader/bucket.go", "if !resizesWindow(was, next) {", "if true {"},
	{"a key closes before the log has its refunds", "leader/durable.go", "al.saved() < al.used.Plus(al.over) || al.log().promised.back != al.rarely().refunded", "al.saved() < al.used.Plus(al.over)"},
	{"an implicit grant returns although its use is unknown", "leader/implicit.go", "if c.node != id || !m.knowsUseSince(c.since) {", "if c.node != id {"},
	{"an implicit grant that has overflowed returns", "leader/overflow.go", "cut := min(max(0, over), c.tokens)", "cut := 0 * c.tokens"},
	{"a rate of an earlier leader is forgotten", "leader/allocation.go", "al.rate, al.charged = e.Learn.Rate, e.Learn.Rate", "al.rate, al.charged = 0, 0"},
	{"tokens granted according to the log are also in the pool", "leader/durable.go", "		b.pool.Add(-al.out)\n		l.recordLease", "		l.recordLease"},
	{"more is granted than the log promises", "leader/durable.go", "got := max(0, min(tokens, room, top.Plus(-most)))", "got := max(0, tokens, min(0, room))"},
	{"a new leader promises more to members that have closed the key", "leader/durable.go", "!al.closed && !al.restored", "!al.closed"},
	{"a leader admits more than the log promises it", "leader/answers.go", "return given <= p.high && now < p.until", "return (given <= p.high || true) && now < p.until"},
	{"tokens that an earlier leader may have admitted are in the pool", "leader/answers.go", "	b.pool.Add(-kl.Answers)\n", ""},
	{"promises to itself end by the members' standing tokens instead of the returnable ones", "leader/answers.go", "owed := -b.pool.Level().Plus(b.returnableTokens())", "owed := -b.pool.Level().Plus(b.standing())"},
	{"a leader's death counts tokens that nobody requested", "leader/answers.go", "		need = s.short\n", "		need = need + 0\n"},
	{"what an earlier leader admitted of a cut window returns", "leader/bucket.go", "b.mayOwe || next.Kind.Windowed() && b.pool.Level() < before", "b.mayOwe || b.pool.Level() > 2*before && false"},
	{"tokens of a sliding window return twice", "leader/overflow.go", "		al.returnable = min(al.returnable, al.standing().Plus(al.answered()))\n", "		_ = al\n"},

	// Members.
	{"a member spends tokens that it does not hold", "aggregator/hotpath.go", "		if h < cost {\n", "		if h < 0 {\n"},
	{"a member accrues beyond its cap", "aggregator/state.go", "b.addHeld(min(got, max(0, b.cap-b.base)))", "b.addHeld(got)"},
	{"a hard window ends without the allowance for the leader's clock", "aggregator/window.go", "		until = until.Add(-off.lag())\n", ""},
	{"a member spends after its lease", "aggregator/state.go", "	end := min(until, b.lease)\n", "	end := until\n"},
	{"an old grant is applied again", "aggregator/apply.go", "b.term == rt.term && e.Seq <= b.applied", "b.term == rt.term && e.Seq < b.applied"},
	{"any answer acknowledges the last report", "aggregator/apply.go", "if b.pending == 0 || e.Ack != b.pending {", "if b.pending == 0 {"},
	{"a fraction of a token stays with a member", "aggregator/collect.go", "		keep = min(keep, max(0, quota.Units(b.hot().held.Load())))\n", ""},
	{"a charge is reported before its call is decided", "aggregator/state.go", "	c.over, c.used = c.over-beyond, c.used-(b.undecided-beyond)\n", "	_ = beyond\n"},
	{"a key closes while a call that charged it is undecided", "aggregator/collect.go", "mayClose := b.allocated == 0 && b.undecided == 0", "mayClose := b.allocated == 0"},
	{"a refused call keeps its charges", "aggregator/call.go", "			c.Need = Nothing // no leader can change that\n			c.undo(0)\n", "			c.Need = Nothing\n"},
	{"a hard check that only others' presumed use prevents is refused as if the limit were used up", "aggregator/decide.go", "(est >= cost || !b.noneFree || absent):", "(est >= cost || absent):"},
	{"a leader is asked although another limit refuses", "aggregator/decide.go", "		d.Allowed = true // unless", "		d.Allowed = false // unless"},

	// Client ledger, and division.
	{"a client's use is booked beyond its granted tokens", "internal/clientledger/allocation.go", "total := min(e.Used, al.given)", "total := e.Used"},
	{"a client's overdraft is dropped", "internal/clientledger/allocation.go", "max(0, e.Overdrawn-al.over)\n	s :=", "quota.Units(0)\n	s :="},
	{"a member with little demand gets an equal part", "internal/fairshare/demand.go", "d > 0 && d <= level", "d > 0 && d < 0"},
	{"the demand estimate does not follow a surge", "internal/fairshare/demand.go", "case got > expected+margin:", "case got > expected+1000*margin:"},
}

// TestMutationsFit checks that each mutation still fits the sources.
func TestMutationsFit(t *testing.T) { fit(t, mutations) }

func fit(t *testing.T, list []mutation) {
	for _, m := range list {
		if _, err := m.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// overlay writes the changed file, and returns the path of the compiler's overlay.
func (m *mutation) overlay(dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join("../..", m.file))
	if err != nil {
		return "", err
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return "", fmt.Errorf("%s has %d times, not once: %q", m.file, n, m.old)
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(src), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// inTests are the tests that look for a mutation, the cheapest first.
var inTests = [][]string{
	{"test", "-count=1", "./leader", "./aggregator", "./internal/clientledger", "./internal/fairshare"},
	{"test", "-count=1", "./internal/sim/rules", "./internal/sim"},
	{"test", "-count=1", "./internal/sim/scenario"},
	{"run", "./cmd/quorate", "sim", "--campaign", "1000", "--seed", "1"},
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+).*(?:\n    --- FAIL: (\S+))?`)
	failedSeed = regexp.MustCompile(`(?m)^seed (\d+): (\w+)`)
)

// TestMutations makes one mutation after the other, and runs the tests until one fails. It takes
// half an hour: make mutations runs it, and the page gets the rows that it prints. One alone:
//
//	MUTATIONS=1 go test -v -run '^TestMutations$/a_member_spends_after_its_lease' ./internal/mutation
func TestMutations(t *testing.T) { run(t, mutations, inTests) }

func run(t *testing.T, list []mutation, steps [][]string) {
	rows := newTable(t)
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			by := m.caught(t, steps)
			if by == "" {
				t.Error("no test finds it")
				by = "**nothing**"
			}
			rows.add(m.name, "`"+m.file+"`", by)
		})
	}
	rows.write(t)
}

// table collects the rows of a page.
type table struct{ strings.Builder }

// newTable skips the test unless MUTATIONS is set.
func newTable(t *testing.T) *table {
	if os.Getenv("MUTATIONS") == "" {
		t.Skip("takes half an hour: make mutations, or make mended-faults")
	}
	return &table{}
}

func (l *table) add(cells ...string) {
	row := "| " + strings.Join(cells, " | ") + " |\n"
	fmt.Print(row)
	l.WriteString(row)
}

// write writes the rows to the file that MUTATIONS_ROWS names.
func (l *table) write(t *testing.T) {
	if path := os.Getenv("MUTATIONS_ROWS"); path != "" {
		if err := os.WriteFile(path, []byte(l.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// goWith runs a go command with changed build flags.
func goWith(flags string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags, "MUTATIONS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// caught returns what found the mutation; "" if nothing did.
func (m *mutation) caught(t *testing.T, steps [][]string) string {
	overlay, err := m.overlay(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range steps {
		out, err := goWith("-overlay="+overlay, args...)
		if err == nil {
			continue
		}
		if found := failedTest.FindStringSubmatch(out); found != nil {
			return "`" + cmp.Or(found[2], found[1]) + "`"
		}
		if found := failedSeed.FindStringSubmatch(out); found != nil {
			return fmt.Sprintf("campaign, seed %s: %s", found[1], found[2])
		}
		if strings.Contains(out, "panic:") {
			return "a panic in " + args[2]
		}
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out) // it does not build
		return "**not run**"
	}
	return ""
}
