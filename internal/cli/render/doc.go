// Package render prints the answers of commands. An answer has two forms: data, which is printed as
// JSON or YAML, and a page for people with text and tables, whose tables can also be printed as
// CSV. A Printer handles one format, and Output gives a command the printer that -o names.
//
// The package also formats amounts, times and names for pages, and has flags shared by many
// commands, colours and progress.
package render
