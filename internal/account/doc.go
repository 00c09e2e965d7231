// Package account is the state machine of durable quotas in one range: accounts,
// the policies copied into them, requests that were applied, and transactions that
// reach into other ranges.
//
// It is pure: times come with the commands, and nothing but those changes it. The
// model is that of LUCI's server/quota; docs/rfcs/20261121_durable_quotas.md says
// what was taken from it, and how ranges agree.
package account
