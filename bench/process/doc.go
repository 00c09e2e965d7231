// Package process runs the programs that are measured from outside: nodes of Quorate, built from
// this checkout, other servers, and this program itself in another role. It also measures their
// processor time and memory.
package process
