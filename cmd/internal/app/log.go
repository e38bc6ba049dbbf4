package app

import (
	"io"
	"log/slog"
)

// NewLogger makes the logger that c asks for; terminal says whether w is one.
func NewLogger(w io.Writer, c *Config, terminal bool) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // one of the names that the flag accepts
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "text" || (c.LogFormat == "auto" && terminal) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	o.ReplaceAttr = readable
	return slog.New(slog.NewJSONHandler(w, o))
}

// readable writes durations as in the settings, 1m30s, and not as a number of nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
