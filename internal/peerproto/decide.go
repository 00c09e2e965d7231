package peerproto

import (
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// EncodeAsk returns the message for a decide request.
func EncodeAsk(a *quota.Ask) *peerv1.Ask {
	return &peerv1.Ask{
		Namespace: a.Key.Namespace, Limit: a.Key.Limit, Key: a.Key.Key,
		Cost: int64(a.Cost), MaxWaitNanos: int64(a.MaxWait), Overdrawn: int64(a.Overdrawn),
		Id: uint64(a.ID), Held: int64(a.Held),
	}
}

// DecodeAsk decodes a decide request. The message does not carry the sender.
func DecodeAsk(a *peerv1.Ask) quota.Ask {
	return quota.Ask{
		Key: quota.Key{LimitName: quota.LimitName{Namespace: a.GetNamespace(), Limit: a.GetLimit()}, Key: a.GetKey()}, Cost: quota.Units(a.GetCost()),
		MaxWait: time.Duration(a.GetMaxWaitNanos()), Overdrawn: quota.Units(a.GetOverdrawn()),
		ID: quota.Seq(a.GetId()), Held: quota.Units(a.GetHeld()),
	}
}

// EncodeAnswer returns the message for a leader's decision.
func EncodeAnswer(a quota.Answer) *peerv1.AskAnswer {
	return &peerv1.AskAnswer{
		Term: uint64(a.Term), Allowed: a.Allowed, Why: uint32(a.Why), WaitNanos: int64(a.Wait), Level: int64(a.Level),
		RetryAfterNanos: int64(a.RetryAfter), ResetAfterNanos: int64(a.ResetAfter), Aside: int64(a.Aside), WindowStartUnixNanos: int64(a.WindowStart),
		Report: a.Report, AtUnixNanos: int64(a.At), Epoch: uint64(a.Epoch), Used: int64(a.Used), Refunded: int64(a.Refunded),
	}
}

// DecodeAnswer decodes a leader's decision.
func DecodeAnswer(a *peerv1.AskAnswer) quota.Answer {
	return quota.Answer{
		Term: quota.Term(a.GetTerm()), Allowed: a.GetAllowed(), Why: quota.Why(min(a.GetWhy(), 255)), Wait: time.Duration(a.GetWaitNanos()), Level: quota.Units(a.GetLevel()),
		RetryAfter: time.Duration(a.GetRetryAfterNanos()), ResetAfter: time.Duration(a.GetResetAfterNanos()), Aside: quota.Units(min(max(0, a.GetAside()), int64(quota.Most))),
		WindowStart: quota.Time(a.GetWindowStartUnixNanos()), Report: a.GetReport(), At: quota.Time(a.GetAtUnixNanos()),
		Epoch: quota.Seq(a.GetEpoch()), Used: quota.Units(min(max(0, a.GetUsed()), int64(quota.Most))), Refunded: quota.Units(min(max(0, a.GetRefunded()), int64(quota.Most))),
	}
}
