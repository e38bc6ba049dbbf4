// Package client publishes to and subscribes at any Mercure hub over HTTP. It is what the commands, the
// load generator and the conformance suite use, and it shares nothing with the hub but the protocol.
package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

const (
	maxAnswer     = 16 << 10         // bytes read of an answer that is not a stream
	maxRetryAfter = 10 * time.Minute // a longer Retry-After is taken for this
)

// Error is an answer of the hub that is not the one asked for.
type Error struct {
	Status     int
	Detail     string        // what the hub said, one printable line; empty if it said nothing readable
	Challenge  string        // WWW-Authenticate, empty for none
	RequestID  string        // ties the answer to the hub's log, printable; empty for none
	RetryAfter time.Duration // 0 = the hub named none
}

// Error gives the status, the hub's words and the request id.
func (e *Error) Error() string {
	s := fmt.Sprintf("hub answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.RequestID != "" {
		s += " (request " + e.RequestID + ")"
	}
	return s
}

// Temporary reports whether the same request may succeed later: 408, 425, 429 and every 5xx.
func (e *Error) Temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= http.StatusInternalServerError
}

// readError makes an Error of resp, whose body it reads and does not close.
func readError(resp *http.Response) *Error {
	e := &Error{
		Status:    resp.StatusCode,
		Challenge: resp.Header.Get("WWW-Authenticate"),
		RequestID: printable(resp.Header.Get(spec.HeaderRequestID)),
	}
	if after := resp.Header.Get("Retry-After"); after != "" {
		if s, err := strconv.ParseUint(after, 10, 32); err == nil {
			e.RetryAfter = min(time.Duration(s)*time.Second, maxRetryAfter)
		} else if at, err := http.ParseTime(after); err == nil {
			e.RetryAfter = min(max(0, time.Until(at)), maxRetryAfter)
		}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return e // the status says enough
	}
	kind := resp.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "application/problem+json") {
		var problem struct{ Title, Detail string }
		if json.Unmarshal(body, &problem) == nil {
			e.Detail = printable(cmp.Or(problem.Detail, problem.Title))
		}
		return e
	}
	if strings.HasPrefix(kind, "text/plain") {
		e.Detail = printable(strings.Join(strings.Fields(string(body)), " "))
		// Error says these two itself.
		e.Detail = strings.TrimPrefix(e.Detail, http.StatusText(e.Status)+": ")
		e.Detail = strings.TrimSuffix(e.Detail, " (request "+e.RequestID+")")
	}
	return e
}

// printable writes what could steer a terminal, control and formatting characters, as escapes: a hub's words are shown
// to people.
func printable(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// maxRedirects is net/http's own limit.
const maxRedirects = 10

// follow is net/http's policy, but for a redirection that would send updates and tokens in the clear.
func follow(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("refused to follow a redirect from https to %s", bareURL(req.URL))
	}
	return nil
}

// defaultHTTP has no overall timeout, which would end streams, and asks for no compression, which would
// delay events.
func defaultHTTP() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Client{CheckRedirect: follow, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		IdleConnTimeout: 90 * time.Second,
	}}
}
