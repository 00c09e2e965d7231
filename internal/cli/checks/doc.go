// Package checks implements the commands that check like a caller (allow, reserve, acquire), and
// those that show single keys, rates and events.
package checks
