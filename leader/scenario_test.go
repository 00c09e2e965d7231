package leader

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/internal/quota"
)

// TestScenarios plays testdata/*.txt; -rewrite writes the output. Commands:
//
//	limit rate=10/s burst=20 [hard]   set or change the one limit; "limit none" removes it
//	    [debt=] [wait=] [decide=leader]
//	limit kind=fixed burst=20 per=1m  of another kind: fixed, sliding, periodic, concurrency
//	override burst=5 | scale=2 | none of the key k
//	ask [cost=] [wait=] [force]       a member's decide request to the leader
//	    [overdrawn=] [key=]
//	    from=a id=1 [late]            of a, which hears the answer after its next report
//	reset                             resets the key k
//	leader term=1 nodes=(a,b)         a new leader, with the checkpoint last taken
//	report a used=1 refused=2 ...     a reports its new counts; the answer reaches it
//	    [over=] [want=] [key=] [lost] [final] [full] [term=] [flight=] [refunded=] [window]
//	repeat a                          a's last report arrives again
//	restart a | gone a                a's process is restarted | is known to be dead
//	recovered a used=5 [saved=]       a's process reports the counts of the previous one
//	    [key=] [window] [before=]
//	advance 1s | sweep | books
//	checkpoint [lost]                 the log commits the levels, or does not yet
//
// A checkpoint that the ledger wants is made and committed at once.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		w := &world{members: map[string]*fakeMember{}, now: start}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return w.command(t, d)
		})
	})
}

const start = quota.Time(1_000_000_000_000)

// world is one ledger and simple members that apply every grant.
type world struct {
	limits  *quota.Limits
	ledger  *Ledger
	now     quota.Time
	saved   []quota.KeyLevel
	members map[string]*fakeMember
	version uint64
	over    oneOverride
}

type fakeMember struct {
	inc  quota.Incarnation
	seq  quota.Seq
	keys map[string]*fakeKey
	last quota.Report
	dead map[string]*fakeKey // of the previous process
}

type fakeKey struct {
	epoch               quota.Seq
	used, over, refused quota.Units
	refunded            quota.Units
	late                quota.Units // used, and not heard of yet
	acked, saved        quota.Units
	held                quota.Units
	from                quota.Time
	term                quota.Term
	grant               quota.GrantEntry // last applied
	at                  quota.Time
}

func (w *world) command(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if w.ledger != nil {
		packAll(t, w.ledger)
	}
	switch d.Cmd {
	case "limit":
		return w.limit(t, d)
	case "leader":
		return w.lead(t, d)
	case "override":
		return w.override(t, d)
	case "ask":
		return w.ask(t, d)
	case "reset":
		w.ledger.Reset(w.now, theKey("k"))
		return w.books()
	case "advance":
		dt, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		w.now = w.now.Add(dt)
		return ""
	case "report":
		return w.report(t, d)
	case "repeat":
		return w.send(w.member(d.CmdArgs[0].Key).last, nil)
	case "restart":
		m := w.member(d.CmdArgs[0].Key)
		*m = fakeMember{inc: m.inc + 1, keys: map[string]*fakeKey{}, dead: m.keys}
		return ""
	case "gone":
		w.ledger.MemberGone(w.now, quota.NodeID(d.CmdArgs[0].Key), w.member(d.CmdArgs[0].Key).inc+1)
		return w.books()
	case "sweep":
		w.ledger.Sweep(w.now)
		return w.books()
	case "books":
		return w.books()
	case "recovered":
		return w.recovered(t, d)
	case "checkpoint":
		return w.checkpoint(!d.HasArg("lost"))
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func (w *world) limit(t *testing.T, d *datadriven.TestData) string {
	w.version++
	var list []quota.Limit
	if !d.HasArg("none") {
		list = append(list, scanLimit(t, d))
	}
	var err error
	if w.limits, err = quota.NewLimits(w.version, list); err != nil {
		d.Fatalf(t, "%v", err)
	}
	if w.ledger == nil {
		return ""
	}
	w.ledger.SetLimits(w.now, w.limits)
	return w.books()
}

func scanLimit(t *testing.T, d *datadriven.TestData) quota.Limit {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}}
	d.ScanArgs(t, "burst", &l.Burst)
	if d.HasArg("hard") {
		l.Ceiling = quota.Hard
	}
	var decide string
	d.MaybeScanArgs(t, "decide", &decide)
	l.Decide = map[string]quota.Decide{"leader": quota.AtLeader, "local": quota.Locally}[decide]
	l.Durable = d.HasArg("durable")
	l.MaxWait, l.MaxDebt = scanTime(t, d, "wait"), scanTime(t, d, "debt")
	kind := quota.TokenBucket.String()
	d.MaybeScanArgs(t, "kind", &kind)
	for _, k := range quota.Kinds() {
		if k.String() == kind {
			l.Kind = k
		}
	}
	switch {
	case l.Kind.Windowed():
		l.SetFirst(quota.Window(l.Kind, l.Burst, scanTime(t, d, "per")))
	case l.Kind == quota.TokenBucket:
		var rate string
		d.ScanArgs(t, "rate", &rate)
		var err error
		if l.Rate, err = quota.ParseRate(rate); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	return l
}

// scanTime reads a duration, 0 if it is missing.
func scanTime(t *testing.T, d *datadriven.TestData, arg string) time.Duration {
	text := "0s"
	d.MaybeScanArgs(t, arg, &text)
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%s: %v", arg, err)
	}
	return v
}

func theKey(k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: k}
}

func (w *world) override(t *testing.T, d *datadriven.TestData) string {
	w.over.o = nil
	if !d.HasArg("none") {
		o := &quota.Override{Burst: -1}
		d.MaybeScanArgs(t, "burst", &o.Burst)
		d.MaybeScanArgs(t, "scale", &o.Scale)
		o.Scale *= quota.Million
		w.over.o = o
	}
	w.ledger.Overridden(w.now, []quota.Key{theKey("k")})
	return w.books()
}

func (w *world) ask(t *testing.T, d *datadriven.TestData) string {
	key, cost, overdrawn, from, id := "k", 0.0, 0.0, "", uint64(0)
	d.MaybeScanArgs(t, "key", &key)
	d.MaybeScanArgs(t, "id", &id)
	d.MaybeScanArgs(t, "from", &from)
	d.MaybeScanArgs(t, "cost", &cost)
	d.MaybeScanArgs(t, "overdrawn", &overdrawn)
	m := w.member(from)
	a := w.ledger.Ask(w.now, []quota.Ask{{
		From: quota.NodeID(from), Incarnation: m.inc, ID: quota.Seq(id), Key: theKey(key), Cost: quota.Units(cost * float64(quota.Token)), MaxWait: scanTime(t, d, "wait"),
		Overdrawn: quota.Units(overdrawn * float64(quota.Token)),
	}})[0]
	word := "refused"
	if a.Allowed {
		word = "allowed"
	}
	out := fmt.Sprintf("%s, %v, level %s", word, a.Why, show(a.Level))
	if a.Report {
		if k, u := m.key(key, w.now), quota.Units(cost*float64(quota.Token)); d.HasArg("late") {
			k.late += u
		} else {
			k.used += u
		}
		out += ", to report"
	}
	if a.Unsaved {
		out += ", waits for the log"
	}
	if a.Wait > 0 {
		out += fmt.Sprintf(", wait %v", a.Wait)
	}
	if a.RetryAfter == math.MaxInt64 {
		out += ", never"
	} else if a.RetryAfter > 0 {
		out += fmt.Sprintf(", again in %v", a.RetryAfter)
	}
	return out + "\n"
}

func (w *world) lead(t *testing.T, d *datadriven.TestData) string {
	var term uint64
	var nodes []quota.NodeID
	cfg := Config{Overrides: &w.over}
	d.ScanArgs(t, "term", &term)
	d.MaybeScanArgs(t, "max-keys", &cfg.MaxKeys)
	if arg, ok := d.Arg("nodes"); ok {
		for _, n := range arg.Vals {
			nodes = append(nodes, quota.NodeID(n))
		}
	}
	w.ledger = New(cfg, 0, quota.Term(term), "leader", nodes, w.limits, LinesOf(w.saved), w.now)
	return ""
}

func (w *world) member(name string) *fakeMember {
	if w.members[name] == nil {
		w.members[name] = &fakeMember{inc: 1, keys: map[string]*fakeKey{}}
	}
	return w.members[name]
}

// key returns the member's state of a key.
func (m *fakeMember) key(key string, now quota.Time) *fakeKey {
	k := m.keys[key]
	if k == nil {
		k = &fakeKey{epoch: 1, from: now}
		m.keys[key] = k
	}
	return k
}

func (w *world) report(t *testing.T, d *datadriven.TestData) string {
	name, key := d.CmdArgs[0].Key, "k"
	d.MaybeScanArgs(t, "key", &key)
	m := w.member(name)
	k := m.key(key, w.now)
	tokens := func(arg string) quota.Units {
		v := 0.0
		d.MaybeScanArgs(t, arg, &v)
		return quota.Units(math.Round(v * float64(quota.Token)))
	}
	k.accrue(w.now)
	used := tokens("used")
	if used > k.held {
		d.Fatalf(t, "%s holds %s only", name, show(k.held))
	}
	k.used, k.held, k.over, k.refused = k.used+used, k.held-used, k.over+tokens("over"), k.refused+tokens("refused")
	term := uint64(w.ledger.Term())
	d.MaybeScanArgs(t, "term", &term)
	e := k.entry(quota.Term(term))
	k.used, k.late = k.used+k.late, 0
	e.Key = quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: key}
	e.Want, e.Final = tokens("want"), d.HasArg("final")
	k.refunded += tokens("refunded")
	e.Refunded, e.InFlight = k.refunded, tokens("flight")
	if d.HasArg("window") { // all use was in the window of the last grant
		e.Window = k.grant.WindowStart
	}
	if e.Final {
		k.held, e.Held = 0, 0
	}
	if e.Learn != nil {
		e.Learn.Age = w.now.Sub(k.at)
	}
	m.seq++
	m.last = quota.Report{
		Term: quota.Term(term), From: quota.NodeID(name), Incarnation: m.inc, Seq: m.seq,
		Full: d.HasArg("full"), Entries: []quota.ReportEntry{e},
	}
	if d.HasArg("lost") {
		return w.send(m.last, nil) + "lost\n"
	}
	return w.send(m.last, m)
}

func (k *fakeKey) entry(term quota.Term) quota.ReportEntry {
	e := quota.ReportEntry{
		Epoch: k.epoch, Used: k.used, Overdrawn: k.over, Refused: k.refused, Held: k.held,
		Unreported: k.used + k.over - k.acked, Saved: k.saved,
	}
	switch {
	case k.term == term:
		e.Applied, e.AccruedTo = k.grant.Seq, k.from
	case k.term > 0:
		e.Learn = &quota.Learn{
			HasLevel: true, Level: k.grant.Level, Rate: k.grant.Rate, Cap: k.grant.Cap,
			LeaseLeft: k.at.Add(k.grant.Lease).Sub(k.from),
		}
	}
	return e
}

func (k *fakeKey) accrue(now quota.Time) {
	lease := k.at.Add(k.grant.Lease)
	got := accrued(k.grant.Rate, min(now, lease).Sub(k.from))
	k.held, k.from = k.held+min(got, max(0, k.grant.Cap-k.held)), now
	if k.grant.Lease > 0 && now >= lease {
		k.held, k.grant.Rate = 0, 0
	}
}

// send passes a report to the leader; the answer reaches m unless it is nil.
func (w *world) send(r quota.Report, m *fakeMember) string {
	g, err := w.ledger.Report(w.now, r)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var out strings.Builder
	for i := range g.Entries {
		e := g.Entries[i]
		if e.Closed {
			fmt.Fprintf(&out, "%s %s: closed, level %s\n", r.From, e.Key.Key, show(e.Level))
		} else if r.Entries[i].Final {
			fmt.Fprintf(&out, "%s %s: not saved, level %s\n", r.From, e.Key.Key, show(e.Level))
		} else {
			fmt.Fprintf(&out, "%s %s: %s tokens, rate %s/s, cap %s, level %s, others %s/s, again %v", r.From, e.Key.Key,
				show(e.Tokens), show(e.Rate), show(e.Cap), show(e.Level), show(e.Others), e.Again)
			if e.Central {
				out.WriteString(", central")
			}
			out.WriteString("\n")
		}
		if m != nil {
			m.keys[e.Key.Key].apply(e, g, &r.Entries[i])
		}
	}
	if len(g.Entries) == 0 {
		fmt.Fprintf(&out, "%s: no answer\n", r.From)
	}
	for _, g := range w.ledger.Pushed() {
		what := "recalled"
		if e := &g.Entries[0]; e.Announced {
			what = fmt.Sprintf("announced, level %v", show(e.Level))
		}
		fmt.Fprintf(&out, "%s %s: %s\n", g.To, g.Entries[0].Key.Key, what)
	}
	if w.ledger.Wants() {
		out.WriteString(w.checkpoint(true))
	}
	return out.String()
}

// recovered reports, from a member's process, the counts of its last process.
func (w *world) recovered(t *testing.T, d *datadriven.TestData) string {
	name, key, used, saved, before := d.CmdArgs[0].Key, "k", 0.0, 0.0, 0.0
	d.MaybeScanArgs(t, "key", &key)
	d.MaybeScanArgs(t, "used", &used)
	d.MaybeScanArgs(t, "saved", &saved)
	d.MaybeScanArgs(t, "before", &before)
	m := w.member(name)
	tokens := func(v float64) quota.Units { return quota.Units(math.Round(v * float64(quota.Token))) }
	m.seq++
	e := quota.ReportEntry{Key: theKey(key), Epoch: 1, Incarnation: m.inc - 1, Overdrawn: tokens(used), Saved: tokens(saved), Before: tokens(before)}
	if k := m.dead[key]; k != nil && d.HasArg("window") {
		e.Window = k.grant.WindowStart
	}
	r := quota.Report{Term: w.ledger.Term(), From: quota.NodeID(name), Incarnation: m.inc, Seq: m.seq, Entries: []quota.ReportEntry{e}}
	g, err := w.ledger.Report(w.now, r)
	switch {
	case err != nil:
		return "error: " + err.Error() + "\n"
	case len(g.Entries) == 0:
		return "no answer\n"
	case g.Entries[0].Saved >= e.Overdrawn:
		return "settled\n" + w.books()
	}
	return "booked\n" + w.books()
}

func (k *fakeKey) apply(e quota.GrantEntry, g quota.Grant, r *quota.ReportEntry) {
	if r != nil {
		k.acked = r.Used + r.Overdrawn
	}
	k.saved = e.Saved
	if e.Closed {
		*k = fakeKey{epoch: k.epoch + 1, from: g.At, term: g.Term, at: g.At, grant: quota.GrantEntry{Level: e.Level}}
		return
	}
	if r != nil && r.Final {
		return
	}
	k.held, k.from = k.held+e.Tokens, g.At
	k.grant, k.at, k.term = e, g.At, g.Term
}

// books prints every bucket: the free pool, and what each member may hold.
func (w *world) books() string {
	var out strings.Builder
	var keys []quota.Key
	for b := range w.ledger.buckets.all() {
		keys = append(keys, b.key())
	}
	slices.SortFunc(keys, quota.Key.Compare)
	for _, k := range keys {
		b := w.ledger.bucket(k)
		if b == nil { // its limit was removed
			continue
		}
		b.advance(w.now)
		fmt.Fprintf(&out, "%s: free %s, level %s", k.Key, show(b.pool.Level()), show(b.level()))
		for i := range b.allocations {
			al := &b.allocations[i]
			fmt.Fprintf(&out, "; %s at most %s, rate %s/s", al.node, show(al.standing()), show(al.charged))
		}
		out.WriteString("\n")
	}
	if out.Len() == 0 {
		return "no keys\n"
	}
	return out.String()
}

// checkpoint makes a checkpoint. If the log commits it, the ledger is notified and members get what
// they waited for.
func (w *world) checkpoint(taken bool) string {
	levels := w.ledger.Checkpoint(w.now, 100)
	if len(levels) == 0 {
		return "nothing moved\n"
	}
	var out strings.Builder
	for i := range levels {
		showLevel(&out, &levels[i])
	}
	if !taken {
		return out.String()
	}
	for i := range levels {
		levels[i].Applied = w.now
	}
	w.saved = levels
	for _, g := range w.ledger.Saved(w.now, w.ledger.Written()) {
		e := g.Entries[0]
		fmt.Fprintf(&out, "%s %s: then %s tokens, rate %s/s, level %s\n", g.To, e.Key.Key, show(e.Tokens), show(e.Rate), show(e.Level))
		w.member(string(g.To)).keys[e.Key.Key].apply(e, g, nil)
	}
	return out.String()
}

func showLevel(out *strings.Builder, kl *quota.KeyLevel) {
	fmt.Fprintf(out, "log %s: level %s", kl.Key.Key, show(kl.Level))
	if len(kl.Marks) == 0 {
		fmt.Fprintf(out, ", full in %v", kl.FullAt.Sub(kl.At))
	}
	if kl.Answers > 0 {
		fmt.Fprintf(out, "; the leader at most %s more for %v", show(kl.Answers), kl.AnswersUntil.Sub(kl.At))
	}
	for _, m := range kl.Marks {
		fmt.Fprintf(out, "; %s.%d used %s", m.Node, m.Incarnation, show(m.Used+m.Overdrawn))
		if m.Out > 0 || m.Rate > 0 {
			fmt.Fprintf(out, ", at most %s + %s/s more", show(m.Out), show(m.Rate))
		}
		if m.Dead {
			out.WriteString(", dead")
		}
	}
	out.WriteString("\n")
}

// show prints tokens with up to three decimal places.
func show(u quota.Units) string {
	return strconv.FormatFloat(math.Round(float64(u)/1000)/1000, 'f', -1, 64)
}
