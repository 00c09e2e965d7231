// Package archtest keeps the house in order: it reads the source of the whole
// module and fails when an import runs the wrong way, when a pure package
// stops being pure, or when a word is missing from the vocabulary.
//
// The tables in rules.go and exceptions.go are the rules; everything else only applies them. A
// failure says what was found, the rule, why the rule exists and what to do
// instead, so that nobody has to look it up:
//
//	leader/state.go:41: uses time.Now
//		rule:    leader is pure: no clock
//		why:     the simulator, ...
//		instead: take the moment as an argument (quota.Time or time.Time)
//
// # What is checked
//
//   - Imports: every package of the module has one entry in [Rules]; it may
//     import what its entry lists and nothing else of this module, and only
//     the third-party modules listed there. A package without an entry fails.
//   - Owned modules: hashicorp/raft has one importer, tests included.
//   - Purity: pure packages use an allow-list of the standard library, and no
//     clock, goroutine, channel, lock, logger, context or random number.
//     The files excused from a part of that are in [Exceptions].
//   - Manners: libraries do not print, log through package log, exit, or panic
//     without saying which invariant is broken; nothing but tests imports
//     testing.
//   - Vocabulary: docs/vocabulary.md lists every word of quota.Why, and no
//     other.
//   - Named tests: the tests that tables of docs/*.md name exist, and every row
//     of a column "test" names one.
//
// Test files (_test.go) are free of purity, manners and the import table; for
// them only two rules stay: raft has one importer, and leader and aggregator
// never meet.
//
// # What it does not see
//
// The check is of syntax: it parses all files, whatever their build tags, and
// resolves no types. It cannot see floating point in replicated state, the
// order of a map, or a channel received under another type's name. Those
// stay with reviewers and with the simulator.
//
// # Testing the test
//
// Each file under testdata/seeded is a small tree of files with one violation
// seeded in it and the finding expected for it. A new rule comes with one.
package archtest
