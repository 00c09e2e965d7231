package quota

// Standing is what a member knows of a key: amounts are Units, rates Units per
// second. Of a limit with tiers it is about the tier with the lowest rate.
type Standing struct {
	Limit  *Limit // what counts for the key; nil if there is no limit for it
	Tier   Tier   // the one that the rest is about
	Level  Units  // the estimated global level
	Rate   Units  // granted to this member; 0 where tokens are handed out instead
	Others Units  // the other members' demand, as last told
	Told   bool   // a leader has told it, less than a lease ago
	Window Time   // when the window that is counted now began, on the leader's clock; 0: there is none
	Shadow bool   // nothing is refused of this key
	Nodes  int    // of the cluster, at least 1
}
