// Package descriptor matches the descriptors of Envoy's rate limit protocols, lists
// of key and value, with rules. It is pure: trees are made from text and asked.
//
// # The tree
//
// A rule is a path of steps, and a step is a key with a value, with a pattern in
// which * is any number of bytes, or with nothing, which is any value. A descriptor
// is followed from the root, one step for each of its entries: the exact value
// goes before the patterns in their order, those before the step without a value; a
// value that is the text of a pattern is that one's. What was chosen is not taken
// back: where the rest then finds nothing, no rule fits. The rule must end where the
// descriptor ends. This is the matching of envoyproxy/ratelimit. Unlike there, key and
// value are compared separately, so that ("a", "b_c") and ("a_b", "c") are different.
//
// # Names
//
// A limit file needs no other file to say which descriptors its limits are for: the
// limit's name does. It is the steps, with a "." between them; a step is the key,
// or key--value. In full:
//
//	remote_address               any value
//	path.remote_address          two entries
//	database--users              the value users
//	remote_address--10..0..0..1  a dot in a key or value is written twice
//	path---.2fapi-.2f--          * is --, and any other byte -. and two hex digits: /api/*
//
// Letters, digits and _ stand for themselves, and so does a - that has neither a -
// nor a dot beside it and is at no end of its key or value. So every path has one name, and no
// value of a request can be read as further steps. [Steps] reads a name, [NameOf]
// writes it. Patterns of one key are tried with the most literal bytes first.
//
// # Which limit
//
// [Index] is the one rule for all of Envoy's protocols, wherever limits are those of a
// limit file. The domain is the namespace ([Namespace]). Then
//
//   - the limit whose name fits the descriptor best, as above; else
//   - the limit that the descriptor names: the value of its entry "limit", or, if it
//     has none, of its entry "name", where such a limit is. The other entries count.
//   - Else there is none. Defaults and templates are for names that somebody has
//     written, not for what a request happens to carry.
//
// A bucket id of the quota service is a map: its entries are taken in the order of
// their keys ([Sorted]), and then it is a descriptor as any other.
//
// # Keys
//
// What a rule is counted for are the values of those steps that have no exact one;
// see [Rule.Key].
//
// # Bounds
//
// A descriptor has at most [MaxEntries] entries. Values have no bound of their own:
// a key that would be longer than quota.MaxKeyLen ends with a hash, because a
// request that is refused for a long header would pass at a proxy that fails open.
package descriptor
