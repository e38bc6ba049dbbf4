package hub

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// logbook is a slog.Handler that remembers every line, to search it and to wait for it.
type logbook struct {
	mu      sync.Mutex
	lines   []logLine
	text    bytes.Buffer // the same lines as an operator reads them
	changed chan struct{}
}

// logLine is one line; attrs are rendered with %v.
type logLine struct {
	level slog.Level
	msg   string
	attrs map[string]string
}

func newLogbook() *logbook { return &logbook{changed: make(chan struct{})} }

func (b *logbook) Enabled(context.Context, slog.Level) bool { return true }
func (b *logbook) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *logbook) WithGroup(string) slog.Handler            { return b }

func (b *logbook) Handle(ctx context.Context, r slog.Record) error {
	line := logLine{level: r.Level, msg: r.Message, attrs: map[string]string{}}
	r.Attrs(func(a slog.Attr) bool {
		line.attrs[a.Key] = fmt.Sprint(a.Value.Any())
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	close(b.changed)
	b.changed = make(chan struct{})
	return slog.NewTextHandler(&b.text, &slog.HandlerOptions{Level: slog.LevelDebug}).Handle(ctx, r)
}

// all returns the lines with this message.
func (b *logbook) all(msg string) []logLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []logLine
	for _, l := range b.lines {
		if l.msg == msg {
			found = append(found, l)
		}
	}
	return found
}

// only returns the single line with this message.
func (b *logbook) only(t *testing.T, msg string) logLine {
	t.Helper()
	found := b.all(msg)
	if len(found) != 1 {
		t.Fatalf("%d lines %q, want one", len(found), msg)
	}
	return found[0]
}

// String returns everything that was logged.
func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await waits until the message has been logged n times.
func (b *logbook) await(t *testing.T, msg string, n int) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		if len(b.all(msg)) >= n {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%q was not logged %d times:\n%s", msg, n, b)
		}
	}
}

// observed adds a logbook and a registry to the options of a node.
func observed(change func(*Options)) (func(*Options), *logbook, *prometheus.Registry) {
	book, reg := newLogbook(), prometheus.NewRegistry()
	return func(o *Options) {
		o.Logger, o.Metrics = slog.New(book), metrics.New(reg)
		if change != nil {
			change(o)
		}
	}, book, reg
}

// series returns the value of a counter or gauge, 0 if it has none yet; labels alternate names and values.
func series(t *testing.T, reg prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	one:
		for _, m := range f.GetMetric() {
			for i := 0; i+1 < len(labels); i += 2 {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				if !found {
					continue one
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return 0
}

// serve gives one request to the handler, without a network. headers alternate names and values.
func (n *node) serve(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	n.t.Helper()
	r, w := newExchange(n.t, method, target, body)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	n.Handler().ServeHTTP(w, r)
	return w
}

func newExchange(t testing.TB, method, target, body string) (*http.Request, *httptest.ResponseRecorder) {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)), httptest.NewRecorder()
}

// post publishes a form through the handler.
func (n *node) post(form string, headers ...string) *httptest.ResponseRecorder {
	n.t.Helper()
	return n.serve(http.MethodPost, spec.DefaultHubPath, form, append([]string{"Content-Type", formType}, headers...)...)
}

// slurp reads and closes the body of an answer.
func slurp(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
