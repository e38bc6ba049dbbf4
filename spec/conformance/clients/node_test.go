package clients_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// packages installs what package-lock.json names, once, in the folder itself, so that a second run needs no network.
var packages = sync.OnceValue(func() error {
	if installed("package-lock.json", filepath.Join("node_modules", ".package-lock.json")) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts").CombinedOutput()
	if err != nil {
		return errors.New("npm ci: " + err.Error() + "\n" + string(out))
	}
	return nil
})

func installed(lock, marker string) bool {
	l, err := os.Stat(lock)
	if err != nil {
		return false
	}
	m, err := os.Stat(marker)
	return err == nil && !m.ModTime().Before(l.ModTime())
}

// node starts client.mjs with a library and waits until it has a stream.
func node(t *testing.T, h *child.Hub, library, topic string) *lines {
	t.Helper()
	program := child.Require(t, "node", "nodejs")
	child.Require(t, "npm")
	if err := packages(); err != nil {
		child.Missing(t, "the npm packages cannot be installed: %v", err)
	}
	l := run(t, program, "client.mjs", library, h.URL+"?topic="+url.QueryEscape(topic), child.Token(t))
	child.Eventually(t, patience, func() error {
		if !slices.ContainsFunc(l.said(t), func(s said) bool { return s.What == "open" }) {
			return errors.New("the client has no stream")
		}
		return nil
	})
	return l
}

// Covers: REC-01, SUB-28, SSE-W12, SSE-W6.
func TestRealClientOfNpmResumes(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"eventsource", "fetch-event-source"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			h := child.New(t, "--retry", "200ms")
			h.Start()
			topic := "https://example.com/" + library
			l := node(t, h, library, topic)
			story(t, h, topic, func() []string { return l.messages(t) })
			for _, s := range l.said(t) {
				if s.What == "closed" {
					t.Error("the client gave up")
				}
				if s.What == "message" && s.ID == "" {
					t.Errorf("the client reported a message without id, %q: an empty event on the wire", s.Data)
				}
			}
		})
	}
}

// The library shows the answer's head to its user, who compares the cursor with the one asked for.
// Covers: REC-09, REC-12.
func TestRealClientOfNpmReadsTheCursor(t *testing.T) {
	h := child.New(t, "--retry", "200ms")
	h.Start()
	topic := "https://example.com/cursor"
	l := node(t, h, "fetch-event-source", topic)
	id := h.Must(topic, "before")
	child.Eventually(t, patience, func() error {
		if len(l.messages(t)) == 0 {
			return errors.New("nothing arrived")
		}
		return nil
	})
	h.Kill()
	h.Start()
	child.Eventually(t, patience, func() error {
		if !slices.ContainsFunc(l.said(t), func(s said) bool { return s.What == "open" && s.Cursor == id }) {
			return errors.New("the client has not seen its cursor " + id + " confirmed")
		}
		return nil
	})
}
