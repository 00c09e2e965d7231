// Package inprocess measures decisions in the caller's memory: on one hot key, on a million keys,
// and the memory that a key takes.
package inprocess
