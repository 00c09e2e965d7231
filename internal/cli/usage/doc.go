// Package usage explains invalid command lines: it names the nearest command, flag or argument.
package usage
