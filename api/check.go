package api

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// Check is one check, as either transport received it.
type Check struct {
	Key          quota.Key
	Cost         int64
	Wait         time.Duration
	Costs        bool // cost was given
	Waits        bool // wait was given
	Named        bool // the caller of this package has validated namespace and limit
	Method, Path string
}

// plain reports whether the node's fast path can decide the check.
func (c *Check) plain(cost int64) bool {
	return cost > 0 && !c.Waits && c.Method == "" && c.Path == ""
}

// NoRule is the rule of a request that no limit applies to.
var NoRule = &Prepared{JSON: []byte("null")}

// QuotaService decides checks.
type QuotaService struct {
	quoratev1.UnimplementedQuotaServiceServer
	*core
	node quotaNode
}

// Decide validates, decides and counts a check. The error is nil if there is a decision.
func (s *QuotaService) Decide(c *Check) (quota.Decision, *Prepared, error) {
	cost, err := c.validate()
	if err != nil {
		return quota.Decision{}, nil, err
	}
	if !c.plain(cost) {
		return s.decideOne(c)
	}
	d := s.node.Check(c.Key, cost)
	if d.Limit == nil {
		s.Meter.noLimit.Inc()
		return d, nil, s.noLimit(c.Key.LimitName)
	}
	r := s.count(&d, 1)
	return d, r, nil
}

// CheckHeld decides checks of one limit as far as the node holds enough for them, as HeldChecker
// documents.
func (s *QuotaService) CheckHeld(limit quota.LimitName, checks []quota.Spend, out []quota.Decision) {
	s.node.CheckHeld(limit, checks, out)
}

// Prepared returns the rule of the limit that made a decision.
func (s *QuotaService) Prepared(l *quota.Limit) *Prepared {
	return s.Meter.rules.of(l, s.node.Limits())
}

// count counts a decision that was made times times, and returns the rule of its limit.
func (s *QuotaService) count(d *quota.Decision, times uint64) *Prepared {
	r := s.Prepared(d.Limit)
	r.Counts.Add(d, times)
	return r
}

// Seen counts a decision that another protocol made times times.
func (s *QuotaService) Seen(d *quota.Decision, times uint64) {
	if d.Limit == nil {
		s.Meter.noLimit.Add(float64(times))
		return
	}
	s.count(d, times)
}

func (c *Check) validate() (cost int64, err error) {
	if c.Method != "" || c.Path != "" {
		if err := c.validateHTTP(); err != nil {
			return 0, err
		}
	}
	if err := c.ValidateNames(); err != nil {
		return 0, err
	}
	if err := apiproto.CheckKey(&c.Key.Key); err != nil {
		return 0, err
	}
	if c.Wait < 0 || c.Wait > quota.MaxPause {
		return 0, apierr.Invalid("max_wait", "%v; must be 0 to %v", c.Wait, quota.MaxPause)
	}
	if !c.Costs {
		return 1, nil
	}
	if c.Cost < 0 || c.Cost > quota.MaxTokens {
		return 0, apierr.Invalid("cost", "%d; must be 0 (which only asks) to %d, or absent for 1", c.Cost, quota.MaxTokens)
	}
	return c.Cost, nil
}

// ValidateNames validates the names of the namespace and the limit. It skips the limit if an HTTP
// method or path chooses it.
func (c *Check) ValidateNames() error {
	if c.Named {
		return nil
	}
	if c.Method == "" && c.Path == "" {
		if err := quota.CheckName("limit", c.Key.LimitName.Limit); err != nil {
			return apierr.InvalidName("limit", err)
		}
	}
	if err := quota.CheckName("namespace", c.Key.Namespace); err != nil {
		return apierr.InvalidName("namespace", err)
	}
	return nil
}

// validateHTTP validates a check by HTTP method and path.
func (c *Check) validateHTTP() error {
	if c.Key.LimitName.Limit != "" {
		return apierr.Invalid("limit", "is %q, but method and path choose the limits; give one or the other", apierr.Clip(c.Key.LimitName.Limit))
	}
	c.Key.Namespace = c.Namespace()
	switch {
	case c.Method == "" || len(c.Method) > quota.MaxNameLen:
		return apierr.Invalid("method", "is %d bytes; must be an HTTP method such as GET", len(c.Method))
	case len(c.Path) == 0 || c.Path[0] != '/':
		return apierr.Invalid("path", "is %q; must begin with /", apierr.Clip(c.Path))
	case len(c.Path) > MaxPath:
		return apierr.Invalid("path", "is %d bytes; at most %d", len(c.Path), MaxPath)
	}
	return nil
}

// MaxPath is the longest path of an HTTP request, in bytes.
const MaxPath = 8 << 10

// CheckBatchSize returns an error unless a batch may have n checks.
func CheckBatchSize(n int) error {
	if n < 1 || n > apiproto.MaxBatch {
		return apierr.Invalid("checks", "%d checks; must be 1 to %d in one call", n, apiproto.MaxBatch)
	}
	return nil
}

// Response converts a decision to an answer.
func (r *Prepared) Response(d *quota.Decision) *quoratev1.AllowResponse {
	out := &quoratev1.AllowResponse{
		Allowed: d.Allowed, Limit: r.PB, Remaining: d.Remaining, Why: quoratev1.Why(d.Why),
		Wait: apiproto.Pause(d.Wait), Shadow: d.Shadow, Near: d.Near, ResetAfter: apiproto.Pause(d.ResetAfter), Tier: int32(d.Tier),
	}
	if !d.Allowed && d.RetryAfter != apiproto.Never && d.Limit != nil {
		out.RetryAfter = durationpb.New(d.RetryAfter)
	}
	return out
}

// parseLimits parses a limit file. The limits are sorted, and valid together.
func (s *LimitService) parseLimits(source string, data []byte) ([]quota.Limit, error) {
	if len(data) > apiproto.MaxLimitsFile {
		return nil, apierr.TooLarge(apiproto.MaxLimitsFile)
	}
	if source == "" {
		source = "limits"
	}
	limits, err := s.Opts.ParseLimits(source, data)
	if err != nil {
		return nil, invalidFile(err)
	}
	set, err := quota.NewLimits(0, limits)
	if err != nil {
		return nil, invalidFile(err)
	}
	return set.All(), nil
}

// reasonFile is the reason of an error in a limit file.
const reasonFile = "INVALID_LIMIT_FILE"

func invalidFile(err error) *apierr.Error {
	f := apierr.Invalid("yaml", "%s", err.Error())
	f.Reason = reasonFile
	return f
}

// checkTop validates a TopRates request and fills in its default.
func (s *RateService) checkTop(req *quoratev1.TopRatesRequest) error {
	if req.Top < 0 || req.Top > apiproto.MaxTop {
		return apierr.Invalid("top", "%d; must be 1 to %d, or 0 for %d", req.Top, apiproto.MaxTop, apiproto.DefaultTop)
	}
	if req.Top == 0 {
		req.Top = apiproto.DefaultTop
	}
	if err := checkOrder(req); err != nil {
		return err
	}
	if req.Namespace != "" {
		if err := quota.CheckName("namespace", req.Namespace); err != nil {
			return apierr.InvalidName("namespace", err)
		}
	}
	if req.Limit == "" {
		return nil
	}
	if req.Namespace == "" {
		return apierr.Invalid("namespace", "is empty, but limit is %q; give the limit's namespace too", req.Limit)
	}
	if err := quota.CheckName("limit", req.Limit); err != nil {
		return apierr.InvalidName("limit", err)
	}
	return nil
}

// checkOrder validates the order and the key prefix of a TopRates request.
func checkOrder(req *quoratev1.TopRatesRequest) error {
	if quoratev1.RateOrder_name[int32(req.Order)] == "" {
		_, words := apijson.EnumOf(req.Order.Descriptor(), "")
		return apierr.Invalid("order", "%d; must be one of %s", req.Order, strings.Join(words, ", "))
	}
	if n := len(req.KeyPrefix); n > quota.MaxKeyLen {
		return apierr.Invalid("key_prefix", "is %d bytes; at most %d", n, quota.MaxKeyLen)
	}
	return nil
}

// Namespace returns the namespace in which the check is authorized and decided.
func (c *Check) Namespace() string { return quota.NamespaceOf(c.Key.Namespace, c.Method, c.Path) }

// Namespaces yields the namespace of the check.
func (c *Check) Namespaces(yield func(string) bool) { yield(c.Namespace()) }
