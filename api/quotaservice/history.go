package quotaservice

import (
	"errors"
	"net/http"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds of a history.
const (
	maxVersions      = 100
	maxHistoryLimits = 100_000 // of all its versions; the newest is always included
)

type configsResponse struct {
	Configs []*serviceConfig `json:"configs"`
}

// history returns the newest versions, newest first.
func (h *handler) history(r *http.Request) (any, *fault) {
	versions, err := h.node.LimitVersions(r.Context(), 0, maxVersions)
	if err != nil {
		return nil, unavailable(err)
	}
	out := configsResponse{Configs: []*serviceConfig{}}
	room := maxHistoryLimits
	for _, v := range versions {
		if room -= v.Limits; room < 0 && len(out.Configs) > 0 {
			break
		}
		v, limits, err := h.node.LimitsAt(r.Context(), v.Number)
		if _, gone := errors.AsType[*quota.UnknownVersionError](err); gone {
			break // the history has moved on since the listing, so older versions are gone too
		}
		if err != nil {
			return nil, unavailable(err)
		}
		out.Configs = append(out.Configs, service(v, limits))
	}
	return out, nil
}
