// Package words describes calls for people: what each method does, and in sentences what a caller in the audit log
// did or tried to do. The command line and the console print them.
package words
