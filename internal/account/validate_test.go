package account

import (
	"strings"
	"testing"
	"time"
)

// TestFaultsAreNamed checks that an error names the field, the value, and what would be valid.
func TestFaultsAreNamed(t *testing.T) {
	id := testID("x")
	sound := func() *Request {
		return &Request{By: "me", Ops: []Op{{Account: id}, {Account: id, Policy: testRef("p")}}}
	}
	if err := sound().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(r *Request){
		`ops: 0; 1 to 1000`: func(r *Request) { r.Ops = nil },
		`ops: 1001; 1 to 1000`: func(r *Request) {
			r.Ops = make([]Op, MaxOps+1)
		},
		`request_id_ttl: -1s; up to 744h0m0s, or 0 for 2h0m0s`: func(r *Request) { r.TTL = -time.Second },
		`request_id_ttl: 745h0m0s; up to 744h0m0s, or 0 for 2h0m0s`: func(r *Request) {
			r.TTL = MaxTTL + time.Hour
		},
		`request_id: "` + strings.Repeat("x", 64) + `"... has 257 bytes; at most 256 bytes of UTF-8`: func(r *Request) {
			r.ID = strings.Repeat("x", MaxRequestID+1)
		},
		`identity: "\xff"; at most 1024 bytes of UTF-8`:                        func(r *Request) { r.By = "\xff" },
		`ops[1].account_id.app_id: is empty; 1 to 256 bytes`:                   func(r *Request) { r.Ops[1].Account.App = "" },
		`ops[0].account_id.realm: "a~" must not contain "~"`:                   func(r *Request) { r.Ops[0].Account.Realm = "a~" },
		`ops[7].account_id.realm: "a~" must not contain "~"`:                   func(r *Request) { r.Ops[0].Account.Realm = "a~"; r.Indexes = []int32{7, 9} },
		`indexes: 1 for 2 ops`:                                                 func(r *Request) { r.Indexes = []int32{7} },
		`ops[0].delta: 9007199254741; must be -9007199254740 to 9007199254740`: func(r *Request) { r.Ops[0].Delta = MostDelta + 1 },
		`ops[0].options: 8 has unknown bits; a sum of 1 (IGNORE_POLICY_BOUNDS), 2 (DO_NOT_CAP_PROPOSED) and 4 (WITH_POLICY_LIMIT_DELTA)`: func(r *Request) {
			r.Ops[0].Options = 8
		},
		`ops[1].policy_id.config.version: "v1" must begin with "$" (a hash of the content) or "#" (a name of your own)`: func(r *Request) {
			r.Ops[1].Policy.Config.Version = "v1"
		},
		`ops[1].policy_id.key.name: is empty; 1 to 256 bytes`: func(r *Request) { r.Ops[1].Policy.Key.Name = "" },
		`ops[1].policy.default: 3; must be 0 to the limit, 2`: func(r *Request) { r.Ops[1].Rule = &Policy{Default: 3, Limit: 2} },
		`ops[1].policy.refill.interval: 0 with units -1; an account that is always empty has a limit of 0 and no refill`: func(r *Request) {
			r.Ops[1].Rule = &Policy{Refill: Refill{Units: -1}}
		},
	} {
		r := sound()
		spoil(r)
		err := r.Validate()
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		// The state machine also refuses what no caller checked before.
		out := New(Bounds{}).Apply(0, &Command{Apply: r})
		check(t, want, out.Code, Failed)
	}
}
