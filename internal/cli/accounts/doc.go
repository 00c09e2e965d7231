// Package accounts implements the commands for durable quotas: accounts and policies.
package accounts
