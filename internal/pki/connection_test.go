package pki

import "testing"

func TestConnectionCause(t *testing.T) {
	for text, want := range map[string]string{
		`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:1: connect: connection refused"`:              "dial tcp 10.0.0.1:1: connect: connection refused",
		`last error: connection error: desc = "transport: authentication handshake failed: signed by \"another\" CA"; try another`: `last error: authentication handshake failed: signed by "another" CA; try another`,
		`connection error: desc = "error reading server preface: EOF"`:                                                             "error reading server preface: EOF",
		"too many clients": "too many clients",
	} {
		if got := ConnectionCause(text); got != want {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
}
