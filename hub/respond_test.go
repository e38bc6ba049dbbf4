package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// denier is an Authorizer that refuses everybody for want of a token.
type denier struct{}

func (denier) Authorize(*http.Request, spec.Action) (*auth.Grant, error) {
	return nil, &spec.Problem{Status: http.StatusUnauthorized, Reason: auth.ReasonNoToken, Challenge: true, Detail: "a token is required"}
}

// failer is an Authorizer that fails with whatever the test wants to see rendered.
type failer struct{ err error }

func (f failer) Authorize(*http.Request, spec.Action) (*auth.Grant, error) { return nil, f.err }

const testKey = "a key that is long enough for HS256, for tests only"

// closedDoor is the real Authorizer with one key for both roles.
func closedDoor(t *testing.T) auth.Authorizer {
	t.Helper()
	keys, err := auth.ParseKey("publisher", testKey, "", false)
	if err != nil {
		t.Fatal(err)
	}
	j, err := auth.New(auth.Options{Publisher: keys, Subscriber: keys, QueryToken: auth.QueryTokenAll})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// mint makes a token for closedDoor; selectors are granted for both roles.
func mint(t *testing.T, key string, ttl time.Duration, selectors ...string) string {
	t.Helper()
	token, err := auth.Mint(auth.MintOptions{Key: key, Publish: selectors, Subscribe: selectors, Subject: "tester", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// startClosedNode is startNode behind closedDoor, with a token that may do everything.
func startClosedNode(t *testing.T, change func(*Options)) (*node, string) {
	t.Helper()
	n := startNode(t, func(o *Options) {
		o.Authorizer = closedDoor(t)
		if change != nil {
			change(o)
		}
	})
	return n, mint(t, testKey, time.Hour, "*")
}

// Covers: ERR-10, ERR-12, SEC-12, PUB-24.
func TestErrorsBecomeStatuses(t *testing.T) {
	const secret = "dial tcp 10.1.2.3:4222: internal library text"
	wrapped := func(err error) error { return fmt.Errorf("jetstream: append: %w: %s", err, secret) }
	for name, c := range map[string]struct {
		err        error
		status     int
		reason     string
		retryAfter string
	}{
		"no space":            {wrapped(transport.ErrFull), 507, "storage_full", "10"},
		"too large":           {wrapped(transport.ErrTooLarge), 413, "update_too_large", ""},
		"unavailable":         {wrapped(transport.ErrUnavailable), 503, "transport_unavailable", "2"},
		"closed":              {wrapped(transport.ErrClosed), 503, "transport_unavailable", "2"},
		"deadline":            {wrapped(context.DeadlineExceeded), 503, "transport_unavailable", "2"},
		"cancelled":           {wrapped(context.Canceled), 503, "transport_unavailable", "2"},
		"unknown":             {errors.New(secret), 500, "internal", ""},
		"a problem":           {spec.BadRequest("some_reason", "the field is wrong"), 400, "some_reason", ""},
		"a wrapped problem":   {fmt.Errorf("%s: %w", secret, spec.TooLarge("some_reason", "too much")), 413, "some_reason", ""},
		"a cause is private":  {&spec.Problem{Status: 503, Reason: "some_reason", Detail: "later", RetryAfter: time.Second, Cause: errors.New(secret)}, 503, "some_reason", "1"},
		"a fraction of a sec": {&spec.Problem{Status: 429, Reason: "some_reason", Detail: "later", RetryAfter: 1200 * time.Millisecond}, 429, "some_reason", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			change, book, reg := observed(func(o *Options) { o.Authorizer = failer{c.err} })
			n := newNode(t, change)
			for _, accept := range []string{"", "*/*", "application/problem+json"} {
				w := n.post("topic=a", "Accept", accept)
				if w.Code != c.status {
					t.Errorf("status %d, want %d", w.Code, c.status)
				}
				if got := w.Header().Get("Retry-After"); got != c.retryAfter {
					t.Errorf("Retry-After %q, want %q", got, c.retryAfter)
				}
				for name, want := range map[string]string{
					"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Length": strconv.Itoa(w.Body.Len()),
				} {
					if got := w.Header().Get(name); got != want {
						t.Errorf("%s is %q, want %q", name, got, want)
					}
				}
				if strings.Contains(w.Body.String(), "4222") || strings.Contains(fmt.Sprint(w.Header()), "4222") {
					t.Errorf("the private cause is in the answer: %s", w.Body)
				}
			}
			if got := series(t, reg, "cinnabar_refused_total", "action", "publish", "reason", c.reason); got != 3 {
				t.Errorf("counted %v times, want 3", got)
			}
			if p := asProblem(c.err); p.Cause != nil && !strings.Contains(book.String(), "4222") {
				t.Errorf("the cause is not in the log: %s", book)
			}
		})
	}
}

// Covers: ERR-08, ERR-09.
func TestRefusalFormats(t *testing.T) {
	const detail = `the field "retry" must consist of digits`
	for name, c := range map[string]struct {
		accept []string
		json   bool
	}{
		"no Accept":         {nil, false},
		"anything":          {[]string{"*/*"}, false},
		"any application":   {[]string{"application/*"}, false},
		"plain JSON":        {[]string{"application/json"}, false},
		"problem":           {[]string{"application/problem+json"}, true},
		"in capitals":       {[]string{"Application/Problem+JSON"}, true},
		"with a weight":     {[]string{"text/html, application/problem+json;q=0.8"}, true},
		"in a second field": {[]string{"text/html", " application/problem+json"}, true},
		"refused":           {[]string{"application/problem+json; q=0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			change, book, _ := observed(func(o *Options) { o.Authorizer = failer{spec.BadRequest("invalid_retry", "%s", detail)} })
			n := newNode(t, change)
			var headers []string
			for _, a := range c.accept {
				headers = append(headers, "Accept", a)
			}
			w := n.post("topic=a", headers...)
			id := w.Header().Get(spec.HeaderRequestID)
			if id == "" {
				t.Fatal("no request id")
			}
			line := book.only(t, "request refused")
			for key, want := range map[string]string{
				"request_id": id, "action": "publish", "status": "400", "reason": "invalid_retry", "detail": detail,
			} {
				if line.attrs[key] != want {
					t.Errorf("log: %s is %q, want %q", key, line.attrs[key], want)
				}
			}
			if line.level.String() != "INFO" {
				t.Errorf("logged at %s", line.level)
			}
			if !c.json {
				if got, want := w.Body.String(), "Bad Request: "+detail+" (request "+id+")\n"; got != want {
					t.Errorf("body %q, want %q", got, want)
				}
				if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
					t.Errorf("Content-Type %q", got)
				}
				return
			}
			if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type %q", got)
			}
			var p struct {
				Type, Title, Detail, Reason string
				Status                      int
				RequestID                   string `json:"request_id"`
			}
			dec := json.NewDecoder(w.Body)
			dec.DisallowUnknownFields()
			if err := dec.Decode(&p); err != nil {
				t.Fatal(err)
			}
			if p.Type != "about:blank" || p.Title != "Bad Request" || p.Status != 400 || p.Detail != detail || p.Reason != "invalid_retry" || p.RequestID != id {
				t.Errorf("problem %+v", p)
			}
		})
	}
}

// TestRequestIDIsOurs: a client cannot write its own into our log.
func TestRequestIDIsOurs(t *testing.T) {
	n := newNode(t, nil)
	a := n.post("topic=a", spec.HeaderRequestID, "mine").Header().Get(spec.HeaderRequestID)
	b := n.post("topic=a", spec.HeaderRequestID, "mine").Header().Get(spec.HeaderRequestID)
	if a == "" || a == "mine" || a == b {
		t.Errorf("request ids %q, %q", a, b)
	}
}

// Covers: SUB-05, ERR-12.
func TestHeadHasNoBody(t *testing.T) {
	n := startNode(t, nil)
	for query, status := range map[string]int{"?topic=a": 200, "": 400} {
		w := n.serve(http.MethodHead, spec.DefaultHubPath+query, "")
		if w.Code != status || w.Body.Len() != 0 {
			t.Errorf("HEAD %q: %d with %d bytes of body, want %d with none", query, w.Code, w.Body.Len(), status)
		}
	}
	if n.open.total != 0 {
		t.Errorf("%d streams are open", n.open.total)
	}
}

// Covers: ERR-01, ERR-02, ERR-03, ERR-04, ERR-06, PUB-27, AUT-03.
func TestChallenges(t *testing.T) {
	n, _ := startClosedNode(t, nil)
	narrow := mint(t, testKey, time.Hour, "b")
	for name, c := range map[string]struct {
		headers   []string
		status    int
		challenge string
	}{
		"no token":       {nil, 401, `Bearer`},
		"a foreign key":  {[]string{"Authorization", "Bearer " + mint(t, testKey+"!", time.Hour, "*")}, 401, `Bearer error="invalid_token"`},
		"expired":        {[]string{"Authorization", "Bearer " + mint(t, testKey, -time.Hour, "*")}, 401, `Bearer error="invalid_token"`},
		"another scheme": {[]string{"Authorization", "Basic eDp5"}, 400, `Bearer error="invalid_request"`},
		"not granted":    {[]string{"Authorization", "Bearer " + narrow}, 403, `Bearer error="insufficient_scope"`},
		"malformed":      {[]string{"Authorization", "Bearer x.y.z"}, 401, `Bearer error="invalid_token"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := n.post("topic=b&topic=a", c.headers...)
			if w.Code != c.status {
				t.Errorf("status %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if got := w.Header().Get("WWW-Authenticate"); got != c.challenge {
				t.Errorf("challenge %q, want %q", got, c.challenge)
			}
		})
	}
	if span, err := n.log.Span(t.Context()); err != nil || span.Last != 0 {
		t.Errorf("something was appended: %+v, %v", span, err)
	}
}
