// Package descriptor matches the descriptors of Envoy's rate limit protocols, which are lists of
// keys and values, against rules. It is pure.
//
// # The tree
//
// A rule is a path of steps. A step is a key with a value, with a pattern in which * matches any
// number of bytes, or without a value, which matches any. A descriptor is followed from the root,
// one step for each entry. The exact value takes precedence over patterns, patterns are tried in
// order, and the step without a value comes last. A value that is the text of a pattern selects
// that pattern. There is no backtracking: if the rest of the descriptor does not match, no rule
// applies. The rule must end where the descriptor ends. This is the matching of
// envoyproxy/ratelimit. Unlike there, key and value are compared separately, so ("a", "b_c") and
// ("a_b", "c") differ.
//
// # Names
//
// The name of a limit says which descriptors it applies to, so a limit file needs no second file
// for that. The name consists of the steps, separated by "."; a step is the key, or key--value. In
// full:
//
//	remote_address               any value
//	path.remote_address          two entries
//	database--users              the value users
//	remote_address--10..0..0..1  a dot in a key or value is doubled
//	path---.2fapi-.2f--          * is --, and any other byte -. and two hex digits: /api/*
//
// Letters, digits and _ represent themselves, and so does a - that is inside its key or value
// without a - or a dot next to it. So every path has exactly one name, and no value of a request
// can be read as further steps. [Steps] parses a name, [NameOf] formats it. Patterns of one key are
// tried in the order of their number of literal bytes, the most first.
//
// # Which limit
//
// [Index] is the one rule for all of Envoy's protocols if the limits come from a limit file. The
// domain is the namespace ([Namespace]). The limit is
//
//   - the one whose name matches the descriptor best, as above; else
//   - the one that the descriptor names: by the value of its entry "limit" or, if it has none, of its
//     entry "name", if such a limit exists. The other entries form the key;
//   - else none. Defaults and templates are for names that somebody has written, not for whatever a
//     request happens to carry.
//
// A bucket id of the quota service is a map: its entries, sorted by key ([Sorted]), form a
// descriptor.
//
// # Keys
//
// The key is formed from the values of the steps without an exact value; see [Rule.Key].
//
// # Bounds
//
// A descriptor has at most [MaxEntries] entries. Values are not bounded: a key that would exceed
// quota.MaxKeyLen ends with a hash instead. If long values were refused, a request with a long
// header would pass at a proxy that fails open.
package descriptor
