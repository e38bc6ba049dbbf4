package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPublishPrintsAnIDOrNothing keeps what a hub answers from steering the terminal.
func TestPublishPrintsAnIDOrNothing(t *testing.T) {
	for answer, ok := range map[string]bool{
		"urn:uuid:1":              true,
		"é":                       true,
		"\x1b]0;title\x07\x1b[2J": false,
		"a\u009bb":                false,
		"two\nlines":              false,
		"\xff":                    false,
		"left\u202eright to left": false,
	} {
		hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		var out bytes.Buffer
		cmd := newPublish()
		cmd.SetArgs([]string{"--hub", hub.URL, "--topic", "a"})
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		hub.Close()
		switch {
		case ok && (err != nil || out.String() != answer+"\n"):
			t.Errorf("%q: printed %q, %v", answer, out.String(), err)
		case !ok && (err == nil || !strings.Contains(err.Error(), "took the update") || strings.Contains(err.Error(), answer) || strings.Contains(out.String(), answer)):
			t.Errorf("%q: printed %q, error %v", answer, out.String(), err)
		}
	}
}
