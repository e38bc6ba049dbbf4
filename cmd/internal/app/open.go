package app

import (
	"context"
	"log/slog"
	"math"
	"net/url"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/jetstream"
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
	hubURL := c.PublicURL
	if hubURL == nil { // as everywhere where the hub has to call itself something (MAT-09)
		hubURL = &url.URL{Scheme: "http", Host: "localhost", Path: c.HubPath}
	}
	return jetstream.Open(ctx, jetstream.Options{
		Dir: c.DataDir, SyncAlways: c.Sync.Always, SyncInterval: c.Sync.Every,
		MaxMessages: c.HistoryMaxMessages, MaxBytes: c.HistoryMaxBytes, MaxAge: c.HistoryMaxAge,
		PublishTimeout: c.PublishTimeout, MaxUpdateBytes: c.MaxBody, // the texts are never longer than the form they came in
		HubURL: hubURL, Logger: log,
	})
}
