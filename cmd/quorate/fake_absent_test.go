package main

import (
	"context"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// absent returns errAbsent from the methods that a fakeCluster does not support.
type absent struct{}

var errAbsent = status.Error(codes.Unimplemented, "the fake cannot do this")

func (absent) Security() *rbac.Table                                  { return &rbac.Table{} }
func (absent) SetBinding(context.Context, rbac.Binding) (bool, error) { return false, errAbsent }

func (absent) DeleteBinding(context.Context, rbac.Binding) (bool, error)    { return false, errAbsent }
func (absent) AddToken(context.Context, rbac.Token) error                   { return errAbsent }
func (absent) RevokeToken(context.Context, string) (bool, error)            { return false, errAbsent }
func (absent) Backup(context.Context, io.Writer, func(done, all int)) error { return errAbsent }

func (absent) Attach(*attach.Hello, *attach.Outbox) (attach.Session, error) { return nil, errAbsent }

func (absent) History(context.Context, history.Query) (history.Answer, error) {
	return history.Answer{}, errAbsent
}

func (absent) HistoryKeys(context.Context, history.KeysQuery) (history.KeysAnswer, error) {
	return history.KeysAnswer{}, errAbsent
}

func (absent) HistoryLimits(context.Context, history.Second, history.Second) ([]history.UsedLimit, history.Answer, error) {
	return nil, history.Answer{}, errAbsent
}

// CheckHeld decides nothing, and so leaves all checks to Check.
func (absent) CheckHeld(quota.LimitName, []quota.Spend, []quota.Decision) {}
