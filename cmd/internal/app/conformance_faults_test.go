package app_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec/conformance"
)

// fault is one rule of the protocol broken on purpose, in a proxy before a sound hub, and the case that
// must notice it. Each of the functions may be nil.
type fault struct {
	name, noticed string
	request       func(r *http.Request, form *string) // form is the body of a publication
	answer        func(r *http.Response)
	body          func(status int, body string) string         // of answers that are not streams
	opening       func(lines string) string                    // what comes before the first event of a stream
	event         func(n int, resumed bool, raw string) string // the n-th event of a stream, from 0
}

func dropHeader(name string) func(*http.Response) {
	return func(r *http.Response) { r.Header.Del(name) }
}

func swapStatus(from, to int) func(*http.Response) {
	return func(r *http.Response) {
		if r.StatusCode == from {
			r.StatusCode = to
		}
	}
}

var idLine = regexp.MustCompile(`(?m)^id: .*\n`)

var faults = []fault{
	{name: "no reconciliation header", noticed: "resume/header", answer: dropHeader("Last-Event-ID")},
	{name: "only the old reconciliation header", noticed: "resume/header", answer: dropHeader("Mercure-Last-Event-ID")},
	{name: "another id is echoed", noticed: "resume/header", answer: func(r *http.Response) {
		if r.Header.Get("Last-Event-ID") != "" {
			r.Header.Set("Last-Event-ID", "urn:uuid:00000000-0000-4000-8000-000000000000")
		}
	}},
	{name: "an unknown cursor is echoed as if known", noticed: "resume/unknown", answer: func(r *http.Response) {
		if c := r.Request.URL.Query().Get("lastEventID"); c != "" {
			r.Header.Set("Last-Event-ID", c)
		}
	}},
	{name: "an unknown cursor replays all", noticed: "resume/unknown", request: func(r *http.Request, _ *string) {
		if strings.Contains(r.URL.RawQuery, "lastEventID=") {
			r.Header.Set("Last-Event-ID", "earliest")
		}
	}},
	{name: "the cursor in the URL is ignored", noticed: "resume/parameter", request: func(r *http.Request, _ *string) {
		r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "lastEventID", "x")
	}},
	{name: "a reconciliation header without a cursor", noticed: "resume/without", answer: func(r *http.Response) { r.Header.Set("Last-Event-ID", "earliest") }},
	{name: "an event twice on resume", noticed: "resume/no-gap", event: func(n int, resumed bool, raw string) string {
		if resumed && n == 1 {
			return raw + raw
		}
		return raw
	}},
	{name: "every fifth event is lost", noticed: "resume/long-history", event: func(n int, _ bool, raw string) string {
		if n%5 == 4 {
			return ""
		}
		return raw
	}},
	{name: "events of one id are delivered once", noticed: "publish/id-reused", event: func(n int, _ bool, raw string) string {
		if n > 0 {
			return ""
		}
		return raw
	}},
	{name: "a refused grant is 401", noticed: "error/challenge", answer: swapStatus(403, 401)},
	{name: "no challenge", noticed: "error/challenge", answer: dropHeader("WWW-Authenticate")},
	{name: "refusals may be stored", noticed: "error/head", answer: dropHeader("Cache-Control")},
	{name: "no request id", noticed: "error/request-id", answer: dropHeader("X-Request-Id")},
	{name: "every media type is taken", noticed: "publish/media-type", request: func(r *http.Request, _ *string) {
		if r.Method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}},
	{name: "405 without Allow", noticed: "subscribe/other-methods", answer: dropHeader("Allow")},
	{name: "private updates are public", noticed: "subscribe/private-needs-a-grant", request: func(_ *http.Request, form *string) {
		*form = strings.ReplaceAll(*form, "private=", "x=")
	}},
	{name: "private=off is public", noticed: "publish/private", request: func(_ *http.Request, form *string) {
		*form = strings.ReplaceAll(*form, "private=off", "x=off")
	}},
	{name: "a bad retry is ignored", noticed: "publish/retry", request: func(_ *http.Request, form *string) {
		*form = strings.ReplaceAll(*form, "retry=abc", "x=y")
	}},
	{name: "targets are ignored", noticed: "publish/target", request: func(_ *http.Request, form *string) {
		*form = strings.ReplaceAll(*form, "target", "x")
	}},
	{name: "Go's form parser for bodies", noticed: "publish/body-is-whatwg", request: func(_ *http.Request, form *string) {
		v, _ := url.ParseQuery(*form)
		*form = v.Encode()
	}},
	{name: "Go's form parser for queries", noticed: "subscribe/query-is-whatwg", request: func(r *http.Request, _ *string) {
		r.URL.RawQuery = r.URL.Query().Encode()
	}},
	{name: "match parameters are ignored", noticed: "subscribe/match-is-reserved", request: func(r *http.Request, _ *string) {
		r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "match", "hctam")
	}},
	{name: "only the first topic counts", noticed: "subscribe/several-topics", request: func(r *http.Request, _ *string) {
		if q := r.URL.Query()["topic"]; len(q) > 1 {
			r.URL.RawQuery = url.Values{"topic": q[:1]}.Encode()
		}
	}},
	{name: "the id ends with a line break", noticed: "publish/form-post", body: func(status int, body string) string {
		if status == http.StatusOK {
			body += "\n"
		}
		return body
	}},
	{name: "the hub replaces ids", noticed: "publish/id-kept", request: func(_ *http.Request, form *string) {
		*form = regexp.MustCompile(`(^|&)id=[^&]*`).ReplaceAllString(*form, "")
	}},
	{name: "the token is repeated", noticed: "token/not-told", answer: func(r *http.Response) {
		if r.StatusCode == http.StatusUnauthorized {
			r.Header.Set("X-Debug", r.Request.Header.Get("Authorization"))
		}
	}},
	{name: "a bad token is anonymous", noticed: "carrier/bad-token-is-not-anonymous", request: func(r *http.Request, _ *string) {
		if !strings.HasSuffix(r.Header.Get("Authorization"), "AAAA") {
			return
		}
		r.Header.Del("Authorization")
	}},
	{name: "the scheme in one spelling only", noticed: "carrier/scheme-case", request: func(r *http.Request, _ *string) {
		if a := r.Header.Get("Authorization"); !strings.HasPrefix(a, "Bearer") {
			r.Header.Set("Authorization", "x"+a)
		}
	}},
	{name: "a token in the URL publishes", noticed: "carrier/query", request: func(r *http.Request, _ *string) {
		if t := r.URL.Query().Get("authorization"); r.Method == http.MethodPost && t != "" {
			r.Header.Set("Authorization", "Bearer "+t)
		}
	}},
	{name: "a cookie publishes from anywhere", noticed: "csrf/publish-by-cookie", request: func(r *http.Request, _ *string) {
		r.Header.Set("Origin", "http://"+r.Host)
	}},
	{name: "any origin is reflected", noticed: "cors/origins", answer: func(r *http.Response) {
		r.Header.Set("Access-Control-Allow-Origin", r.Request.Header.Get("Origin"))
	}},
	{name: "scripts cannot read the headers", noticed: "cors/exposed", answer: dropHeader("Access-Control-Expose-Headers")},
	{name: "errors without CORS headers", noticed: "cors/on-errors", answer: func(r *http.Response) {
		if r.StatusCode >= 400 {
			r.Header.Del("Access-Control-Allow-Origin")
		}
	}},
	{name: "the stream says it is compressed", noticed: "stream/no-compression", answer: func(r *http.Response) { r.Header.Set("Content-Encoding", "br") }},
	{name: "no comment at the start", noticed: "stream/first-bytes", opening: func(lines string) string { return strings.TrimPrefix(lines, ":\n") }},
	{name: "a blank line after the opening", noticed: "stream/retry", opening: func(lines string) string { return lines + "\n" }},
	{name: "a retry without jitter", noticed: "stream/retry", opening: func(string) string { return ":\nretry: 3000\n" }},
	{name: "CRLF ends lines", noticed: "wire/line-splitting", event: func(_ int, _ bool, raw string) string { return strings.ReplaceAll(raw, "\n", "\r\n") }},
	{name: "events without id", noticed: "wire/exact-bytes", event: func(_ int, _ bool, raw string) string { return idLine.ReplaceAllString(raw, "") }},
	{name: "no space after the colon", noticed: "wire/untouched-data", event: func(_ int, _ bool, raw string) string { return strings.ReplaceAll(raw, "data: ", "data:") }},
	{name: "a comment within an event", noticed: "wire/exact-bytes", event: func(_ int, _ bool, raw string) string { return strings.Replace(raw, "data:", ":\ndata:", 1) }},
	{name: "no data line without data", noticed: "wire/empty-data", event: func(_ int, _ bool, raw string) string { return strings.Replace(raw, "data: \n", "", 1) }},
	{name: "data lines are joined", noticed: "wire/line-splitting", event: func(_ int, _ bool, raw string) string {
		return strings.ReplaceAll(raw, "\ndata: b", "b")
	}},
	{name: "an event is torn", noticed: "wire/long-lines", event: func(_ int, _ bool, raw string) string {
		if len(raw) > 4096 {
			return raw[:4096] + "\n\n"
		}
		return raw
	}},
}

// TestABrokenRuleFailsACase shows that the suite can fail: each named case holds through an honest
// proxy and fails through one that breaks its rule.
func TestABrokenRuleFailsACase(t *testing.T) {
	_, target := startHub(t, func(c *app.Config) { c.Transport, c.Anonymous, c.Subscriptions = "memory", true, true })
	honest := through(t, target, fault{})
	held := map[string]bool{}
	for _, f := range slices.Concat(faults, faults08) {
		t.Run(f.name, func(t *testing.T) {
			if !held[f.noticed] {
				held[f.noticed] = true
				judge(t, honest, pick(t, f.noticed))
			}
			broken := through(t, target, f)
			broken.Wait = time.Second // some faults show by what does not come
			failed, err := conformance.RunCases(t.Context(), broken, pick(t, f.noticed), nil)
			if err != nil {
				t.Fatal(err)
			}
			if failed == 0 {
				t.Errorf("%s does not notice it", f.noticed)
			}
		})
	}
}

// through is the target behind a proxy with a fault.
func through(t *testing.T, target conformance.Target, f fault) conformance.Target {
	t.Helper()
	hub, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = hub.Scheme, hub.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery // the proxy would drop what Go's parser does not like
			if f.request == nil {
				return
			}
			body, _ := io.ReadAll(r.In.Body)
			form := string(body)
			f.request(r.Out, &form)
			r.Out.Body, r.Out.ContentLength = io.NopCloser(strings.NewReader(form)), int64(len(form))
			if len(form) == 0 {
				r.Out.Body = http.NoBody
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if f.answer != nil {
				f.answer(r)
			}
			stream := strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream")
			switch {
			case stream && (f.opening != nil || f.event != nil):
				resumed := r.Request.Header.Get("Last-Event-ID") != "" || strings.Contains(r.Request.URL.RawQuery, "astEventID=")
				r.Body = &rewritten{f: f, resumed: resumed, closer: r.Body, in: bufio.NewReaderSize(r.Body, 64<<10)}
			case !stream && f.body != nil:
				b, err := io.ReadAll(r.Body)
				if err != nil {
					return err
				}
				b = []byte(f.body(r.StatusCode, string(b)))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
				r.Header.Set("Content-Length", fmt.Sprint(len(b)))
			}
			return nil
		},
	})
	// Streams that a client has just left must not hold the proxy up.
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	target.URL = proxy.URL + hub.Path
	return target
}

// rewritten is a stream's body with its opening and its events rewritten.
type rewritten struct {
	f       fault
	resumed bool
	closer  io.Closer
	in      *bufio.Reader
	ready   []byte
	lines   int
	n       int
}

func (r *rewritten) Close() error { return r.closer.Close() }

func (r *rewritten) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// fill reads the opening's two lines, later one event.
func (r *rewritten) fill() error {
	var unit strings.Builder
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			return err
		}
		unit.WriteString(line)
		if r.lines++; r.lines == 2 {
			out := unit.String()
			if r.f.opening != nil {
				out = r.f.opening(out)
			}
			r.ready = []byte(out)
			return nil
		}
		if r.lines > 2 && line == "\n" {
			out := unit.String()
			if r.f.event != nil {
				out = r.f.event(r.n, r.resumed, out)
			}
			r.n++
			r.ready = []byte(out)
			return nil
		}
	}
}
