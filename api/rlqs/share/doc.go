// Package share divides what a node gets of a limit among the proxies that report to it.
package share
