package config

import (
	"fmt"
	"strings"
)

// maxNodes bounds the length of the list of nodes.
const maxNodes = 256

const peerExample = "{id: n1, peer: 127.0.0.1:7413}"

func readPeer(v Value, before []Peer) (one Peer) {
	v.Fields(peerExample, []Field{
		{"id", "id: n1", func(v Value) { v.scalar(name(&one.ID)) }},
		{"peer", "peer: 127.0.0.1:7413", func(v Value) { v.scalar(reachable(&one.Peer, peerWant)) }},
	})
	if err := repeated(before, one); err != nil {
		v.Fault("%s", err)
	}
	return one
}

// repeated returns an error if a node in peers has the same id or address as one.
func repeated(peers []Peer, one Peer) error {
	for i, p := range peers {
		switch {
		case one.ID != "" && p.ID == one.ID:
			return fmt.Errorf("has the id %s of nodes[%d]; must be unique", clip(string(one.ID)), i)
		case one.Peer != "" && p.Peer == one.Peer:
			return fmt.Errorf("has the peer %s of nodes[%d]; must be unique", clip(one.Peer), i)
		}
	}
	return nil
}

// peers reads the list of nodes from a variable, as comma-separated id=host:port.
func peers(to *[]Peer) scalar {
	const want = "id=host:port of every node, such as n1=10.0.0.1:7413,n2=10.0.0.2:7413"
	return listWithCommas(to, maxNodes, want, "nodes", func(i int, text string, before []Peer) (one Peer, err error) {
		id, at, ok := strings.Cut(text, "=")
		if !ok {
			return one, errMust
		}
		if err := name(&one.ID).set(id); err != nil {
			return one, fmt.Errorf("id of nodes[%d] %w", i, err)
		}
		if err := reachable(&one.Peer, peerWant).set(at); err != nil {
			return one, fmt.Errorf("peer of nodes[%d] %w", i, err)
		}
		if err := repeated(before, one); err != nil {
			return one, fmt.Errorf("nodes[%d] %w", i, err)
		}
		return one, nil
	})
}
