package systemtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestBootstrap checks that nodes that start together form one cluster, as the pods of a new release of
// the Helm chart do: they share a CA and a list of addresses, and the settings name the node that
// creates the cluster when no other answers.
func TestBootstrap(t *testing.T) {
	testspeed.Full(t)
	c := newJoinedCluster(t, 4, 3)
	ca := filepath.Join(c.dir, "secret")
	if err := os.Rename(filepath.Join(c.nodes[0].dir, "pki"), ca); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.nodes {
		file := s.dir + ".yaml"
		write(t, file, fmt.Sprintf("cluster: systemtest\nnode: %s\ndata: %s\nbootstrap: n1\njoin: [%s, %s, %s]\nranges: 4\nlisten: {http: %s, grpc: %s, peer: %s}\ntls: {ca: %s/ca.crt, ca_key: %s/ca.key}\n",
			s.id, s.dir+".data", c.nodes[0].grpc, c.nodes[1].grpc, c.nodes[2].grpc, s.httpAddr, s.grpc, s.peer, ca, ca))
		s.process = start(t, nil, "serve", "--config", file)
	}
	for _, s := range c.nodes {
		c.serves(s)
	}
	c.settle()
	for _, s := range c.nodes {
		if ids, err := c.members(s); err != nil || fmt.Sprint(ids) != "[n1 n2 n3]" {
			t.Errorf("%s sees the members %v, %v; want all three", s.id, ids, err)
		}
	}
}
