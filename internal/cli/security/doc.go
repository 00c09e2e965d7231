// Package security has the commands for roles, tokens, certificates and the audit log.
package security
