// Package render prints what commands answer. An answer has two forms: data, which is printed as JSON or
// YAML, and a page for people of text and tables, of which the tables are also printed as CSV. A Printer
// knows one format, and Output gives a command the one that -o names.
//
// It has the words for amounts, times and names in pages too, the flags that many commands share, colours
// and progress.
package render
