package pki

import (
	"regexp"
	"strconv"
	"strings"
)

// connectionError matches gRPC's text for a connection that could not be made.
var connectionError = regexp.MustCompile(`connection error: desc = ("(?:[^"\\]|\\.)*")`)

// ConnectionCause removes from an error of gRPC what says nothing of the cause: of
//
//	connection error: desc = "transport: Error while dialing: dial tcp n1:7412: connect: connection refused"
//
// it keeps "dial tcp n1:7412: connect: connection refused".
func ConnectionCause(text string) string {
	return connectionError.ReplaceAllStringFunc(text, func(s string) string {
		cause, err := strconv.Unquote(connectionError.FindStringSubmatch(s)[1])
		if err != nil {
			return s
		}
		return strings.TrimPrefix(strings.TrimPrefix(cause, "transport: "), "Error while dialing: ")
	})
}
