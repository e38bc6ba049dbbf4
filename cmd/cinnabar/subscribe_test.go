package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSubscribeTakesWhatAHubTakes has a hub whose --max-body is 30MiB, and then bounds of one's own.
func TestSubscribeTakesWhatAHubTakes(t *testing.T) {
	data := strings.Repeat("x", 30<<20)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+data+"\n\n")
	}))
	defer hub.Close()
	for name, tt := range map[string]struct {
		args  []string
		says  string // the error
		usage bool
	}{
		"by default":     {nil, "", false},
		"up to a bound":  {[]string{"--max-event=20MiB"}, "--max-event allows more than 20MiB", false},
		"without a size": {[]string{"--max-event=0"}, `--max-event: "0" must be a size`, true},
		"unreadable":     {[]string{"--max-event=big"}, `--max-event: "big" must be a size`, true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := newSubscribe()
			cmd.SetArgs(append([]string{"--hub", hub.URL, "--topic", "a", "--count", "1"}, tt.args...))
			cmd.SetOut(&out)
			cmd.SetErr(io.Discard)
			err := cmd.ExecuteContext(t.Context())
			if tt.says == "" {
				if err != nil || out.Len() != len(data)+1 {
					t.Errorf("%d bytes printed, want %d; %v", out.Len(), len(data)+1, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %q", err, tt.says)
			}
			if _, usage := errors.AsType[*usageError](err); usage != tt.usage {
				t.Errorf("a mistake of usage: %v, want %v", usage, tt.usage)
			}
		})
	}
}
