package mutation

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/testspeed"
)

// fault is a fault of the first version: the change takes out what mends it, and the test must then fail.
type fault struct {
	mutation
	pkg, test string
}

// review are the faults that a review proved in the first version, by what went wrong for users.
var review = []fault{
	// Counts.
	{mutation{"a client with more than 4096 keys loses counts when it changes its node", "api/attach.go", "r.Full = part == parts\n", "r.Full = true\n"}, "./systemtest", "TestClientsManyKeys"},
	{mutation{"a client's last report counts as settled although a part of it was lost", "cluster/clients/settle.go", "l.incomplete || m.Part != len(l.parts)+1 ||", "l.incomplete ||"}, "./cluster", "TestSettlementParts"},
	{mutation{"a client with long keys loses its node again and again", "aggregator/buffer.go", "|| l.bytes+bytes > maxReport {", "{"}, "./aggregator", "TestReportsAreBounded"},
	{mutation{"after refusals of large amounts a limit of bytes admits nothing any more", "internal/quota/units.go", "return min(u.Plus(v), Most)", "return u + v"}, "./internal/sim", "TestLargestAmounts"},
	{mutation{"refusals of large amounts fill a key's counters, and later ones reach no leader", "aggregator/collect.go", "	return max(b.counts().attempted(), b.refunded) > fullCounters\n", "	return false\n"}, "./aggregator", "TestFullCountersRestart"},
	{mutation{"one node admits too much where costs are mixed", "aggregator/decide.go", "	beyond := b.spend(cost)\n", "	beyond := cost\n"}, "./internal/sim", "TestMixedCosts"},

	// Hard limits.
	{mutation{"hard: a living node behind a stopped proxy keeps spending a rate that others have got", "leader/ledger.go", "before: math.MaxUint64, died: now, soft: true})", "before: math.MaxUint64, died: now})"}, "./internal/sim", "TestRefusalIsNoDeath"},
	{mutation{"hard: a reservation of an ended window raises the next one", "cluster/dataplane/reserve.go", "d.agg.RefundTaken(d.now, q.Key.LimitName, q.Key.Key, q.Cost-used, v.taken)", "d.agg.Refund(d.now, q.Key.LimitName, q.Key.Key, q.Cost-used)"}, "./cluster", "TestReserveInAnEndedWindow"},
	{mutation{"hard: one leader with a clock ahead makes the log forget levels, and a window is granted twice", "cluster/replica/levels.go", "ls.put(kl, applied, ls.now+max(0, kl.FullAt-at))", "ls.put(kl, applied, kl.FullAt)"}, "./cluster/replica", "TestCheckpointOfClockAhead"},
	{mutation{"a node that starts with a clock hours ahead keeps it for days", "cluster/clock/compare.go", "	c.Set()\n	return true\n", "	return true\n"}, "./cluster", "TestClockOfOneAhead"},
	{mutation{"hard: a new leader believes a list of which a part was lost", "leader/ledger.go", "r.Full && m.completeFrom >", "r.Full && false && m.completeFrom >"}, "./internal/sim/rules", "TestListWithoutAPart"},
	{mutation{"hard: a machine wakes from suspend and spends tokens that others have got", "internal/elapsed/elapsed.go", "		c.slept.Store(slept)\n", ""}, "./internal/sim", "TestSuspendedMachine"},

	// The log.
	{mutation{"a range with long keys and many nodes writes no more checkpoints", "cluster/replica/checkpoint.go", " || size >= leader.MaxCheckpoint", ""}, "./cluster/replica", "TestLargeCheckpoint"},
	{mutation{"a replica cannot read its own snapshot", "cluster/replica/levels.go", "size > most && n > 0", "size > most && false"}, "./cluster/replica", "TestLargeSnapshot"},

	// Accounts.
	{mutation{"one leader with a clock ahead makes accounts forget request IDs, and a repeated deposit is booked twice", "cluster/accounts/replica.go", "	if agreed {\n		return max(clock, log)", "	if agreed || clock > log {\n		return max(clock, log)"}, "./cluster/accounts", "TestClockOfTheLeaderAhead"},
	{mutation{"a call whose answer is lost is carried out again", "cluster/accounts/errors.go", "	return fmt.Errorf(\"%w: %w\", errUnknown, err)\n}\n\n// faultOf", "	return fmt.Errorf(\"%w: %w\", errNotLeader, err)\n}\n\n// faultOf"}, "./cluster/accounts", "TestAnswerLost"},
	{mutation{"an answer does not fit into a frame", "cluster/accounts/queue.go", "(bytes > maxBatchBytes || answer > maxAnswerBytes)", "(bytes > maxBatchBytes)"}, "./cluster/accounts", "TestLargeAnswers"},
	{mutation{"stale reads time out on nodes without a replica", "cluster/accounts_node.go", "	return g != nil && slices.Contains(g.Members(), raftgroup.Member{ID: n.cfg.Self, Voter: true})\n", "	return g == nil || slices.Contains(g.Members(), raftgroup.Member{ID: n.cfg.Self, Voter: true})\n"}, "./cluster", "TestStaleReadElsewhere"},

	{mutation{"a stale read of a range whose replicas are not known stops the node", "cluster/accounts/readrequest.go", "; len(others) > 0 {", "; others != nil || true {"}, "./cluster/accounts", "TestStaleReadOfNobody"},

	// Load.
	{mutation{"a busy new leader gets every report again before it has read it", "aggregator/collect.go", "	return max(min(first<<min(b.tries, 4), a.retryAfter()), min(4*rt.trip(), most))\n", "	return min(first<<min(b.tries, 4), a.retryAfter(), most)\n"}, "./internal/sim", "TestNewLeaderIsNotOverrun"},
	{mutation{"a late new leader gets a list of all keys every 0.3 s", "aggregator/collect.go", "	return min(max(a.retryAfter(), 4*rt.trip())<<min(max(0, rt.full.times-4), 10), max(a.cfg.Lease, a.retryAfter()))\n", "	return a.retryAfter()\n"}, "./aggregator", "TestTellsBacksOff"},
	{mutation{"a busy leader reads reports that later ones have replaced", "cluster/replica/reports.go", "			if r.Incarnation == l.first.Incarnation { // a process repeats only its own reports", "			if r.Incarnation == l.first.Incarnation && false {"}, "./cluster/replica", "TestDropSuperseded"},
	{mutation{"nodes whose answers take longer than 0.3 s repeat every report without end", "aggregator/collect.go", "	return max(min(first<<min(b.tries, 4), a.retryAfter()), min(4*rt.trip(), most))\n", "	return min(first<<min(b.tries, 4), a.retryAfter(), most)\n"}, "./internal/sim", "TestAnswersThatTakeLong"},
	{mutation{"the answers of a late new leader count for nothing", "aggregator/apply.go", "slices.Contains(rt.full.ends[:], g.Entries[0].Ack)", "slices.Contains([]quota.Seq{rt.full.last()}, g.Entries[0].Ack)"}, "./aggregator", "TestAnyAnswerEndsTelling"},
	{mutation{"idle nodes report that they hold nothing, many times a second", "cluster/replica/replica.go", "len(g.Entries) > 0 || in.Full, r.ledger.Wants()", "len(g.Entries) > 0, r.ledger.Wants()"}, "./cluster", "TestIdleNodesAreSilent"},
	{mutation{"a node keeps every key that a client names, of limits that do not exist too", "cluster/clients/updates.go", "open := answered && !e.Final; {", "open := !e.Final; {"}, "./cluster", "TestClientNamesNoLimits"},

	// Abuse.
	{mutation{"a caller settles the reservations of others", "api/reserve.go", "		if err := s.Require(ctx, p, ns); err != nil {\n			return err\n		}\n	}\n	return nil\n}\n\n// Settle implements", "		if err := s.Require(ctx, p, ns); err == nil {\n			return nil\n		}\n	}\n	return nil\n}\n\n// Settle implements"}, "./api/rest", "TestReservationOfOthers"},
	{mutation{"a caller guesses the handles of others", "cluster/dataplane/reserve.go", "	_, _ = rand.Read(id[:]) // never fails\n", "	_, _ = rand.Read(id[15:])\n"}, "./cluster", "TestHandles"},
	{mutation{"a stranger's HTTP bodies fill the memory", "api/rest/bodies.go", "http.MaxBytesReader(w, req.Body, maxAnonymousBody)", "req.Body"}, "./api/rest", "TestStrangersBodies"},
	{mutation{"a stranger's body is read before its caller may make the call", "api/rest/guard.go", "		if err != nil {\n			v.Failed = err\n", "		if err != nil {\n			for room := make([]byte, 4096); ; {\n				if _, end := req.Body.Read(room); end != nil {\n					break\n				}\n			}\n			v.Failed = err\n"}, "./api/rest", "TestStrangersBodies"},
	{mutation{"a stranger's many HTTP bodies fill the memory together", "api/rest/bodies.go", "	if full := b.pool.TryAcquire(b.owner, n); full != fairshare.NotFull {", "	if full := b.pool.TryAcquire(b.owner, n); full != fairshare.NotFull && false {"}, "./api/rest", "TestStrangersBodies"},
	{mutation{"a stranger's gRPC messages fill the memory", "api/grpcapi/anonymous.go", "	if n > MaxAnonymousMessage {", "	if n > 4<<20 {"}, "./api/rest", "TestStrangersMessages"},
	{mutation{"a stranger opens any number of health watches", "api/grpcapi/anonymous.go", "s.anonymous.byConnection.TryAcquire(connection, 1) != fairshare.NotFull {", "s.anonymous.byConnection.TryAcquire(connection, 0) != fairshare.NotFull {"}, "./api/rest", "TestStrangersWatches"},
	{mutation{"a stranger's failed joins push changes out of the audit log", "internal/audit/log.go", "e.Attempt || e.Result != OK && !e.MayBeDone", "e.Attempt || e.Result == Denied && !e.MayBeDone"}, "./api/rest", "TestStrangersDoNotEraseTheAuditLog"},
	{mutation{"a caller's long request IDs fill the audit log", "internal/audit/log.go", "	e.RequestID = phrase.Clip(e.RequestID, maxRequestID)\n", ""}, "./internal/audit", "TestRequestIDIsBounded"},
	{mutation{"a client that reports more use than it was lent closes a key for years", "internal/clientledger/allocation.go", "total := min(e.Used, al.given)", "total := e.Used"}, "./internal/clientledger", "TestForgedReports"},
	{mutation{"a client that reports or settles absurd overdrafts closes a key for years", "aggregator/allocate.go", "	s.bound(b.allocatedFor(s), left, l, a.nodes())\n", ""}, "./internal/clientledger", "TestForgedSettlements"},
	{mutation{"the settlement of a session that never was counts as that of a session to a dead node", "internal/clientledger/final.go", "		return fmt.Errorf(\"%v: %w\", at, ErrUnknown)\n", "		return fmt.Errorf(\"%v: %w\", at, ErrForgotten)\n"}, "./internal/clientledger", "TestForgedSettlements"},
	{mutation{"a client charges and refunds keys of the global default without permission", "api/attach.go", "			if (e.Charged > 0 || e.Refunded > 0) && !a.mayReport(e.Key.Namespace) {", "			if (e.Charged > 0 || e.Refunded > 0) && false {"}, "./api/rest", "TestAttachGlobal"},
	{mutation{"a flood of keys of one limit takes the room of all others at a node", "aggregator/table.go", "	return quota.HasRoom(size-1, t.maxKeys, s.all.Load()-1, s.fair.Load())\n", "	return size <= t.maxKeys\n"}, "./aggregator", "TestFloodOfKeys"},
	{mutation{"a flood of keys of a limit takes the room of all others at their leader", "leader/ledger.go", "	return quota.HasRoom(int64(l.buckets.size), most, l.keys[n.Sharer()], l.limits.Share(n, most))\n", "	return int64(l.buckets.size) < most\n"}, "./leader", "TestFloodOfKeys"},
	{mutation{"a user takes the identity of any address that the issuer has not verified", "api/auth/oidc.go", "claims[\"email_verified\"] != true {", "claims[\"email_verified\"] == false {"}, "./api/auth", "TestEmailIsVerified"},
	{mutation{"a removed node joins again with its old certificate", "cluster/membership/apply.go", "	} else if err := t.NeedsToken(quota.NodeID(m.GetId())); err != nil {", "	} else if err := t.NeedsToken(quota.NodeID(m.GetId())); err != nil && false {"}, "./cluster/membership", "TestRemovedNeedsToken"},
	{mutation{"a joining node names the address of another service", "cluster/membership/join.go", "	if s.cfg.TLS == nil {\n		return nil\n	}\n	config", "	if s.cfg.TLS == nil || true {\n		return nil\n	}\n	config"}, "./systemtest", "TestRemovedNode"},
	{mutation{"a page that points its own name at a node calls it (DNS rebinding)", "api/rest/hosts.go", "	if r.Guard != nil || r.hosts.has(req.Host) {", "	if r.Guard != nil || r.hosts.has(req.Host) || true {"}, "./api/rest", "TestOtherHosts"},
	{mutation{"a key sets the title of the operator's terminal", "internal/cli/server/dev.go", "phrase.Show(top.Key), top.Demand", "top.Key, top.Demand"}, "./internal/cli/server", "TestFlowIsPlain"},
	{mutation{"a key in JSON controls the terminal that shows it", "internal/jsontext/jsontext.go", "	case r <= 0x9f, r == 0x061c,", "	case r == 0x061c,"}, "./internal/jsontext", "TestEscape"},
	{mutation{"a page of another site refunds and reserves with the user's certificate", "api/rest/crossorigin.go", "	case guarded && rule.Proxied:", "	case guarded && !rule.Audited:"}, "./api/rest", "TestFromOtherSites"},
	{mutation{"a page of another site uses up limits of a node without authentication", "api/rest/crossorigin.go", "	case guarded && rule.Proxied:", "	case rule.Proxied:"}, "./api/rest", "TestFromOtherSites"},
	{mutation{"a key becomes a formula in a spreadsheet", "internal/history/export/export.go", "	return \"'\" + s\n", "	return s\n"}, "./internal/history/export", "TestFormulas"},
	{mutation{"one user's sign-ins sign all others out", "internal/console/session.go", "	if count[owner] < maxOfOne {", "	if true {"}, "./internal/console", "TestSessionsAreBounded"},
	{mutation{"one caller holds all watchers of a node", "api/watchers.go", "	return fairshare.New(total, total/4)\n", "	return fairshare.New(total, total)\n"}, "./api/rest", "TestWatchersAreShared"},
	{mutation{"one caller holds all places for clients of a node", "cluster/clients/service.go", "places: fairshare.NewPerFree(Max)", "places: fairshare.New(Max, Max)"}, "./cluster", "TestClientShares"},
	{mutation{"other users of the machine read snapshots", "cluster/raftgroup/privatesnapshots.go", "0o600: filepath.Join(id, \"*\")", "0o644: filepath.Join(id, \"*\")"}, "./cluster/raftgroup", "TestSnapshotsArePrivate"},
	{mutation{"a node without TLS that all machines reach says so only in passing", "internal/cli/server/guard.go", "		log.Warn(\"DANGER: ports reachable from other machines have no TLS", "		log.Info(\"ports reachable from other machines have no TLS"}, "./internal/cli/server", "TestWarnOpen"},
	{mutation{"the issuer's keys come over HTTP", "api/auth/fetches.go", "	if req.URL.Scheme != \"https\" && !loopback(req.URL.Hostname()) {", "	if req.URL.Scheme != \"https\" && req.URL.Scheme != \"http\" {"}, "./api/auth", "TestKeysComeOverHTTPS"},
	{mutation{"a browser may call a node with TLS over HTTP", "api/rest/mount.go", "		w.Header()[\"Strict-Transport-Security\"] = strictTransport\n", ""}, "./api/rest", "TestStrictTransport"},
}

// TestReviewFits checks that each change still fits the sources.
func TestReviewFits(t *testing.T) {
	for i := range review {
		fit(t, []mutation{review[i].mutation})
	}
}

// TestReview takes one mend out after the other, and runs the test that must then fail, and passes
// without the change. It takes half an hour: make mended-faults runs it. One alone:
//
//	MUTATIONS=1 TEST_SPEED=full go test -v -run '^TestReview$/a_replica_cannot_read_its_own_snapshot' ./internal/mutation
func TestReview(t *testing.T) {
	rows := newTable(t)
	testspeed.Full(t)
	tests := map[string][]string{}
	for i := range review {
		f := &review[i]
		t.Run(f.name, func(t *testing.T) {
			says := f.message(t)
			rows.add(f.name, "`"+f.file+"`", "`"+f.test+"` in `"+f.pkg+"`", "`"+says+"`")
		})
		if !slices.Contains(tests[f.pkg], f.test) {
			tests[f.pkg] = append(tests[f.pkg], f.test)
		}
	}
	t.Run("without a change", func(t *testing.T) {
		for pkg, names := range tests {
			if out, err := goWith("", "test", "-count=1", "-timeout=10m", "-run=^("+strings.Join(names, "|")+")$", pkg); err != nil {
				t.Errorf("%s: %v\n%s", pkg, err, out)
			}
		}
	})
	rows.write(t)
}

// testMessage matches the first line of a message of a test, or of a panic.
var testMessage = regexp.MustCompile(`(?m)^(?: +\w+_test\.go:\d+: (.+)|(panic: .+))$`)

// message runs the test with the change, and returns the first message of its failure.
func (f *fault) message(t *testing.T) string {
	overlay, err := f.overlay(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out, err := goWith("-overlay="+overlay, "test", "-count=1", "-timeout=5m", "-run=^"+f.test+"$", f.pkg)
	found := testMessage.FindStringSubmatch(out)
	if err == nil || found == nil || strings.Contains(out, "panic: test timed out") {
		t.Errorf("%s does not fail as it should: %v\n%s", f.test, err, out)
		return "not found"
	}
	return phrase.Clip(strings.NewReplacer("|", "/", "`", "'").Replace(found[1]+found[2]), 150)
}
