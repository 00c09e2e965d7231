package rest

import (
	"strconv"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// appendAllow writes an AllowResponse as apijson.Format would, without building a message. The only
// difference is retry_after: 0 if allowed, null if the request can never pass.
func appendAllow(b []byte, r *api.Prepared, d *quota.Decision) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	b = append(append(b, `,"limit":`...), r.JSON...)
	b = strconv.AppendInt(append(b, `,"remaining":`...), d.Remaining, 10)
	b = append(b, `,"retry_after":`...)
	switch {
	case d.Allowed:
		b = append(b, '0')
	case d.RetryAfter == apiproto.Never:
		b = append(b, "null"...)
	default:
		b = strconv.AppendFloat(b, d.RetryAfter.Seconds(), 'f', -1, 64)
	}
	b = append(append(b, `,"why":"`...), d.Why.String()...)
	b = appendPause(append(b, `","wait":`...), d.Wait)
	b = strconv.AppendBool(append(b, `,"shadow":`...), d.Shadow)
	b = strconv.AppendBool(append(b, `,"near":`...), d.Near)
	b = appendPause(append(b, `,"reset_after":`...), d.ResetAfter)
	b = strconv.AppendInt(append(b, `,"tier":`...), int64(d.Tier), 10)
	return append(b, '}')
}

// appendPause writes a duration, or null for zero, a negative duration or apiproto.Never.
func appendPause(b []byte, d time.Duration) []byte {
	if d <= 0 || d == apiproto.Never {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, d.Seconds(), 'f', -1, 64)
}
