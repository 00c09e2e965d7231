// Package checks has the commands that ask a cluster as a caller would (allow, reserve, acquire) and
// those that look at single keys, rates and events.
package checks
