package hub

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// TestBodiesThatAreNotWhole: nothing of them reaches the log.
//
// Covers: LIM-01, PUB-26.
func TestBodiesThatAreNotWhole(t *testing.T) {
	change, _, reg := observed(func(o *Options) { o.Limits.BodyBytes = 64 })
	n := startNode(t, change)
	long := "topic=a&data=" + strings.Repeat("x", 64)
	for name, c := range map[string]struct {
		head, body string
		status     int
		reason     string
	}{
		"chunked too large":     {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(long), long), 413, "body_too_large"},
		"chunked in small ones": {"Transfer-Encoding: chunked", "7\r\ntopic=a\r\n" + strings.Repeat("1\r\n&\r\n", 58) + "0\r\n\r\n", 413, "body_too_large"},
		"declared too large":    {"Content-Length: 65", long[:65], 413, "body_too_large"},
		"cut short":             {"Content-Length: 20", "topic=a", 400, "body_unreadable"},
		"chunked and cut short": {"Transfer-Encoding: chunked", "7\r\ntopic=a\r\n", 400, "body_unreadable"},
		"broken chunks":         {"Transfer-Encoding: chunked", "7\r\ntopic=a\r\nzz\r\n", 400, "body_unreadable"},
		"as long as allowed":    {"Content-Length: 64", long[:64], 200, ""},
		"chunked, as allowed":   {"Transfer-Encoding: chunked", "40\r\n" + long[:64] + "\r\n0\r\n\r\n", 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := series(t, reg, "cinnabar_refused_total", "action", "publish", "reason", c.reason)
			conn := n.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n%s\r\n\r\n%s", spec.DefaultHubPath, formType, c.head, c.body)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if body := slurp(t, res); res.StatusCode != c.status {
				t.Errorf("%d %s, want %d", res.StatusCode, body, c.status)
			}
			if c.reason != "" && series(t, reg, "cinnabar_refused_total", "action", "publish", "reason", c.reason) != before+1 {
				t.Errorf("not counted as %s", c.reason)
			}
		})
	}
	if span, err := n.log.Span(t.Context()); err != nil || span.Last != 2 {
		t.Errorf("the log holds %d, %v; want 2", span.Last, err)
	}
}

// TestSlowBody: who stops in the middle is refused after a while.
//
// Covers: ERR-12, LIM-12.
func TestSlowBody(t *testing.T) {
	for _, method := range []string{http.MethodPost, spec.MethodQuery} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, nil)
			body := &stuckBody{expired: make(chan struct{})}
			w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), body: body}
			r := httptest.NewRequestWithContext(t.Context(), method, spec.DefaultHubPath, body)
			r.Header.Set("Content-Type", formType)
			start := time.Now()
			n.Handler().ServeHTTP(w, r)
			if w.Code != http.StatusBadRequest || time.Since(start) != bodyTimeout || !strings.Contains(w.Body.String(), "too slowly") {
				t.Errorf("%s: %d %s after %v", method, w.Code, w.Body, time.Since(start))
			}
		})
	}
}

// stuckBody gives a few bytes and then nothing until its deadline.
type stuckBody struct {
	given   bool
	expired chan struct{}
}

func (b *stuckBody) Read(p []byte) (int, error) {
	if !b.given {
		b.given = true
		return copy(p, "topic=a"), nil
	}
	<-b.expired
	return 0, os.ErrDeadlineExceeded
}

// stuckWriter applies the handler's read deadline to a stuckBody.
type stuckWriter struct {
	*httptest.ResponseRecorder
	body *stuckBody
}

func (w *stuckWriter) SetReadDeadline(d time.Time) error {
	if !d.IsZero() {
		time.AfterFunc(time.Until(d), func() { close(w.body.expired) })
	}
	return nil
}
