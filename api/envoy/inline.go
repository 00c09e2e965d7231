package envoy

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// inlineLimit returns the name of the limit of n per period, in windows aligned to the Unix epoch.
// Every node derives the same name.
func inlineLimit(namespace string, n int64, per time.Duration) (quota.LimitName, error) {
	w := quota.Window(quota.FixedWindow, n, per)
	return quota.Inline{Kind: w.Kind, Rate: w.Rate, Burst: w.Burst}.Name(namespace)
}
