// Package share divides a node's part of a limit among the proxies that report to the node.
// It does no I/O and reads no clock: the caller passes the time and carries the messages.
// Only one goroutine may use a Table at a time.
//
// # A key
//
// Each key has a shared quota. It consists of a reserve, which holds tokens drawn from the
// node's own table and not known to be spent, and of a member for every stream that has
// reported the key. Every tick (50ms) has four steps:
//
//	spend    takes the members' likely use out of the reserve: under soft their demand, up
//	         to their rate; under hard all that their rates yield
//	draw     charges the node's table with the same amount, as small requests would; it
//	         counts the requests that members refuse there as refused (Miss), so that the
//	         leader sees all of the demand
//	divide   divides the node's part of the limit max-min fair by demand
//	assign   sends new or repeated assignments to the members that need them
//
// A report settles the account: the reserve gets back the tokens that the member did not use,
// or owes those that it used beyond its booking. So over time the members use the tokens that
// were drawn, and the ledgers allow the tokens that were drawn.
//
// # The node's part
//
// While demand exceeds the limit, the node's part is the rate that the leader grants: the
// granted rates add up to the limit. Where a share is too small for a rate, the part is the
// yield of draws. While the limit covers the demand, the part is the demand of the members
// plus a share of the remaining capacity in proportion to demand. For that share every node
// adds a tenth of the limit to its demand, so that a surge finds capacity on any node. Debt
// reduces the part so that it is paid back in one second.
//
// # Assignments
//
// A bucket's rate is a whole number of tokens per fill, precise to one percent and rounded
// down. A change of the rate by a tenth replaces the bucket: a cut at the earliest after
// 250ms, a raise after one second, or after 250ms if the rate grows by half. Smaller changes
// wait for the repetition that keeps the assignment alive, at half of its time to live. Each
// new bucket starts full, so its size is the member's part of the tokens that the cluster has
// left, less those in other buckets that will be spent; if none are left, it is a tenth of a
// second of its rate. A member that could use more than its rate gets a new bucket as soon as
// a quarter of a second of its rate has been saved.
//
// The demand of a proxy is averaged over its reports, as leaders and the ledgers of clients do it
// (fairshare.Follow): a change that cannot be random takes effect at once. Refused requests show
// how long a member asked at its old rate, so the rest of the report's requests belong to the
// time since. For a member of unknown demand all assigned tokens count as spent.
//
// Within a node no member is raised into a rate that another may still use: a rate that was
// cut counts until the cut has settled (500ms; the node ends the stream of a proxy that does
// not read), and the assignment of a broken stream counts until it has expired.
//
// # What can be admitted beyond the limit
//
// soft: unknown demand passes within the assigned rates, which add up to the limit. The
// following can be admitted in addition: the size of each replaced bucket; during a surge
// that moves the nodes' parts, the requests until all proxies have new assignments; and the
// requests before the first assignment. Reports book all of it, and it is paid back.
//
// hard: the content of a bucket and the yield of its rate are drawn before the proxy can
// spend them; tokens that cannot be drawn are not assigned. So assignments stay within the
// promise of the ledgers, and the sum of rates may exceed the limit only while the bucket is
// more than half full. Three cases are not covered: requests before the first assignment (the
// filter's no_assignment_behavior), requests after the end of one
// (expired_assignment_behavior), and a part that a node loses faster than it can reach its
// proxies, beyond a reserve of 400ms of their rates. Tokens that lie in buckets when a window
// ends are drawn from the next window.
package share
