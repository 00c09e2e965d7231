//go:build !linux

package transport

import (
	"net"
	"time"
)

// setUserTimeout does nothing where there is no such option.
func setUserTimeout(*net.TCPConn, time.Duration) {}
