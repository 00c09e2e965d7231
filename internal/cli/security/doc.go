// Package security implements the commands for roles, tokens, certificates and the audit log.
package security
