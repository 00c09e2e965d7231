// Package top has the command "quorate top": a screen of the limits that are asked for most, and of the
// keys of one of them, as they change.
//
// Its model is pure but for the calls that it is given: it turns key presses and answers into a screen,
// which is text. Rates of limits are differences of two answers; those of keys come from the leaders.
package top
