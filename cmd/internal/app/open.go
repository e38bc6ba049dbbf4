package app

import (
	"context"
	"fmt"
	"log/slog"
	"math"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

// openTransport opens the log that c names.
func openTransport(ctx context.Context, c *Config, log *slog.Logger) (transport.Transport, error) {
	if c.Transport == "memory" {
		limit := c.HistoryMaxBytes
		if limit == 0 {
			limit = math.MaxInt64 // memory's own zero is its default
		}
		messages := int(min(c.HistoryMaxMessages, math.MaxInt))
		return memory.New(memory.Options{MaxMessages: messages, MaxBytes: limit, MaxAge: c.HistoryMaxAge})
	}
	_, _ = ctx, log
	return nil, fmt.Errorf("transport %q is not built in", c.Transport)
}
