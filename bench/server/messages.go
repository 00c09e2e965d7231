package server

import (
	"fmt"
	"math/rand/v2"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"google.golang.org/protobuf/proto"
)

// keys is the number of keys. Each has 24 bytes.
const keys = 10_000

func key(i int) string { return fmt.Sprintf("customer-%015d", i) }

func checkOf(i int) *quoratev1.AllowRequest {
	return &quoratev1.AllowRequest{Namespace: "bench", Limit: "check", Key: key(i)}
}

func encoded(m proto.Message) *raw {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err) // invariant: ASCII
	}
	return &raw{data}
}

// singles returns a check of every key.
func singles() []*raw {
	out := make([]*raw, keys)
	for i := range out {
		out[i] = encoded(checkOf(i))
	}
	return out
}

// batches returns a few calls, each with checks of keys drawn uniformly.
func batches() []*raw {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]*raw, 64)
	for i := range out {
		b := &quoratev1.AllowBatchRequest{}
		for range batchSize {
			b.Checks = append(b.Checks, checkOf(rng.IntN(keys)))
		}
		out[i] = encoded(b)
	}
	return out
}

// answer returns an answer like Quorate's.
func answer() *quoratev1.AllowResponse {
	return &quoratev1.AllowResponse{
		Allowed: true, Remaining: 999_990, Why: quoratev1.Why_WHY_HELD, Tier: 1,
		Limit: &quoratev1.Limit{
			Namespace: "bench", Name: "check", Rate: "1000000/s", Burst: 1_000_000,
			Ceiling: quoratev1.Ceiling_CEILING_SOFT, Kind: quoratev1.Kind_KIND_BUCKET,
		},
	}
}

func sampleAnswer() []byte { return encoded(answer()).data }

func sampleStreamAnswer() []byte { return encoded(&quoratev1.AllowResult{Response: answer()}).data }

func sampleBatchAnswer() []byte {
	b := &quoratev1.AllowBatchResponse{}
	for range batchSize {
		b.Results = append(b.Results, &quoratev1.AllowResult{Response: answer()})
	}
	return encoded(b).data
}
