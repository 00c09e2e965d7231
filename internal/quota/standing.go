package quota

// Standing is a member's view of a key: amounts in Units, rates in Units per second. For a limit
// with several tiers it describes the one with the lowest rate.
type Standing struct {
	Limit    *Limit // limit that applies to the key, or nil
	Tier     Tier   // tier that the other fields describe
	Level    Units  // the estimated global level
	Rate     Units  // granted to this member; 0 where tokens are granted instead
	Others   Units  // demand of the other members, from the last grant
	HasLevel bool   // a leader has granted less than a lease ago
	Window   Time   // start of the current window on the leader's clock; 0 without a window
	Shadow   bool   // no request of this key is refused
	Nodes    int    // size of the cluster, at least 1
}
