// Package usage explains command lines that are wrong: it names the nearest command, flag or argument.
package usage
