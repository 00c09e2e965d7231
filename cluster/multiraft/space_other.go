//go:build !linux && !darwin

package multiraft

import "errors"

var freeSpace = func(string) (uint64, error) { return 0, errors.ErrUnsupported }
