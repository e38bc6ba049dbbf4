package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

func TestDurationsInTheLogCanBeRead(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var b strings.Builder
		app.NewLogger(&b, &app.Config{LogFormat: format, LogLevel: "info"}, false).Info("x", "drain_delay", 90*time.Second)
		if !strings.Contains(b.String(), "1m30s") {
			t.Errorf("%s: %s", format, &b)
		}
	}
}
