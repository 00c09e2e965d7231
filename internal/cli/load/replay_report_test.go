package load

import (
	"flag"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/golden"
)

func TestReplayReport(t *testing.T) {
	r := &replayReport{
		Limit: ruleReport{"web/per_client", "10/s", 20, "soft"}, Nodes: 3, Skew: "90/5/5", Speed: 20000, Prefix: "r1700000000-", Keys: 260,
		BadLines: 1, BadShown: []string{"line 899: user agent has no closing \""}, Seconds: 13.44,
		Requests: 9999, Admitted: 9000, Refused: 997, Errors: 2, Rerouted: 5, Why: map[string]int64{"held": 8700, "estimate": 300, "over_limit": 997},
		idealReport: idealReport{IdealAdmitted: 8990, OverTokens: 17, UnderTokens: 7, NetTokens: 10, OverPct: 0.1891, UnderPct: 0.0779, NetPct: 0.1112, KeysOver: 12, KeysUnder: 2, WorstExcess: 3, WorstKey: "130.237.218.86"},
		Sender:      senderReport{LagP50MS: 0.05, LagP99MS: 1.2, LagMaxMS: 44, Late: 500, Kept: false},
		MostRefused: []keyReport{{"130.237.218.86", 357, 160, 197, 158}, {"a\x00b", 30, 20, 10, 20}},
	}
	var b strings.Builder
	if err := render.WritePage(&b, r.print); err != nil {
		t.Fatal(err)
	}
	golden.Hold(t, "testdata/replay.golden", b.String(), *rewrite)
	golden.HasFields(t, r, "requests", "admitted", "refused", "errors", "ideal_admitted", "over_tokens", "under_tokens", "over_pct", "under_pct", "net_pct")
}

func TestLoadReport(t *testing.T) {
	r := &loadReport{
		Limit: ruleReport{"api/per_tenant", "1000/s", 1000, "hard"}, Rate: 3000, Spread: "even", Keys: 1, Dist: "uniform", Seed: 1, Prefix: "r1700000000-", Batch: 1,
		Seconds: 30, Offered: 90000, Sent: 90000, Answered: 89990, Allowed: 30900, Refused: 59090, Errors: 10, LastErr: "connection reset", Rerouted: 20000,
		Throughput: 2999.67, Why: map[string]int64{"held": 30900, "over_limit": 59090},
		Latency: latencyReport{0.21, 0.4, 1.5, 9.75, 1021}, Sender: senderReport{LagP50MS: 0.05, LagP99MS: 0.8, LagMaxMS: 3, Kept: true},
		Admission: admissionReport{Tokens: 30900, LimitTokens: 31000, Pct: 99.677, WorstKey: "r1700000000-0", WorstOver: 2, WorstPct: 0.0065, OverTokens: 2},
		Nodes:     []nodeReport{{"127.0.0.1:7412", 45000, 0, 0, 4.2, 10.01, 30}, {"127.0.0.1:7422", 10000, 10, 20000, 12.5, 3, 10}},
	}
	var b strings.Builder
	if err := render.WritePage(&b, r.print); err != nil {
		t.Fatal(err)
	}
	golden.Hold(t, "testdata/load.golden", b.String(), *rewrite)
	golden.HasFields(t, r, "offered", "sent", "answered", "allowed", "refused", "errors", "rerouted", "throughput", "latency_ms", "admission", "nodes")
}

var rewrite = flag.Bool("rewrite", false, "write what is printed into testdata; then read the diff")
