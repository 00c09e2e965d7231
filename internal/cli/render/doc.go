// Package render prints what commands answer: tables, JSON, YAML, CSV, colours and progress.
package render
