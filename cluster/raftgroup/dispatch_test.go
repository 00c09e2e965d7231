package raftgroup

import (
	"context"
	"testing"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
)

// TestAskedWhileItStops checks the answer to a peer whose message arrives while a group stops,
// whether or not raft has taken the message. The answer makes the peer wait and retry without
// logging a warning.
func TestAskedWhileItStops(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan struct{})
	close(ended)
	for name, i := range map[string]*instance{
		"not taken": {trans: &raftTransport{in: make(chan raft.RPC), ctx: gone}, ended: make(chan struct{})},
		"taken":     {trans: &raftTransport{in: make(chan raft.RPC, 1), ctx: t.Context()}, ended: ended},
	} {
		i.reply(i.ask(&raft.AppendEntriesRequest{}, nil), func(f *peerv1.Frame) {
			err := &transport.RemoteError{Peer: "n3", Text: f.Error}
			if !isAway(err) || !isOrdinary("failed to appendEntries to", []any{"error", err}) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
