// Package share divides what a node gets of a limit among the proxies that report to
// it. It is pure: the caller passes the time and carries the messages; one Table is
// used by one goroutine at a time.
//
// # A key
//
// Each key has a shared quota: a reserve, which is what was drawn from the node's own
// table and is not known to be spent, and a member for every stream that has reported it.
// Every tick (a twentieth of a second)
//
//	spend    what members probably use goes out of the reserve: under soft their demand,
//	         as far as their rate goes; under hard all that their rates yield
//	draw     the node's table is charged with as much, as if small requests came; what
//	         members refuse is counted there as refused (Miss), so that the leader
//	         sees all of the demand
//	divide   the node's part of the limit is divided max-min fair by demand
//	assign   who has to be told something is told
//
// A report settles: the reserve gets back what was taken for the member beyond what it
// has used, or owes what it has used more. So over time the members use what was
// drawn, and what was drawn is what the ledgers allow.
//
// # The node's part
//
// While the nodes ask for more than the limit, it is the rate that the leader grants
// this node: those add up to the limit. Where shares are too small for a rate it is
// what draws yield. While there is enough, it is what the members ask for, and of what
// is left over a part by demand: in that every node counts a tenth of the limit more,
// so that a surge finds something wherever it comes. Others' demand is the median of
// what was told lately, because tokens are drawn in steps. Debt is taken off the part,
// so that it is paid back in a second.
//
// # Assignments
//
// A bucket's rate is a whole number of tokens in its fill, to one percent, rounded
// down. It is replaced when it changes by a tenth: cuts after a quarter of a second at
// the earliest, raises after one; smaller changes go with the repetition that keeps it
// alive, at half of its time to live. Each new bucket is full, so its size is what the
// cluster has left, less what lies in others that will be spent; when nothing is left,
// a tenth of a second of its rate. Who could use more than its rate is sent a new bucket
// as soon as a quarter of a second of its rate has been saved.
//
// What a proxy asks for is read from its reports. A fall that is no chance is believed
// at once. A member that was refused some is known to have asked as before for as long
// as that takes, so what is left of the report is of the time since. Of one whose demand
// is not known all that it was given counts as spent.
//
// In one node no member is raised into what another may still use: a rate that was cut
// counts until it has settled (500ms; who does not read is cut off), and what a broken
// stream was assigned until it has ended.
//
// # What can be admitted beyond the limit
//
// soft: demand that is not known yet passes within what is assigned, and those parts
// add up to the limit; on top come, for each replaced bucket, its size, for a surge
// that moves the parts of nodes, the time until all are told, and what comes before
// the first assignment. All of it is booked when it is reported, and paid back.
//
// hard: a bucket's content, and what its rate yields, is drawn before it can be spent;
// what cannot be drawn is not assigned. So what is assigned is within the ledgers'
// promise, and rates together may exceed the limit only while the bucket is more than
// half full. Not covered: requests before the first assignment (the filter's
// no_assignment_behavior), after the end of one (expired_assignment_behavior), and a
// part that a node loses faster than it can tell its proxies, beyond a reserve of
// 300ms of their rates. What lies in buckets when a window ends is drawn of the next.
package share
