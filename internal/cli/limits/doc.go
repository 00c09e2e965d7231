// Package limits has the commands for limit files: validate, diff, apply, explain, roll back, convert,
// and for overrides.
package limits
