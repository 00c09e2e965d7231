// Package rules holds every rule of the limits to what it promises: members and
// one real ledger, wired together by hand, on a clock of the test's. It has only
// tests; docs/rules.md says which shows what.
package rules
