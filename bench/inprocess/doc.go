// Package inprocess measures decisions that are made in the memory of the caller:
// one key that everybody asks for, a million keys, and what a key takes.
package inprocess
