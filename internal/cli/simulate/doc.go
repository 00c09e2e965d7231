// Package simulate implements the command sim, which plays scenarios and campaigns in virtual time.
package simulate
