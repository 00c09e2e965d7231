// Package limits implements the commands for limit files (validate, diff, apply, explain, roll
// back, convert) and for overrides.
package limits
