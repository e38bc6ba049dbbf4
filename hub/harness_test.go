package hub

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openDoor is an Authorizer for tests that are not about tokens: everybody may publish everything;
// a subscriber is granted the selector in its X-Grant header, and expires at X-Expires (RFC 3339). X-Generation names the
// token's generation, "" for none, X-Payload its payload, and X-Payloads, a JSON object, those of exact topics.
type openDoor struct{}

func (d *openDoor) Authorize(r *http.Request, act spec.Action) (*auth.Grant, error) {
	g := &auth.Grant{Action: act, Dialect: spec.Classic.Name, Subject: r.Header.Get("X-Subject"), Issuer: r.Header.Get("X-Issuer")}
	pattern := r.Header.Get("X-Grant")
	if act == spec.ActionPublish {
		pattern = "*"
	}
	if v := r.Header.Get("X-Expires"); v != "" {
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return nil, err
		}
		g.Expires = t
	}
	if v, ok := r.Header["X-Generation"]; ok {
		g.Dialect = v[0]
	}
	if v := r.Header.Get("X-Payload"); v != "" {
		g.Payload = json.RawMessage(v)
	}
	if v := r.Header.Get("X-Payloads"); v != "" {
		if err := addPayloads(g, v); err != nil {
			return nil, err
		}
	}
	if pattern != "" {
		m, err := topic.Compile(topic.Selector{Kind: topic.Classic, Pattern: pattern}, nil, topic.Limits{})
		if err != nil {
			return nil, err
		}
		g.Topics = []topic.Matcher{m}
	}
	return g, nil
}

func addPayloads(g *auth.Grant, v string) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(v), &all); err != nil {
		return err
	}
	for _, pattern := range slices.Sorted(maps.Keys(all)) {
		m, err := topic.Compile(topic.Selector{Kind: topic.Exact, Pattern: pattern}, nil, topic.Limits{})
		if err != nil {
			return err
		}
		g.Payloads = append(g.Payloads, auth.Payload{Topics: []topic.Matcher{m}, JSON: all[pattern]})
	}
	return nil
}

// node is a hub under test with its server.
type node struct {
	*Hub
	t      testing.TB
	url    string
	log    transport.Transport
	client *http.Client
	stop   func() // ends Run and waits; idempotent
}

// startNode runs a hub on a real listener until the test ends. change may adjust the options.
func startNode(t testing.TB, change func(*Options)) *node {
	t.Helper()
	n := newNode(t, change)
	srv := httptest.NewUnstartedServer(n.Handler())
	srv.Config.ConnContext = ConnContext
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	n.url = srv.URL + spec.DefaultHubPath
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	n.client = &http.Client{Transport: tr}
	n.run()
	return n
}

// newNode makes a hub on a memory log without a server.
func newNode(t testing.TB, change func(*Options)) *node {
	t.Helper()
	o := Options{
		Authorizer: &openDoor{}, Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		SoftRefusal: true, LegacyCursorParams: true,
	}
	if change != nil {
		change(&o)
	}
	if o.Transport == nil {
		log, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close(context.WithoutCancel(t.Context())) })
		o.Transport = log
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &node{Hub: h, t: t, log: o.Transport}
}

// run starts the hub; it is ready when run returns.
func (n *node) run() {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.t.Context()))
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	var once sync.Once
	n.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				n.t.Errorf("run: %v", err)
			}
		})
	}
	n.t.Cleanup(n.stop)
	for n.Ready(ctx) != nil {
		select {
		case err := <-done:
			n.t.Fatalf("run ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// publish posts a form of alternating names and values and returns the event id.
func (n *node) publish(kv ...string) string {
	n.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(kv); i += 2 {
		form.Add(kv[i], kv[i+1])
	}
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.url, strings.NewReader(form.Encode()))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Content-Type", spec.MediaTypeForm)
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		n.t.Fatalf("publish %q: %d %s %v", kv, res.StatusCode, body, err)
	}
	return string(body)
}

// followed waits until the first `updates` have been handed out: what is acknowledged need not have been yet.
func (n *node) followed(updates float64) {
	n.t.Helper()
	eventually(n.t, "the updates to be handed out", func() bool { return testutil.ToFloat64(n.metrics.FollowerPosition) >= updates })
}

// stream is one open subscription.
type stream struct {
	t   testing.TB
	res *http.Response
	dec *sse.Decoder
}

// get sends a stream request with alternating header names and values.
func (n *node) get(query string, headers ...string) *http.Response {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.url+"?"+query, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// subscribe opens a stream and requires 200.
func (n *node) subscribe(query string, headers ...string) *stream {
	n.t.Helper()
	res := n.get(query, headers...)
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		n.t.Fatalf("subscribe %q: %d %s", query, res.StatusCode, body)
	}
	return &stream{t: n.t, res: res, dec: sse.NewDecoder(res.Body, 16<<20)}
}

// next returns the next event, or the error with which the body ended.
func (s *stream) next() (sse.Event, error) { return s.dec.Next() }

// want requires the next events to carry these data.
func (s *stream) want(data ...string) {
	s.t.Helper()
	for _, w := range data {
		e, err := s.next()
		if err != nil || e.Data != w {
			s.t.Fatalf("event %q, %v; want %q", e.Data, err, w)
		}
	}
}

// rawStream opens a plain connection, sends a request and returns it with a reader behind the head.
func (n *node) rawStream(proto, query string, rcvbuf int, headers ...string) (*net.TCPConn, *bufio.Reader, http.Header) {
	n.t.Helper()
	u, err := url.Parse(n.url)
	if err != nil {
		n.t.Fatal(err)
	}
	d := net.Dialer{}
	c, err := d.DialContext(n.t.Context(), "tcp", u.Host)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = c.Close() })
	tc := c.(*net.TCPConn)
	if rcvbuf > 0 {
		_ = tc.SetReadBuffer(rcvbuf)
	}
	req := "GET " + u.Path + "?" + query + " " + proto + "\r\nHost: " + u.Host + "\r\n"
	for i := 0; i+1 < len(headers); i += 2 {
		req += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := io.WriteString(tc, req+"\r\n"); err != nil {
		n.t.Fatal(err)
	}
	br := bufio.NewReaderSize(tc, 512)
	status, err := br.ReadString('\n')
	if err != nil || !strings.Contains(status, " 200 ") {
		n.t.Fatalf("status line %q, %v", status, err)
	}
	head := http.Header{"Status": {strings.TrimSpace(status)}}
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			n.t.Fatal(err)
		}
		if line == "\r\n" {
			return tc, br, head
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		head.Add(name, value)
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
