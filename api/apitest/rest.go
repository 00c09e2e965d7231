package apitest

import (
	"context"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// fakeRest implements the methods of api.Node that Node does not support; most return errFake.
// The tests of those methods use other nodes.
type fakeRest struct{}

var errFake = status.Error(codes.Unimplemented, "the fake cannot do this")

func (fakeRest) Security() *rbac.Table { return &rbac.Table{} }

func (fakeRest) SetBinding(context.Context, rbac.Binding) (bool, error) { return false, errFake }

func (fakeRest) DeleteBinding(context.Context, rbac.Binding) (bool, error)    { return false, errFake }
func (fakeRest) AddToken(context.Context, rbac.Token) error                   { return errFake }
func (fakeRest) RevokeToken(context.Context, string) (bool, error)            { return false, errFake }
func (fakeRest) Backup(context.Context, io.Writer, func(done, all int)) error { return errFake }

func (fakeRest) ChangeCluster(context.Context, string, proto.Message) (proto.Message, error) {
	return nil, errFake
}

func (fakeRest) Attach(*attach.Hello, *attach.Outbox) (attach.Session, error) { return nil, errFake }

func (fakeRest) History(context.Context, history.Query) (history.Answer, error) {
	return history.Answer{}, errFake
}

func (fakeRest) HistoryKeys(context.Context, history.KeysQuery) (history.KeysAnswer, error) {
	return history.KeysAnswer{}, errFake
}

func (fakeRest) HistoryLimits(context.Context, history.Second, history.Second) ([]history.UsedLimit, history.Answer, error) {
	return nil, history.Answer{}, errFake
}

// CheckHeld decides nothing, so that the API calls Check for every request.
func (fakeRest) CheckHeld(quota.LimitName, []quota.Spend, []quota.Decision) {}
