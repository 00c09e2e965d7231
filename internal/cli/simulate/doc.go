// Package simulate has the command sim: it plays scenarios and campaigns in virtual time.
package simulate
