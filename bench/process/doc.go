// Package process runs what is measured from outside: nodes of Quorate, built from
// this checkout, other servers, and this program itself in another role. It says how
// much processor time and memory they take.
package process
