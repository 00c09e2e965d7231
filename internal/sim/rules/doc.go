// Package rules tests every rule of the limits: members and one real ledger, connected directly, on
// the test's clock. It contains only tests; docs/development/rules.md says which test shows which rule.
package rules
