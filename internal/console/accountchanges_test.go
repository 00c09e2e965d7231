package console

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
)

// TestAccountCreated checks that the change that created an account starts from the policy's default, and that
// the oldest change kept is not taken for it.
func TestAccountCreated(t *testing.T) {
	policy := &quoratev1.PolicyID{Config: &quoratev1.PolicyConfigID{AppId: "cv", Realm: "project:infra", Version: "#v1"}, Key: &quoratev1.PolicyKey{Name: "pool"}}
	other := proto.CloneOf(policy)
	other.Key.Name = "other"
	first := &quoratev1.AccountChange{PreviousBalance: 0, NewBalance: 9, PolicyId: policy}
	later := &quoratev1.AccountChange{PreviousBalance: 9, NewBalance: 8}
	many := []*quoratev1.AccountChange{}
	for len(many) < account.MaxHistory-1 {
		many = append(many, later)
	}
	const created, unknown, kept = `data-v="10">10 created</td><td class="n" data-v="9">9</td><td class="n" data-v="-1">−1<`, `>created</td><td class="n" data-v="9">9</td><td class="n">–<`, `data-v="0">0</td><td class="n" data-v="9">9</td>`
	for _, c := range []struct {
		changes []*quoratev1.AccountChange
		want    string
	}{
		{[]*quoratev1.AccountChange{later, first}, created},
		{[]*quoratev1.AccountChange{{NewBalance: 9, PolicyId: other}}, unknown},
		{[]*quoratev1.AccountChange{{NewBalance: 9}}, unknown},
		{append(many, first), kept},
	} {
		f := accountsFake()
		f.answer["GetAccountHistory"] = func(context.Context, any) (proto.Message, error) {
			return &quoratev1.GetAccountHistoryResponse{Changes: c.changes}, nil
		}
		if _, body := get(New(Deps{Conn: f}), "/console/account?id="+accountName); !strings.Contains(body, c.want) {
			t.Errorf("%d changes: lacks %s in %s", len(c.changes), c.want, body[strings.Index(body, "t-changes"):])
		}
	}
}
