package grpclimit

import (
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/internal/fields"
	"github.com/quorate/quorate/client/internal/gate"
)

// failure returns the status of a call that does not pass; nil if it does.
func failure(res *client.Result, outcome gate.Outcome, err error) error {
	switch outcome {
	case gate.Pass:
		return nil
	case gate.Refuse:
		return refusal(res)
	case gate.Fault:
		return status.Error(codes.InvalidArgument, err.Error())
	case gate.Drop:
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, "the rate limiter has no answer")
}

func refusal(res *client.Result) error {
	v := &errdetails.QuotaFailure_Violation{
		Subject:     "limit:" + res.Limit.Namespace + "/" + res.Limit.Name,
		Description: fields.Detail(res),
		QuotaId:     res.Limit.Name,
	}
	if p := fields.Refuser(res); p != nil {
		v.QuotaId, v.QuotaValue = p.Name, p.Quota
	}
	details := []protoadapt.MessageV1{&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{v}}}
	if res.RetryAfter != client.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(res.RetryAfter)})
	}
	st := status.New(codes.ResourceExhausted, v.Description)
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st.Err()
}

// metadataOf returns the metadata of an admitted call; nil for none.
func (c *config) metadataOf(res *client.Result) metadata.MD {
	if c.silent || len(res.Policies) == 0 {
		return nil
	}
	var buf [128]byte
	return metadata.MD{
		"ratelimit":        {string(fields.RateLimit(buf[:0], res))},
		"ratelimit-policy": c.writer.Policy(res),
	}
}

// trailer returns the metadata of a refused call.
func (c *config) trailer(res *client.Result) metadata.MD {
	md := c.metadataOf(res)
	if md == nil {
		md = make(metadata.MD, 2)
	}
	s, ok := fields.RetryAfter(res)
	if !ok {
		md.Set("grpc-retry-pushback-ms", "-1")
		return md
	}
	md.Set("retry-after", strconv.FormatInt(s, 10))
	ms := min((res.RetryAfter-1)/time.Millisecond+1, 1<<31-1)
	md.Set("grpc-retry-pushback-ms", strconv.FormatInt(int64(ms), 10))
	return md
}
