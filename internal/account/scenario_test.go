package account

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/internal/quota"
)

// scenario is a world with several ranges, which datadriven files play on.
//
//	policy NAME [default=N] [limit=N] [units=N] [interval=N] [offset=N] [lifetime=DURATION]
//	purge NAME
//	clock HH:MM[:SS], pass DURATION
//	apply [range=N] [id=REQUEST] [by=IDENTITY] [ttl=DURATION]
//	begin|prepare range=N tx=X [home=N] [others=(N,...)] [id=REQUEST]
//	    NAME [DELTA] [policy=NAME] [to=zero|default|limit] [ignore] [nocap] [limitdelta]
//	decide range=N tx=X [commit] [results=N], finish range=N tx=X [commit], forget range=N tx=X
//	collect [range=N] [max=N]
//	get|history NAME... [range=N]
//	pending [range=N], decision [range=N] tx=X, stats [range=N], restart [range=N]
type scenario struct {
	*world
	stores map[quota.RangeID]*Store
}

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{world: newWorld(t), stores: map[quota.RangeID]*Store{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.run(d)
		})
	})
}

// arg returns an argument of a directive, or otherwise if it is missing.
func arg(d *datadriven.TestData, name, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

func (s *scenario) number(text string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scenario) duration(text string) time.Duration {
	s.t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *scenario) at(d *datadriven.TestData) (quota.RangeID, *Store) {
	r := quota.RangeID(s.number(arg(d, "range", "1")))
	if s.stores[r] == nil {
		s.stores[r] = New(Bounds{MaxAccounts: 6, MaxRequests: 4, MaxTx: 2})
	}
	return r, s.stores[r]
}

func txNamed(name string) TxID {
	var id TxID
	copy(id[:], name)
	return id
}

func (s *scenario) run(d *datadriven.TestData) string {
	r, store := s.at(d)
	tx := Tx{ID: txNamed(arg(d, "tx", "")), Home: quota.RangeID(s.number(arg(d, "home", "1")))}
	switch d.Cmd {
	case "policy":
		s.load(d.CmdArgs[0].Key, s.policy(d))
	case "purge":
		s.purge(testRef(d.CmdArgs[0].Key))
	case "clock":
		s.clock(d.CmdArgs[0].Key)
	case "pass":
		s.pass(s.duration(d.CmdArgs[0].Key))
	case "apply":
		return s.show(s.apply(store, Command{Apply: s.parse(d)}))
	case "begin":
		var others []quota.RangeID
		for o := range strings.SplitSeq(arg(d, "others", "2"), ",") {
			others = append(others, quota.RangeID(s.number(o)))
		}
		return s.show(s.apply(store, Command{Begin: &Begin{Tx: tx.ID, Home: r, Others: others, Part: *s.parse(d)}}))
	case "prepare":
		return s.show(s.apply(store, Command{Prepare: &Prepare{Tx: tx, Part: *s.parse(d)}}))
	case "decide":
		var results []Result
		for n := range s.number(arg(d, "results", "0")) {
			results = append(results, Result{New: n})
		}
		return s.show(s.apply(store, Command{Decide: &Decide{Tx: tx.ID, Commit: d.HasArg("commit"), Results: results}}))
	case "finish":
		return s.show(s.apply(store, Command{Finish: &Finish{Tx: tx.ID, Commit: d.HasArg("commit")}}))
	case "forget":
		return s.show(s.apply(store, Command{Forget: &tx.ID}))
	case "collect":
		s.apply(store, Command{Collect: &Collect{Max: int(s.number(arg(d, "max", "100")))}})
		return fmt.Sprintf("%+v\n", store.Stats())
	default:
		return s.look(d, r, store, tx)
	}
	return ""
}

// look runs the directives that change nothing.
func (s *scenario) look(d *datadriven.TestData, r quota.RangeID, store *Store, tx Tx) string {
	var out strings.Builder
	switch d.Cmd {
	case "get", "history":
		for _, a := range d.CmdArgs {
			if a.Key == "range" {
				continue
			}
			state := store.View().History(s.now, testID(a.Key))
			out.WriteString(s.state(&state, d.Cmd == "history"))
		}
	case "list":
		for _, state := range s.list(d, store) {
			fmt.Fprintf(&out, "%s %s %s %s: %d\n", state.ID.Identity, state.ID.Namespace, state.ID.Name, state.ID.Resource, state.Projected)
		}
	case "pending":
		for _, p := range store.View().Pending(10) {
			fmt.Fprintf(&out, "%s home=%d since=%s others=%v at home: %v, decided: %v, commit: %v\n",
				txName(p.Tx.ID), p.Tx.Home, s.moment(p.Since), p.Others, p.AtHome, p.Decided, p.Commit)
		}
	case "decision":
		p, known := store.View().Decision(tx.ID)
		return fmt.Sprintf("known: %v, decided: %v, commit: %v\n", known, p.Decided, p.Commit)
	case "stats":
		return fmt.Sprintf("%+v\n", store.Stats())
	case "restart":
		data := snapshotOf(s.t, store.View())
		other := New(Bounds{MaxAccounts: 6, MaxRequests: 4, MaxTx: 2})
		if err := other.Restore(bytes.NewReader(data)); err != nil {
			return err.Error()
		}
		s.stores[r] = other
	default:
		d.Fatalf(s.t, "unknown directive %q", d.Cmd)
	}
	return out.String()
}

func (s *scenario) list(d *datadriven.TestData, store *Store) []State {
	f := Filter{
		App: arg(d, "app", "cv"), Realm: arg(d, "realm", "chromium:try"),
		NamePrefix: arg(d, "prefix", ""), Resource: arg(d, "resource", ""),
	}
	if d.HasArg("identity") {
		v := arg(d, "identity", "")
		f.Identity = &v
	}
	if d.HasArg("namespace") {
		v := arg(d, "namespace", "")
		f.Namespace = &v
	}
	after := ID{}
	if d.HasArg("after") {
		after = testID(arg(d, "after", ""))
	}
	return store.View().List(s.now, f, after, int(s.number(arg(d, "limit", "10"))))
}

func (s *scenario) policy(d *datadriven.TestData) Policy {
	n := func(name string) int64 { return s.number(arg(d, name, "0")) }
	return Policy{
		Default: n("default"), Limit: n("limit"),
		Refill:   Refill{Units: n("units"), Interval: uint32(n("interval")), Offset: uint32(n("offset"))},
		Lifetime: s.duration(arg(d, "lifetime", "0s")),
	}
}

// parse makes a request from the lines of a directive.
func (s *scenario) parse(d *datadriven.TestData) *Request {
	var ops []Op
	for line := range strings.Lines(d.Input) {
		ops = append(ops, s.op(strings.Fields(line)))
	}
	r := s.request(arg(d, "by", "user:me"), arg(d, "id", ""), ops...)
	r.TTL = s.duration(arg(d, "ttl", "0s"))
	return r
}

func (s *scenario) op(words []string) Op {
	o := op(words[0], 0, nil)
	options := map[string]OpOptions{"ignore": IgnorePolicyBounds, "nocap": DoNotCapProposed, "limitdelta": WithPolicyLimitDelta}
	relations := map[string]RelativeTo{"zero": Zero, "default": Default, "limit": Limit}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case options[key] != 0:
			o.Options |= options[key]
		case key == "policy":
			o.Policy = testRef(value)
		case key == "to":
			o.RelativeTo = relations[value]
		case key == "resource":
			o.Account.Resource = value
		case key == "namespace":
			o.Account.Namespace = value
		default:
			o.Delta = s.number(word)
		}
	}
	return o
}

var (
	codeNames   = []string{"done", "repeated", "failed", "mismatched", "held", "full", "committed", "aborted"}
	statusNames = []string{"success", "unknown", "overflow", "underflow", "unknown policy", "missing account", "policy required"}
)

func (s *scenario) show(o Outcome) string {
	var b strings.Builder
	b.WriteString(codeNames[o.Code])
	if o.Code == Repeated {
		fmt.Fprintf(&b, ", applied at %s", s.moment(o.At))
	}
	if o.Holder != (Tx{}) {
		fmt.Fprintf(&b, " by %s of range %d", txName(o.Holder.ID), o.Holder.Home)
	}
	if o.Message != "" {
		b.WriteString(": " + o.Message)
	}
	b.WriteString("\n")
	for _, r := range o.Results {
		fmt.Fprintf(&b, "  %d -> %d", r.Previous, r.New)
		if r.Adjusted != r.Previous {
			fmt.Fprintf(&b, ", adjusted %d", r.Adjusted)
		}
		if r.Created {
			b.WriteString(", created")
		}
		if r.Status != Success {
			fmt.Fprintf(&b, ", %s: %s", statusNames[r.Status], r.Message)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func txName(id TxID) string { return strings.TrimRight(string(id[:]), "\x00") }

func (s *scenario) moment(t quota.Time) string {
	if t == 0 {
		return "never"
	}
	return time.Unix(0, int64(t)).UTC().Format("02 15:04:05")
}

func (s *scenario) state(a *State, history bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", a.ID.Name)
	if a.Exists {
		fmt.Fprintf(&b, "%d, projected %d, updated %s, refilled %s, next %s, expires %s",
			a.Balance, a.Projected, s.moment(a.Updated), s.moment(a.Refilled), s.moment(a.Next), s.moment(a.Expires))
		if a.Policy != nil {
			fmt.Fprintf(&b, ", policy %s since %s", a.Policy.Key.Name, s.moment(a.PolicySet))
		}
	} else {
		b.WriteString("none")
	}
	if a.Holder != (Tx{}) {
		fmt.Fprintf(&b, ", held by %s of range %d", txName(a.Holder.ID), a.Holder.Home)
	}
	b.WriteString("\n")
	for i := 0; history && i < len(a.History); i++ {
		c := a.History[i]
		fmt.Fprintf(&b, "  %s %s %s: %d -> %d", s.moment(c.At), c.By, cmp.Or(c.RequestID, "-"), c.Previous, c.New)
		if c.Policy != nil {
			fmt.Fprintf(&b, ", policy %s", c.Policy.Key.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}
