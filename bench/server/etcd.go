package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// Methods of etcd, whose messages are encoded here: its client would bring its modules along.
const (
	putMethod   = "/etcdserverpb.KV/Put"
	txnMethod   = "/etcdserverpb.KV/Txn"
	rangeMethod = "/etcdserverpb.KV/Range"
)

// etcdServers is three nodes of etcd with its default settings.
func etcdServers(load func(*dialled) load) suite.Subject {
	return suite.Subject{Name: etcd, Start: func(ctx context.Context) (suite.Runner, error) {
		path, err := process.Find("etcd", "etcd-server")
		if err != nil {
			return nil, err
		}
		return begin(ctx, func(r *runner) error {
			dir, err := os.MkdirTemp("", "etcd-nodes-")
			if err != nil {
				return err
			}
			r.syncs = true
			r.closers = append(r.closers, func() error { return os.RemoveAll(dir) })
			addrs, err := freeAddrs(6)
			if err != nil {
				return err
			}
			clients, peers := addrs[:3], addrs[3:]
			var members []string
			for i, p := range peers {
				members = append(members, fmt.Sprintf("e%d=http://%s", i, p))
			}
			for i := range peers {
				p, err := process.Start(path, "--name", fmt.Sprintf("e%d", i), "--data-dir", filepath.Join(dir, fmt.Sprintf("e%d", i)),
					"--listen-client-urls", "http://"+clients[i], "--advertise-client-urls", "http://"+clients[i],
					"--listen-peer-urls", "http://"+peers[i], "--initial-advertise-peer-urls", "http://"+peers[i],
					"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new", "--logger", "zap", "--log-level", "error")
				if err != nil {
					return err
				}
				r.servers = append(r.servers, p)
				r.closers = append(r.closers, p.Close)
			}
			d, err := dial(clients)
			if err != nil {
				return err
			}
			r.closers = append(r.closers, d.close)
			for i, p := range r.servers {
				if err := p.Await(ctx, clients[i], func(ctx context.Context) error {
					return d.conns[i].Invoke(ctx, putMethod, puts()[0], new(raw))
				}); err != nil {
					return err
				}
			}
			r.load = load(d)
			return nil
		})
	}}
}

func field(out []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), value)
}

// putOf encodes etcdserverpb.PutRequest. The value is about as long as a balance is in Quorate's
// log.
func putOf(i int) []byte {
	return field(field(nil, 1, []byte(key(i))), 2, fmt.Appendf(nil, "%032d", i))
}

func puts() []*raw {
	out := make([]*raw, places*perPlace)
	for i := range out {
		out[i] = &raw{putOf(i)}
	}
	return out
}

// transactions returns calls of etcdserverpb.TxnRequest that put as many keys.
func transactions(ops int) []*raw {
	rng := rand.New(rand.NewPCG(7, 8))
	out := make([]*raw, places*perPlace/ops)
	for i := range out {
		var b []byte
		first := rng.IntN(places * perPlace)
		for k := range ops {
			b = field(b, 2, field(nil, 2, putOf((first+k)%(places*perPlace)))) // success, of request_put
		}
		out[i] = &raw{b}
	}
	return out
}

// gets returns calls of etcdserverpb.RangeRequest, which are linearizable.
func gets() []*raw {
	out := make([]*raw, places*perPlace)
	for i := range out {
		out[i] = &raw{field(nil, 1, []byte(key(i)))}
	}
	return out
}
