// Package exit defines the exit codes of quorate, and the errors that carry them.
package exit
