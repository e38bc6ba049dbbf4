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
	return slog.New(slog.NewJSONHandler(w, o))
}
