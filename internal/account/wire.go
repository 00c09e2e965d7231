package account

import "google.golang.org/protobuf/proto"

type message = proto.Message

// sizeOf returns the length that appendMessage appends.
func sizeOf(m message) int { return proto.MarshalOptions{Deterministic: true}.Size(m) }

// appendMessage appends an encoded message to b. It fails on text that is not UTF-8.
func appendMessage(b []byte, m message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, m)
}

func unmarshal(b []byte, m message) error { return proto.Unmarshal(b, m) }
