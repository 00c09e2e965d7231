// Package top implements the command "quorate top": a live screen of the busiest limits, and of the
// keys of one of them.
//
// Its model is pure except for the calls that it is given: it turns key presses and answers into a
// screen of text. Rates of limits are differences of two answers; those of keys come from the
// leaders.
package top
