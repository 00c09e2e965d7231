package config

import (
	"fmt"
	"strings"
)

// maxNodes bounds the list of nodes.
const maxNodes = 256

const peerExample = "{id: n1, peer: 127.0.0.1:7413}"

// readPeers reads the list of nodes from a file.
func readPeers(to *[]Peer) func(decoder, place) bool {
	return func(d decoder, p place) bool {
		before := len(d.faults)
		var peers []Peer
		ok := d.list(p, maxNodes, "["+peerExample+"]", func(item place) {
			var one Peer
			d.object(item, peerExample, peerFields(d, &one))
			if err := repeated(peers, one); err != nil {
				d.node(item.value, item.path, "%s", err)
			}
			peers = append(peers, one)
		})
		if !ok || len(d.faults) > before {
			return false
		}
		*to = peers
		return true
	}
}

func peerFields(d decoder, one *Peer) []field {
	return []field{
		{"id", "id: n1", func(p place) { d.scalar(p, name(&one.ID)) }},
		{"peer", "peer: 127.0.0.1:7413", func(p place) { d.scalar(p, reachable(&one.Peer, peerWant)) }},
	}
}

// repeated returns an error when the node shares what must be its own.
func repeated(peers []Peer, one Peer) error {
	for i, p := range peers {
		switch {
		case one.ID != "" && p.ID == one.ID:
			return fmt.Errorf("has the id %s of nodes[%d]; must be an id of its own", clip(string(one.ID)), i)
		case one.Peer != "" && p.Peer == one.Peer:
			return fmt.Errorf("has the peer %s of nodes[%d]; must be an address of its own", clip(one.Peer), i)
		}
	}
	return nil
}

// peers reads the list of nodes from a variable: id=host:port, with commas.
func peers(to *[]Peer) scalar {
	want := "id=host:port of every node, such as n1=10.0.0.1:7413,n2=10.0.0.2:7413"
	return scalar{want: want, set: func(text string) error {
		items := strings.Split(text, ",")
		if len(items) > maxNodes {
			return fmt.Errorf("has %d nodes; must be 1 to %d", len(items), maxNodes)
		}
		var peers []Peer
		for i, item := range items {
			var one Peer
			id, at, ok := strings.Cut(strings.TrimSpace(item), "=")
			if !ok {
				return wrong(text, want)
			}
			if err := name(&one.ID).set(id); err != nil {
				return fmt.Errorf("id of nodes[%d] %w", i, err)
			}
			if err := reachable(&one.Peer, peerWant).set(at); err != nil {
				return fmt.Errorf("peer of nodes[%d] %w", i, err)
			}
			if err := repeated(peers, one); err != nil {
				return fmt.Errorf("nodes[%d] %w", i, err)
			}
			peers = append(peers, one)
		}
		*to = peers
		return nil
	}}
}
