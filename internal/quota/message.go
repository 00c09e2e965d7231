package quota

import "time"

// NodeID names a node of the cluster.
type NodeID string

// RangeID numbers a range: a contiguous slice of the key-hash space.
type RangeID uint32

// Term is a Raft term of a range's group.
type Term uint64

// Seq numbers messages; 0 is none.
type Seq uint64

// Incarnation tells one life of a process from the next; later is larger.
type Incarnation uint64

// Report is what a member tells the leader of a range: what it counted since
// the last one, for the keys that changed.
//
// (Incarnation, Seq) make it idempotent: Seq rises with every report of this
// member to this range, across terms; counters are cumulative.
type Report struct {
	Range       RangeID
	Term        Term
	From        NodeID
	Incarnation Incarnation
	Seq         Seq
	// Full ends the list of everything that the member has open in this range,
	// which it sends to a new leader (in one report or several): the leader has
	// then learned all that this member knows.
	Full bool
	// Parts is the number of reports that carry that list: this one and those with the
	// preceding sequence numbers. A leader that missed one of them has an incomplete list.
	Parts uint32
	// Age is for how long all that the node used in the range is known, or told by
	// this process: its own age, or longer where it inherited a whole journal.
	Age     time.Duration
	Entries []ReportEntry
}

// ReportEntry is one key of a Report. Used, Overdrawn and Refused count from
// the moment the member opened the key (Epoch); they never fall within it. Refunded counts from 0
// again in each window.
type ReportEntry struct {
	Key       Key
	Epoch     Seq   // which opening of the key; larger is later
	Used      Units // admitted out of held tokens
	Overdrawn Units // admitted beyond them (soft only)
	Refused   Units // cost of what was refused
	Charged   Units // part of Overdrawn that callers charged after the fact
	Alone     Units // part of Overdrawn that was admitted while cut off
	Refunded  Units // given back by callers, in a window since that began; counts as never used
	InFlight  Units // Concurrency: acquired and not released now
	Held      Units // spendable now
	AccruedTo Time  // leader's time up to which Held includes the granted rate
	Stopped   bool  // the member accrues nothing more out of the grant that it applied
	Applied   Seq   // newest grant applied
	// Want is what Held could not pay since the last report: the largest cost
	// that was refused, or (soft) the sum of what callers wait for.
	Want Units
	// Unreported is the part of Used+Overdrawn that no leader has acknowledged:
	// what a leader without a record of this Epoch has to charge.
	Unreported Units
	Final      bool // the member lets go of the key; Held is 0
	// Window is the start of the window, on the leader's clock, that Used and
	// Overdrawn beyond Before were charged to; 0 for kinds without windows. Before
	// is what they were when it began.
	Window Time
	Before Units
	// Abandoned are questions (Ask.ID) of this member about the key that came to
	// nothing: it has not heard, or not used, what the leader answered, and has
	// decided otherwise. The leader takes back what it has booked for them. They
	// are named until a report that names them is answered. At most MaxAbandoned.
	Abandoned []Seq

	// Returned is what the member gave back of what it held, since the opening: it
	// is certain to come back. What neither was used, is held nor was returned may
	// have overflowed.
	Returned Units
	// Saved is the part of Used+Overdrawn that a leader has said to be committed.
	Saved Units
	// Life says that the entry is about an earlier process of the node, which had
	// counted this when it died: Epoch, Overdrawn (all of it), Refunded, Window,
	// Before and Saved are set, nothing else. 0 is this process.
	Life Incarnation

	// Learn is what a new leader needs to take over. It is set until that leader
	// has granted.
	Learn *Learn

	// Ref is the leader's number for the key, as it told in a grant of this term and
	// epoch; 0 is none. With it Key may be missing: where the number is not of a key
	// that this member has open in this Epoch, the leader says so and books nothing.
	Ref uint32
}

// MaxAbandoned bounds the abandoned questions in one entry; the rest come with
// later reports.
const MaxAbandoned = 64

// EntrySize bounds the encoded size of a key's entry, in bytes, in reports and in grants.
func EntrySize(n LimitName, key string) int {
	return entryFields + len(n.Namespace) + len(n.Limit) + len(key)
}

// entryFields bounds the bytes of all fields but the names, unless many questions are abandoned at once.
const entryFields = 384

// Learn is what a member knows of a key that an earlier leader told it.
type Learn struct {
	Told      bool          // whether Level and Age are known
	Level     Units         // global level as last told
	Age       time.Duration // how long ago that was true
	Rate      Units         // granted refill, Units per second
	Cap       Units         // where accrual stops
	LeaseLeft time.Duration // how long Rate and Held last
	// WindowEnd is when the window of Level ends on the earlier leader's clock; 0
	// for kinds without windows.
	WindowEnd Time
}

// Grant is what a leader answers: what each key's member may spend next.
type Grant struct {
	Range RangeID
	Term  Term
	To    NodeID
	From  NodeID
	At    Time // leader's time; rates run from here
	// Incarnation is that of the report which is answered. Another process of the
	// member is not meant. 0 is any: entries without Line.
	Incarnation Incarnation
	Entries     []GrantEntry
}

// GrantEntry is one key of a Grant.
type GrantEntry struct {
	Key    Key
	Epoch  Seq           // echoes the report's
	Seq    Seq           // number of this grant to this member for this key
	Ack    Seq           // the report it answers
	Tokens Units         // to add to what the member holds
	Rate   Units         // refill from Grant.At on, Units per second
	Cap    Units         // accrual stops when the member holds this much
	Lease  time.Duration // from Grant.At: then Rate ends and what is held is void
	Level  Units         // what the whole cluster could still spend; below 0 is debt
	Free   Units         // part of Level that nobody holds, or that was called back: worth asking for
	Unseen Units         // part of Level that the others have probably used since they reported
	Others Units         // the other members' demand, Units per second
	Again  time.Duration // report again within this, if anything changed
	// WindowStart and WindowEnd bound the window that Tokens and Level are for, on
	// the leader's clock: what is held is void then. 0 for kinds without windows.
	WindowStart, WindowEnd Time
	Slope                  Units // what Level gains per second if nobody asks
	Closed                 bool  // answers Final: the leader has forgotten the member
	// Burst is that of the limit that Level was counted by. A member that has
	// other limits, newer or older ones, reads the level of a window by what is
	// used: Burst less Level. 0 says that it is the member's.
	Burst Units
	// Saved is the part of the report's Used+Overdrawn that is committed to the
	// range's log: every later leader knows it. Durable accounts only. A member does
	// not let go of the key before it is all.
	Saved Units
	Life  Incarnation // echoes an entry of an earlier process; 0 is this one
	// Recall is no grant: others are short, and the member is to report now and
	// give back what it does not need.
	Recall bool
	// Credit is how much a member one level below may overdraw until it hears again,
	// where it can only guess: those of all clients of a node add up to less than Level.
	// Nodes have none, and need none.
	Credit Units
	// Aside is the part that Level excludes because a node that has not reported to this leader
	// may have used or may hold it, after the death of an earlier leader or of the node. Hard
	// limits only. It ends when the node reports, or within one or two leases. The true level is
	// between Level and Level+Aside.
	Aside Units

	// Line is the place of the entry that is answered in the report Ack, from 1; 0 of
	// what answers none. With it Key and Epoch may be missing.
	Line uint32
	// Ref is the leader's number for the key, to be used for it from now on in this
	// term and epoch; 0 says nothing new.
	Ref uint32
	// Unknown is no grant: the leader knows no key by the report's Ref. The member is
	// to report it again by its name.
	Unknown bool
}

// Why says how a decision was made. The words are part of the API.
type Why uint8

// The values of Why.
const (
	WhyUnknown         Why = iota
	WhyHeld                // admitted out of tokens that the node holds
	WhyEstimate            // soft: admitted, or refused as WhyOverLimit, on the estimated global level
	WhyLocal               // cut off from the leader: the whole limit, counted locally
	WhyOverLimit           // refused: the global limit is used up
	WhyOverBurst           // refused for ever: the cost exceeds what could ever fit
	WhyNotHeld             // hard: refused, this node holds too little just now
	WhyCutOff              // refused, cut off from the leader and nothing held, or closed
	WhyTooManyKeys         // no room for the key, and it may share no bucket: undecided (soft passes, hard is refused)
	WhyNoLimit             // no such limit
	WhyReserved            // admitted out of tokens to come: the caller has to wait
	WhyWaitTooLong         // refused: it would have to wait longer than it may
	WhyOverMaxCost         // refused for ever: the cost exceeds max_cost
	WhyUnlimited           // the limit or an override admits everything
	WhyBanned              // the limit or an override refuses everything
	WhyLeader              // admitted or refused by the range's leader itself
	WhyShare               // cut off from the leader: the last share of the rate
	WhyOpen                // cut off from the leader: everything passes
	WhyFixedRate           // cut off from the leader: a rate of its own on every node
	WhyNotEnforced         // enforcement is off
	WhyFloor               // admitted out of the floor although a parent is used up
	WhyParentOverLimit     // refused: a parent is used up
	WhyUseAcquire          // refused for ever: the limit counts what is in flight, which is acquired and released
	WhyFailover            // refused: no leader of the range answers, or a new one has set aside what others may hold
)

// whyWords are the spellings used in JSON, logs and metrics.
var whyWords = [...]string{
	"unknown", "held", "estimate", "local", "over_limit", "over_burst", "not_held", "cut_off", "too_many_keys", "no_limit",
	"reserved", "wait_too_long", "over_max_cost", "unlimited", "banned", "leader", "share", "open", "fixed_rate",
	"not_enforced", "floor", "parent_over_limit", "use_acquire", "failover",
}

// String returns the word used in JSON, logs and metrics.
func (w Why) String() string { return word(whyWords[:], uint8(w)) }

// Whys returns all values of Why, for metrics that want every label present.
func Whys() []Why {
	out := make([]Why, 0, len(whyWords)-1)
	for w := range whyWords[1:] {
		out = append(out, Why(w+1))
	}
	return out
}

// Spend is a check of a limit that is known: so many tokens of one key.
type Spend struct {
	Key  string
	Cost int64 // tokens
}

// Decision is the answer to one check.
type Decision struct {
	Allowed bool
	Why     Why
	Limit   *Limit // the rule that decided; nil for WhyNoLimit
	// Shadow says that it was allowed only because its limit is not enforced.
	// Near says that the level is at or below the limit's near mark.
	Shadow, Near bool
	// Tier is which tier of Limit decided, from 1.
	Tier int
	// Wait is how long the caller has to wait before it goes ahead: the tokens
	// are reserved for it.
	Wait time.Duration
	// ResetAfter is when the tier that decided would be full again if nobody
	// asked: for a window, its end.
	ResetAfter time.Duration
	// Remaining is the estimated global level after this decision, in whole
	// tokens, 0 to Burst, from known use. Under WhyFailover and WhyCutOff other nodes may have
	// used tokens that this node does not know of.
	Remaining int64
	// RetryAfter is 0 when allowed; else the earliest moment at which the same
	// cost could pass if nobody else asks. math.MaxInt64 when it never can.
	RetryAfter time.Duration
}

// KeyLevel is the level of one key's bucket at a moment: what a checkpoint
// keeps of it.
type KeyLevel struct {
	Key    Key
	Level  Units // below 0 is debt
	At     Time  // wall clock of the leader that knew it
	FullAt Time  // when it is full again if nobody uses it
	// WindowStart and Slope are those of the window that At was in; 0 for kinds
	// without windows.
	WindowStart Time
	Slope       Units
	// Marks say what is booked of each member, of durable accounts. Level is as if
	// nothing had been used beyond them.
	Marks []Mark
	// Full is the limit's burst when this was written: the next leader may know
	// another. 0 is not known.
	Full Units
	// Unlogged is what every node may hold or have used that the marks do not tell.
	Unlogged Units
	// Answers is what the leader that wrote the line may admit beyond Level until
	// AnswersUntil: of hard limits that it decides itself.
	Answers      Units
	AnswersUntil Time
	// Applied is when the replica that reads the line had applied it, by its own
	// clock, and so after At; 0 is not known. It is not part of the log.
	Applied Time
}

// MaxSize bounds the encoded size of the line, in bytes, in a log or a snapshot: ten bytes per number
// (the longest varint), and one or two for its field tag.
func (l *KeyLevel) MaxSize() int {
	size := 160 + len(l.Key.Namespace) + len(l.Key.Limit) + len(l.Key.Key)
	for i := range l.Marks {
		size += 128 + len(l.Marks[i].Node)
	}
	return size
}

// Mark is what a checkpoint says of one process of a member.
type Mark struct {
	Node  NodeID
	Life  Incarnation
	Epoch Seq
	// What is booked of this epoch; see ReportEntry.
	Used, Overdrawn, Refunded Units
	// Out is what the member may use beyond that, and Rate what that gains per
	// second from KeyLevel.At until Until; Cap is the most that it may hold at one
	// moment. Hard only: no leader grants more before it has committed more.
	Out, Rate, Cap Units
	Until          Time
	Dead           bool // the process is known to be dead
}

// KeyRate is what a range's leader reports of one key.
type KeyRate struct {
	Key    Key
	Rate   float64 // admitted tokens per second, averaged over a few seconds
	Demand float64 // attempted tokens per second, same average
	// Utilisation is Demand as a part of what the limit refills in a second; of a limit
	// of what is in flight, the part that is. 1 is full; more is refused, or owed.
	Utilisation float64
	Attempted   int64 // tokens, since the leader first saw the key in this term
	Admitted    int64
	Refused     int64
	Remaining   int64 // global level, whole tokens, 0 to burst
	Members     int   // how many report it now
	// OverAdmitted, Needless and NeedlessAtMost are as in LiveError, for this key.
	OverAdmitted, Needless, NeedlessAtMost Units
	Limit                                  *Limit
}

// Ask is a member's question to the leader of a range, for limits that the
// leader itself decides and for tokens to come.
type Ask struct {
	// From, Incarnation and ID name the question: ID is never used again in this
	// life of the member. With ID 0 it has no name: it is decided anew each time
	// that it arrives, and cannot be abandoned.
	From        NodeID
	Incarnation Incarnation
	ID          Seq

	Key     Key
	Cost    Units         // below 0 gives back what was admitted
	MaxWait time.Duration // the longest wait that is of use; 0 is none
	// Force books the cost however low the level is, down to the limit's
	// OwedUnits: it has been used.
	Force bool
	// Overdrawn is what the member overdrew since its last answered report: the
	// leader may not have booked it yet.
	Overdrawn Units
}

// Answer is what a leader says to an Ask.
type Answer struct {
	Term       Term
	Allowed    bool
	Why        Why
	Wait       time.Duration
	Level      Units // after it
	RetryAfter time.Duration
	ResetAfter time.Duration
	Aside      Units // as GrantEntry.Aside
	// WindowStart is the start of the window that it was decided in, on the leader's clock; 0 if
	// the limit has none.
	WindowStart Time
	// Unsaved reports that the leader cannot decide this before it is in the log: ask again after
	// the next checkpoint is committed. It is not sent to members.
	Unsaved bool
}
