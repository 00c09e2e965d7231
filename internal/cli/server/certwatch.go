package server

import (
	"context"
	"log/slog"
	"time"
)

// certificateLook is how often a node looks at its certificates, and says again what is
// wrong with them.
const certificateLook = time.Hour

// watch says what about the certificates works but should not stay, at once and every
// hour, until the context ends: they expire while the node runs.
func (sec *security) watch(ctx context.Context, log *slog.Logger) {
	if !sec.on() {
		return
	}
	tick := time.NewTicker(certificateLook)
	defer tick.Stop()
	for {
		for _, w := range sec.store.Warnings() {
			log.Warn("certificates: " + w)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
