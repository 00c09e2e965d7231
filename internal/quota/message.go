package quota

import "time"

// NodeID identifies a node of the cluster.
type NodeID string

// RangeID identifies a range: a contiguous slice of the key-hash space.
type RangeID uint32

// Term is a Raft term of a range's group.
type Term uint64

// Seq is the sequence number of a message; 0 means none.
type Seq uint64

// Incarnation distinguishes processes of one node; later is larger.
type Incarnation uint64

// Report carries a member's counts to the leader of a range, for the keys that changed since the
// last report.
//
// (Incarnation, Seq) make it idempotent: Seq rises with every report of this member to this range,
// across terms, and counters are cumulative.
type Report struct {
	Range       RangeID
	Term        Term
	From        NodeID
	Incarnation Incarnation
	Seq         Seq
	// Full marks the last report of the list of all keys that the member has open in this range. A
	// member sends the list to each new leader, which then knows everything that the member knows.
	Full bool
	// Parts is the number of reports that carry the list: this one and those with the preceding
	// sequence numbers. A leader that missed one of them has an incomplete list.
	Parts uint32
	// Age is the time span for which all of the node's use in the range is known. It is the age of
	// the process, or longer if it inherited a complete journal.
	Age     time.Duration
	Entries []ReportEntry
}

// ReportEntry is one key of a Report. Used, Overdrawn and Refused count from the moment when the
// member opened the key (Epoch) and never fall within an epoch. Refunded restarts from 0 in each
// window.
type ReportEntry struct {
	Key       Key
	Epoch     Seq   // number of the opening; later is larger
	Used      Units // admitted out of held tokens
	Overdrawn Units // admitted beyond them (soft only)
	Refused   Units // cost of refused requests
	Charged   Units // part of Overdrawn that callers charged after the fact
	Alone     Units // part of Overdrawn that was admitted while cut off
	Refunded  Units // given back by callers since the opening or the window's start; counts as unused
	InFlight  Units // Concurrency: acquired and not released
	Held      Units // spendable now
	AccruedTo Time  // leader's time up to which Held includes the granted rate; before a grant: no later than the first of Refunded, or 0
	Stopped   bool  // the member no longer accrues from the grant that it applied
	Applied   Seq   // newest grant applied
	// Want is the demand that Held could not cover since the last report: the largest refused cost or the sum of the
	// costs for which callers wait.
	Want Units
	// Cost is the largest cost of one request that Held did not cover since the last report, if that is more than a
	// token. Only clients report it, to their node.
	Cost Units
	// Unreported is the part of Used+Overdrawn that no leader has acknowledged. A leader without a
	// record of this Epoch charges it.
	Unreported Units
	Final      bool // the member closes the key; Held is 0
	// Window is the start, on the leader's clock, of the window that Used and Overdrawn beyond
	// Before were charged to. Before is the value of their sum when the window began. Both are 0
	// for kinds without windows.
	Window Time
	Before Units
	// Cancelled lists decide requests (Ask.ID) about the key whose answer the member did not receive or did not use.
	// The leader reverses what it booked for them. The member repeats them until a report that lists them is
	// answered. At most MaxCancelled.
	Cancelled []Seq

	// Returned is the sum of held tokens that the member gave back since the opening. The leader may count on it.
	// Tokens that were neither used, held nor returned may have overflowed.
	Returned Units
	// Saved is the part of Used+Overdrawn that a leader has reported as committed.
	Saved Units
	// Incarnation is that of an earlier, dead process of the node whose counts the entry
	// carries: only Epoch, Overdrawn (the total), Refunded, Window, Before and Saved are set. 0 is
	// this process.
	Incarnation Incarnation

	// Learn reports the member's state from the previous leader to a new one. It is set until the new leader has
	// granted.
	Learn *Learn

	// Ref is the leader's number for the key, from a grant of this term and epoch; 0 means none. An
	// entry with Ref may omit Key. If the number does not belong to a key that this member has open
	// in this Epoch, the leader answers Unknown and books nothing.
	Ref uint32
}

// MaxCancelled bounds the cancelled requests in one entry; later reports carry the rest.
const MaxCancelled = 64

// EntrySize bounds the encoded size of a key's entry, in bytes, in reports and in grants.
func EntrySize(n LimitName, key string) int {
	return entryFields + len(n.Namespace) + len(n.Limit) + len(key)
}

// entryFields bounds the size of all fields except the names, if few requests are cancelled at once.
const entryFields = 384

// Learn is a member's state of a key from an earlier leader.
type Learn struct {
	HasLevel  bool          // Level and Age are valid
	Level     Units         // global level in the last grant
	Age       time.Duration // age of Level
	Rate      Units         // granted refill, Units per second
	Cap       Units         // accrual stops when the member holds this much
	LeaseLeft time.Duration // remaining validity of Rate and of held tokens
	// WindowEnd is the end, on the earlier leader's clock, of the window of Level; 0 for kinds
	// without windows.
	WindowEnd Time
}

// Grant is a leader's answer to a report: for each key, the tokens and the rate that the member may spend.
type Grant struct {
	Range RangeID
	Term  Term
	To    NodeID
	From  NodeID
	At    Time // leader's time; rates accrue from here
	// Incarnation is that of the answered report; other processes of the member ignore the grant. 0 means any: then
	// no entry has Line.
	Incarnation Incarnation
	Entries     []GrantEntry
}

// GrantEntry is one key of a Grant.
type GrantEntry struct {
	Key    Key
	Epoch  Seq           // echoes the report's
	Seq    Seq           // number of this grant to this member for this key
	Ack    Seq           // report that it answers
	Tokens Units         // added to the member's held tokens
	Rate   Units         // refill from Grant.At on, Units per second
	Cap    Units         // accrual stops when the member holds this much
	Lease  time.Duration // from Grant.At: then Rate ends and held tokens expire
	Level  Units         // tokens that the whole cluster could still spend; negative is debt
	Free   Units         // part of Level that no member holds or that was recalled: available on request
	Unseen Units         // estimated part of Level that other members have used since their last reports
	Others Units         // demand of the other members, Units per second
	Again  time.Duration // report again within this time if anything changed
	// WindowStart and WindowEnd bound, on the leader's clock, the window that Tokens and Level belong to. Held tokens
	// expire at WindowEnd. Both are 0 for kinds without windows.
	WindowStart, WindowEnd Time
	Slope                  Units // gain of Level per second without demand
	Closed                 bool  // answers Final: the leader has removed the member
	// Burst is that of the limit by which Level was counted. A member with another version of the
	// limits derives the use in a window from it: Burst less Level. 0 means the member's own.
	Burst Units
	// Saved is the part of the report's Used+Overdrawn that is committed to the range's log, so
	// that every later leader knows it. Durable limits only. A member closes the key only when
	// everything is saved.
	Saved       Units
	Incarnation Incarnation // echoes an entry of an earlier process; 0 is this one
	// Recall asks the member to report now and to return what it does not need, because other
	// members are short. The entry grants nothing.
	Recall bool
	// Announced says that the key is used up, or no longer, for members that have it closed: they take over Level and
	// the window. The entry answers no report and grants nothing.
	Announced bool
	// Central says that the leader decides each check that it could admit, because there are too few tokens to
	// divide. Members of a hard limit ask it anyway.
	Central bool
	// Credit is the most that a client process may overdraw until its next grant. The credits of all clients of a
	// node add up to less than Level. Nodes get none and need none.
	Credit Units
	// Aside is the part that Level excludes because a node that has not reported to this leader
	// may have used or may hold it, after the death of an earlier leader or of the node. Hard
	// limits only. It ends when the node reports, or within one or two leases. The true level is
	// between Level and Level+Aside.
	Aside Units

	// Line is the position in report Ack of the entry that is answered, from 1; 0 if none is. With
	// it Key and Epoch may be missing.
	Line uint32
	// Ref is the number by which the member may name the key from now on, in this term and epoch; 0
	// changes nothing.
	Ref uint32
	// Unknown says that the report's Ref is unknown to the leader: the member reports the key again
	// by name. The entry grants nothing.
	Unknown bool
}

// Why is the reason for a decision. Its words are part of the API.
type Why uint8

// The values of Why.
const (
	WhyUnknown         Why = iota
	WhyHeld                // admitted out of tokens that the node holds
	WhyEstimate            // soft: admitted, or refused as WhyOverLimit, by the estimated global level
	WhyLocal               // cut off from the leader: the node applies the whole limit by itself
	WhyOverLimit           // refused: the global limit is used up
	WhyOverBurst           // refused for good: the cost can never fit
	WhyNotHeld             // hard: the node holds too little at the moment
	WhyCutOff              // cut off from the leader, and nothing is held or the policy is closed
	WhyTooManyKeys         // no room for the key, and it may not share a bucket: soft admits, hard refuses
	WhyNoLimit             // no such limit
	WhyReserved            // admitted out of future tokens: the caller has to wait
	WhyWaitTooLong         // refused: the wait would be too long
	WhyOverMaxCost         // refused for good: the cost exceeds max_cost
	WhyUnlimited           // the limit or an override admits everything
	WhyBanned              // the limit or an override refuses everything
	WhyLeader              // decided by the range's leader
	WhyShare               // cut off from the leader: the node's last share of the rate
	WhyOpen                // cut off from the leader: everything is admitted
	WhyFixedRate           // cut off from the leader: a fixed rate per node
	WhyNotEnforced         // enforcement is off
	WhyFloor               // admitted out of the floor although a parent is used up
	WhyParentOverLimit     // refused: a parent is used up
	WhyUseAcquire          // refused for good: a concurrency limit is acquired and released, not checked
	WhyFailover            // refused: the range has no leader, or a new one has set aside tokens that nodes may hold
)

// whyWords are the words used in JSON, logs and metrics.
var whyWords = [...]string{
	"unknown", "held", "estimate", "local", "over_limit", "over_burst", "not_held", "cut_off", "too_many_keys", "no_limit",
	"reserved", "wait_too_long", "over_max_cost", "unlimited", "banned", "leader", "share", "open", "fixed_rate",
	"not_enforced", "floor", "parent_over_limit", "use_acquire", "failover",
}

// String returns the word used in JSON, logs and metrics.
func (w Why) String() string { return word(whyWords[:], uint8(w)) }

// Whys returns all values of Why, so that metrics can export every label from the start.
func Whys() []Why {
	out := make([]Why, 0, len(whyWords)-1)
	for w := range whyWords[1:] {
		out = append(out, Why(w+1))
	}
	return out
}

// Spend is a check whose limit is already resolved.
type Spend struct {
	Key  string
	Cost int64 // tokens
}

// Decision is the answer to one check.
type Decision struct {
	Allowed bool
	Why     Why
	Limit   *Limit // deciding rule; nil for WhyNoLimit
	// Shadow reports that the request passed only because its limit is not enforced. Near reports
	// that the level is at or below the limit's near mark.
	Shadow, Near bool
	// Tier is the number of the deciding tier of Limit, from 1.
	Tier int
	// Wait is how long the caller must wait before it proceeds: its tokens are reserved.
	Wait time.Duration
	// ResetAfter is the time until the deciding tier is full without requests: for a window, until its end.
	ResetAfter time.Duration
	// Remaining is the estimated global level after this decision, in whole tokens, 0 to Burst, as
	// far as use is known. Under WhyFailover and WhyCutOff other nodes may have used tokens that
	// this node does not know of.
	Remaining int64
	// RetryAfter is 0 if allowed, otherwise the time until the same cost could pass without other requests;
	// math.MaxInt64 if never.
	RetryAfter time.Duration
}

// KeyLevel is the level of one key's bucket at a moment, as stored in a checkpoint.
type KeyLevel struct {
	Key    Key
	Level  Units // negative is debt
	At     Time  // wall clock of the leader that wrote it
	FullAt Time  // when the bucket is full again without use
	// WindowStart is the start of the window that contains At, and Period its length; 0 for kinds without windows.
	WindowStart Time
	Period      time.Duration
	// Slope is the gain per second: what a sliding window returns of the one before it, and the rate of a hard token
	// bucket.
	Slope Units
	// Marks hold the use booked for each member, for durable limits. Level assumes no use beyond them.
	Marks []Mark
	// Full is the limit's burst when the line was written; 0 if unknown. Like Period and Slope, it shows the next leader
	// how the level was counted: the limit may have changed since.
	Full Units
	// Implicit is the most that every node may hold or have used beyond its mark: the implicit grant.
	Implicit Units
	// Answers is the most that the leader which wrote the level may admit beyond it until AnswersUntil, for hard
	// limits that the leader decides.
	Answers      Units
	AnswersUntil Time
	// Applied is when the reading replica applied the entry, by its own clock, so after At; 0 if
	// unknown. It is not part of the log.
	Applied Time
}

// MaxSize bounds the encoded size in bytes, in a log or a snapshot: ten bytes for each number (the
// longest varint) and one or two for its field tag.
func (l *KeyLevel) MaxSize() int {
	size := 160 + len(l.Key.Namespace) + len(l.Key.Limit) + len(l.Key.Key)
	for i := range l.Marks {
		size += 128 + len(l.Marks[i].Node)
	}
	return size
}

// Mark is the state of one process of a member in a checkpoint.
type Mark struct {
	Node        NodeID
	Incarnation Incarnation
	Epoch       Seq
	// Used, Overdrawn and Refunded are the booked counts of this epoch; see ReportEntry.
	Used, Overdrawn, Refunded Units
	// Out is the most that the member may use beyond that, Rate its gain per second from KeyLevel.At until Until, and
	// Cap the most that the member may hold at one moment. Hard only: a leader grants more only after it has
	// committed more.
	Out, Rate, Cap Units
	Until          Time
	Dead           bool // the process is known to be dead
}

// KeyRate is the traffic of one key as measured by its range's leader.
type KeyRate struct {
	Key    Key
	Rate   float64 // admitted tokens per second, averaged over a few seconds
	Demand float64 // attempted tokens per second, averaged likewise
	// Utilisation is Demand divided by the refill rate; for Concurrency, the use in flight divided by the limit.
	// Above 1 requests are refused, or in debt.
	Utilisation float64
	Attempted   int64 // tokens, since the leader first saw the key in this term
	Admitted    int64
	Refused     int64
	Remaining   int64 // global level, whole tokens, 0 to burst
	Members     int   // members that report the key now
	// OverAdmitted, Needless and NeedlessAtMost are as in LiveError, for this key.
	OverAdmitted, Needless, NeedlessAtMost Units
	Limit                                  *Limit
}

// Ask is a member's decide request to the leader of a range, for limits that the leader decides and
// for reservations of future tokens.
type Ask struct {
	// From, Incarnation and ID identify the request, so that a repetition is answered as before. An incarnation never
	// reuses an ID. A request with ID 0 is decided again each time that it arrives, and cannot be cancelled.
	From        NodeID
	Incarnation Incarnation
	ID          Seq

	Key     Key
	Cost    Units         // negative gives an admitted cost back
	Held    Units         // part of Cost that the member spends of its own tokens: the leader books the rest
	MaxWait time.Duration // longest useful wait; 0 means no wait
	// Overdrawn is the member's overdraft since its last answered report, as far as callers may have charged it after the
	// fact: a check that follows a charge finds it booked. Reports that have no answer yet book it.
	Overdrawn Units
}

// Booked is the part of the cost that the leader books.
func (a *Ask) Booked() Units { return a.Cost - a.Held }

// Answer is a leader's reply to an Ask.
type Answer struct {
	Term       Term
	At         Time // leader's time of the decision
	Allowed    bool
	Why        Why
	Wait       time.Duration
	Level      Units // after the decision
	RetryAfter time.Duration
	ResetAfter time.Duration
	Aside      Units // as in GrantEntry
	// Level includes Used (Used+Overdrawn of a ReportEntry) and Refunded of this opening of the key by the requester.
	Epoch          Seq
	Used, Refunded Units
	// WindowStart is the start of the deciding window, on the leader's clock; 0 if the limit has
	// none.
	WindowStart Time
	// Report reports that the requester counts the admitted cost as its own use, and reports it.
	Report bool
	// Unsaved reports that the leader cannot decide before a checkpoint is committed: ask again
	// after the next one. It is not sent to members.
	Unsaved bool
}
