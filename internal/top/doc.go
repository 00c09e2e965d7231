// Package top is the screen of "quorate top": the limits that are asked for most, and the
// keys of one of them, as they change.
//
// The model is pure but for the calls that it is given (Ask): it turns key presses and answers
// into a screen, which is text. Rates of limits are differences of two answers; those of
// keys come from the leaders.
package top
