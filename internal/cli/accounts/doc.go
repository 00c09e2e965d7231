// Package accounts has the commands for durable quotas: accounts and policies.
package accounts
