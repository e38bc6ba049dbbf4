package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// listedDirectory is a directory that lists these.
func listedDirectory(list ...transport.Presence) *directory {
	d := newDirectory()
	for _, p := range list {
		d.entries[p.Subscriber] = p
	}
	return d
}

// present is a subscriber with classic selectors.
func present(subscriber string, payload string, patterns ...string) transport.Presence {
	return presentAs(topic.Classic, subscriber, payload, patterns...)
}

func presentAs(kind topic.Kind, subscriber string, payload string, patterns ...string) transport.Presence {
	p := transport.Presence{Subscriber: subscriber}
	if payload != "" {
		p.Payload = json.RawMessage(payload)
	}
	for _, pattern := range patterns {
		p.Selectors = append(p.Selectors, topic.Selector{Kind: kind, Pattern: pattern})
	}
	return p
}

// Covers: ACT-12, ACT-14, ACT-15, ACT-17, ACT-19, ACT-21, ACT-22, ACT-29.
func TestSubscriptionAPI(t *testing.T) {
	d := listedDirectory(present("urn:uuid:1", `{"a":1}`, "a/{b}", "c"), present("urn:uuid:2", "", "c"))
	n := startNode(t, withDirectory(d))
	id := n.publish("topic", "x", "data", "y")
	const (
		one  = `"id":"/.well-known/mercure/subscriptions/a%2F%7Bb%7D/urn%3Auuid%3A1","type":"Subscription","topic":"a/{b}","subscriber":"urn:uuid:1","active":true,"payload":{"a":1}`
		head = `{"@context":"https://mercure.rocks/","id":"/.well-known/mercure/subscriptions`
	)
	for path, want := range map[string]string{
		"":                              head + `","type":"Subscriptions","lastEventID":"` + id + `","subscriptions":[3]}`,
		"/a%2F%7Bb%7D":                  head + `/a%2F%7Bb%7D","type":"Subscriptions","lastEventID":"` + id + `","subscriptions":[{` + one + `}]}`,
		"/a%2f%7bb%7d":                  head + `/a%2F%7Bb%7D","type":"Subscriptions","lastEventID":"` + id + `","subscriptions":[{` + one + `}]}`,
		"/nobody":                       head + `/nobody","type":"Subscriptions","lastEventID":"` + id + `","subscriptions":[]}`,
		"/a%2F%7Bb%7D/urn%3Auuid%3A1":   `{"@context":"https://mercure.rocks/",` + one + `,"lastEventID":"` + id + `"}`,
		"/a%2F%7Bb%7D/urn:uuid:1":       `{"@context":"https://mercure.rocks/",` + one + `,"lastEventID":"` + id + `"}`,
		"/a%2F%7Bb%7D/urn%3Auuid%3A2":   "404",
		"/c/urn%3Auuid%3A3":             "404",
		"/c/":                           "404",
		"/a/{b}/urn%3Auuid%3A1":         "404",
		"/a%252F%257Bb%257D/urn:uuid:1": "404",
		"x":                             "404",
	} {
		res := n.api(http.MethodGet, path, "X-Grant", "*")
		body := slurp(t, res)
		switch {
		case want == "404":
			if res.StatusCode != http.StatusNotFound {
				t.Errorf("%q: %d %s, want 404", path, res.StatusCode, body)
			}
			continue
		case strings.Contains(want, "[3]"):
			var doc struct{ Subscriptions []json.RawMessage }
			if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Subscriptions) != 3 {
				t.Errorf("%q: %v in %s", path, err, body)
			}
			want = strings.TrimSuffix(want, "3]}")
			body = body[:min(len(body), len(want))]
		}
		if res.StatusCode != http.StatusOK || body != want {
			t.Errorf("%q: %d\ngot  %s\nwant %s", path, res.StatusCode, body, want)
		}
		if got := res.Header.Get("Content-Type"); got != "application/ld+json" {
			t.Errorf("%q: Content-Type %q", path, got)
		}
		quiet := n.api(http.MethodHead, path, "X-Grant", "*")
		if body := slurp(t, quiet); quiet.StatusCode != http.StatusOK || body != "" || quiet.Header.Get("ETag") != res.Header.Get("ETag") || quiet.Header.Get("Content-Type") != "application/ld+json" {
			t.Errorf("HEAD %q: %d %q %v", path, quiet.StatusCode, body, quiet.Header)
		}
	}
}

// api asks the subscription API over the network.
func (n *node) api(method, path string, headers ...string) *http.Response {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.url+spec.SubscriptionsPath+path, nil)
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

// The grant is compared with the path as it was sent, without the query.
//
// Covers: ACT-14.
func TestListsNeedAGrant(t *testing.T) {
	n := startNode(t, withDirectory(listedDirectory(present("urn:uuid:1", "", "a b"))))
	for _, c := range []struct {
		grant, path string
		status      int
	}{
		{allEvents, "", 200},
		{allEvents, "/a%20b", 200},
		{allEvents, "/a%20b/urn%3Auuid%3A1", 200},
		{allEvents, "/a%20b/urn:uuid:1", 403}, // no expansion of the template
		{allEvents, "?x=1", 200},
		{apiPath, "?x=1", 200},
		{apiPath, "/a%20b", 403},
		{apiPath + "/a%20b", "/a%20b", 200},
		{apiPath + "/a%20b", "/%61%20b", 403},
		{apiPath + "/a b", "/a%20b", 403},
		{apiPath + "/a%20b{/subscriber}", "/a%20b", 200},
		{apiPath + "/a%20b{/subscriber}", "", 403},
		{apiPath + "/a%20b{/subscriber}", "/a%20b/urn%3Auuid%3A1", 200},
		{"a b", "/a%20b", 403},
		{"*", "/a%20b", 200},
		{"", "", 403},
	} {
		res := n.api(http.MethodGet, c.path, "X-Grant", c.grant)
		if body := slurp(t, res); res.StatusCode != c.status {
			t.Errorf("grant %q, path %q: %d %s, want %d", c.grant, c.path, res.StatusCode, body, c.status)
		}
		if c.status == 403 && res.Header.Get("WWW-Authenticate") != `Bearer error="insufficient_scope"` {
			t.Errorf("challenge %q", res.Header.Get("WWW-Authenticate"))
		}
	}
}

// anonymousDoor lets everybody in, as nobody.
type anonymousDoor struct{}

func (anonymousDoor) Authorize(_ *http.Request, act spec.Action) (*auth.Grant, error) {
	return &auth.Grant{Action: act, Anonymous: true}, nil
}

// Covers: ACT-14, ERR-01.
func TestListsAreNotForAnonymousClients(t *testing.T) {
	n := startNode(t, func(o *Options) { o.Directory, o.Authorizer = newDirectory(), anonymousDoor{} })
	res := n.api(http.MethodGet, "")
	if res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%d %q", res.StatusCode, res.Header.Get("WWW-Authenticate"))
	}
}

// Covers: ACT-19, ACT-24.
func TestListValidators(t *testing.T) {
	n := startNode(t, withDirectory(newDirectory()))
	res := n.api(http.MethodGet, "", "X-Grant", "*")
	if body := slurp(t, res); !strings.Contains(body, `"lastEventID":"earliest"`) || res.Header.Get("ETag") != `"earliest"` {
		t.Errorf("before anything was dispatched: ETag %q, %s", res.Header.Get("ETag"), body)
	}
	n.publish("topic", "x", "data", "y", "id", `a "é, %2`)
	res = n.api(http.MethodGet, "", "X-Grant", "*")
	const tag = `"a%20%22%C3%A9,%20%2"`
	if got := res.Header.Get("ETag"); got != tag || res.Header.Get("Cache-Control") != "private, must-revalidate" {
		t.Errorf("ETag %s, Cache-Control %q", got, res.Header.Get("Cache-Control"))
	}
	for sent, status := range map[string]int{
		tag: 304, "W/" + tag: 304, strings.Trim(tag, `"`): 304, `"x", ` + tag: 304, `"x",W/` + tag + `, "y"`: 304, "*": 304,
		`"x"`: 200, "x": 200, `"a%20%22%C3%A9"`: 200, `"x` + tag: 200, "x " + tag: 200, "": 200,
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			res := n.api(method, "", "X-Grant", "*", "If-None-Match", sent)
			if body := slurp(t, res); res.StatusCode != status || status == 304 && (body != "" || res.Header.Get("ETag") != tag) {
				t.Errorf("%s If-None-Match %s: %d %q, want %d", method, sent, res.StatusCode, res.Header.Get("ETag"), status)
			}
		}
	}
	if res := n.api(http.MethodGet, "/x/y", "X-Grant", "*", "If-None-Match", tag); res.StatusCode != http.StatusNotFound {
		t.Errorf("a subscription that is not there: %d", res.StatusCode)
	}
	n.publish("topic", "x", "data", "y")
	if res := n.api(http.MethodGet, "", "X-Grant", "*", "If-None-Match", tag); res.StatusCode != http.StatusOK {
		t.Errorf("after another update: %d", res.StatusCode)
	}
}

// Covers: ACT-12, ERR-10.
func TestListMethods(t *testing.T) {
	n := startNode(t, func(o *Options) { o.Directory, o.CORSOrigins = newDirectory(), []string{"https://app.example"} })
	for _, path := range []string{"", "/a", "/a/b"} {
		for _, method := range []string{http.MethodPost, http.MethodDelete, "FOO"} {
			if res := n.api(method, path, "X-Grant", "*"); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
				t.Errorf("%s %s: %d, Allow %q", method, path, res.StatusCode, res.Header.Get("Allow"))
			}
		}
		if res := n.api(http.MethodOptions, path); res.StatusCode != http.StatusNoContent || res.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("OPTIONS %s: %d, Allow %q", path, res.StatusCode, res.Header.Get("Allow"))
		}
		res := n.api(http.MethodOptions, path, "Origin", "https://app.example", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization,if-none-match")
		if res.StatusCode != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "if-none-match") {
			t.Errorf("preflight %s: %d %v", path, res.StatusCode, res.Header)
		}
		res = n.api(http.MethodGet, path, "Origin", "https://app.example")
		if !strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "ETag") {
			t.Errorf("exposed: %v", res.Header)
		}
	}
	if res := n.api(http.MethodDelete, "x"); res.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %d", res.StatusCode)
	}
}

// Only so many lists are read at a time; the others wait a little and are told to come back.
func TestListsAreBounded(t *testing.T) {
	d := newDirectory()
	release := make(chan struct{})
	var reading sync.WaitGroup
	reading.Add(maxLists)
	d.onList = func(ctx context.Context) error {
		if d.onEnter == nil { // the test is not over
			reading.Done()
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	n := startNode(t, withDirectory(d))
	var done sync.WaitGroup
	for range maxLists {
		done.Go(func() {
			if res := n.serve(http.MethodGet, apiPath, "", "X-Grant", "*"); res.Code != 200 {
				t.Errorf("status %d", res.Code)
			}
		})
	}
	reading.Wait()
	w := n.serve(http.MethodGet, apiPath, "", "X-Grant", "*")
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too many") {
		t.Errorf("one too many: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := n.serve(http.MethodGet, apiPath, "", "X-Grant", "*", "If-None-Match", "earliest"); w.Code != 304 {
		t.Errorf("what needs no list: %d", w.Code)
	}
	close(release)
	done.Wait()
}

// Covers: ERR-11.
func TestListsThatCannotBeMadeSure(t *testing.T) {
	d := newDirectory()
	d.onList = func(context.Context) error { return transport.ErrUnavailable }
	n := startNode(t, withDirectory(d))
	if w := n.serve(http.MethodGet, apiPath, "", "X-Grant", "*"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// brokenWriter takes some bytes and then no more.
type brokenWriter struct {
	*httptest.ResponseRecorder
	room int
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.room -= len(b); w.room < 0 {
		return 0, errors.New("gone")
	}
	return w.ResponseRecorder.Write(b)
}

// A list that could not be written whole does not end as if it were.
func TestCutListsDoNotLookWhole(t *testing.T) {
	n := newNode(t, withDirectory(manyListed(topic.Classic, 5000)))
	n.run()
	r, w := newExchange(t, http.MethodGet, apiPath, "")
	r.Header.Set("X-Grant", "*")
	defer func() {
		if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // the value itself
			t.Errorf("the handler ends with %v", v)
		}
	}()
	n.Handler().ServeHTTP(&brokenWriter{w, 100 << 10}, r)
}

// manyListed is a directory of so many subscribers of one room each.
func manyListed(kind topic.Kind, n int) *directory {
	list := make([]transport.Presence, n)
	for i := range list {
		list[i] = presentAs(kind, fmt.Sprintf("urn:uuid:5f2b1a52-6c7d-4c55-8f0e-%012d", i), `{"user":"ann"}`, fmt.Sprintf("https://example.com/rooms/%d", i%100))
	}
	return listedDirectory(list...)
}

// A big list is written as it is made: what that takes does not grow with it.
func TestBigListsAreStreamed(t *testing.T) { inBothForms(t, bigListsAreStreamed) }

func bigListsAreStreamed(t *testing.T, f form) {
	t.Helper()
	n := startNode(t, withDirectory(manyListed(f.kind, 30_000)))
	n.publish("topic", "a", "data", "b")
	began := time.Now()
	res := f.ask(n, apiPath)
	size, err := io.Copy(io.Discard, res.Body)
	took := time.Since(began)
	if err != nil || size < 30_000*200 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	t.Logf("%d bytes in %v", size, took)
	if took > 30*time.Second { // it takes 0.1 s on two idle cores
		t.Errorf("30,000 subscriptions took %v", took)
	}

	list := n.o.Directory.(*directory).all()
	a := listAnswer{q: spec.SubscriptionQuery{Generation: f.Dialect}, hubPath: n.o.Path, d: f.Describe, cursor: "x", list: list}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := a.write(discarded{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("writing 30,000 subscriptions allocates %d bytes", used)
	}
}

type discarded struct{ http.ResponseWriter }

func (discarded) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkList(b *testing.B) {
	for _, f := range bothForms {
		for _, subs := range []int{1000, 30_000} {
			b.Run(fmt.Sprintf("form=%s/subs=%d", f.Name, subs), func(b *testing.B) {
				a := listAnswer{
					q: spec.SubscriptionQuery{Generation: f.Dialect}, hubPath: spec.DefaultHubPath, d: f.Describe, cursor: "x",
					list: manyListed(f.kind, subs).all(),
				}
				b.ReportAllocs()
				for b.Loop() {
					_ = a.write(discarded{})
				}
			})
		}
	}
}

// Covers: SUB-41.
func TestDisconnect(t *testing.T) {
	inBubble(t, withDirectory(newDirectory()), func(c *crowd) {
		d := c.o.Directory.(*directory)
		c.as("ann", "topic=a")
		c.as("ann", "topic=b")
		c.as("bob", "topic=a")
		c.as("", "topic=a")
		byTopic := func(subject, pattern string) string {
			for _, p := range d.all() {
				if p.Subject == subject && p.Selectors[0].Pattern == pattern {
					return p.Subscriber
				}
			}
			return ""
		}
		order := func(b transport.Ban, want int) {
			t.Helper()
			if n, err := c.Disconnect(c.ctx, b); n != want || err != nil {
				t.Errorf("%+v: %d streams, %v, want %d", b, n, err, want)
			}
			synctest.Wait()
		}
		ask := func(subject string, want int) {
			t.Helper()
			ctx, cancel := context.WithCancel(c.ctx)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodHead, spec.DefaultHubPath+"?topic=a", nil)
			r.Header.Set("X-Subject", subject)
			w := httptest.NewRecorder()
			c.Handler().ServeHTTP(w, r)
			if w.Code != want || w.Body.Len() > 0 {
				t.Errorf("%q is answered %d %s, want %d", subject, w.Code, w.Body, want)
			}
		}
		order(transport.Ban{Subscriber: byTopic("ann", "b"), Subject: "ann", For: time.Minute}, 1)
		ask("ann", 204)
		ask("bob", 200)
		if len(d.all()) != 3 || c.ended(endDisconnected) != 1 {
			t.Errorf("%+v are left, %v ended", d.all(), c.ended(endDisconnected))
		}
		if got := c.Bans(); len(got) != 1 || got[0].Subscriber == "" || got[0].For != time.Minute {
			t.Errorf("bans %+v", got)
		}
		order(transport.Ban{Subscriber: byTopic("", "a")}, 1)
		ask("", 200)
		time.Sleep(30 * time.Second)
		order(transport.Ban{Subject: "ann", For: time.Second}, 1) // does not shorten, and is about all
		if got := c.Bans(); len(got) != 1 || got[0].Subscriber != "" || got[0].For != 30*time.Second {
			t.Errorf("bans %+v", got)
		}
		time.Sleep(29 * time.Second)
		ask("ann", 204)
		time.Sleep(time.Second)
		ask("ann", 200)
		order(transport.Ban{Subject: "carol", For: time.Minute}, 0)
		ask("carol", 204)
		for _, bad := range []transport.Ban{{}, {Subject: "x", For: -1}, {Subject: "x", For: 25 * time.Hour}} {
			if _, err := c.Disconnect(c.ctx, bad); !errors.Is(err, transport.ErrBan) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// A client that is sent away gets what was published before, a whole stream, and 204 when it comes back.
//
// Covers: SUB-41, SUB-37.
func TestDisconnectedStreamsEndWhole(t *testing.T) {
	for name, hijack := range map[string]bool{"shard": true, "handler": false} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, func(o *Options) { o.Retry = time.Second })
			n.noHijack = !hijack
			s := n.subscribe("topic=a", "X-Subject", "ann")
			n.publish("topic", "a", "data", "1")
			s.want("1")
			if got, err := n.Disconnect(t.Context(), transport.Ban{Subject: "ann", For: time.Minute}); got != 1 || err != nil {
				t.Fatalf("%d streams, %v", got, err)
			}
			if _, err := s.next(); !errors.Is(err, io.EOF) {
				t.Errorf("the body ends with %v", err)
			}
			for _, accept := range []string{eventStream, "*/*"} {
				if res := n.get("topic=a", "X-Subject", "ann", "Accept", accept); res.StatusCode != http.StatusNoContent {
					t.Errorf("%s: %d, want 204", accept, res.StatusCode)
				}
			}
			n.publish("topic", "a", "data", "others may go on")
		})
	}
}

func TestBansAreBounded(t *testing.T) {
	var b bans
	now := time.Now()
	for i := range maxBans + 10 {
		b.add(transport.Ban{Subject: fmt.Sprint(i), For: time.Hour - time.Duration(i)*time.Millisecond}, now)
	}
	if len(b.all) != maxBans || b.away(fmt.Sprint(maxBans-1), now) || !b.away("0", now) || !b.away(fmt.Sprint(maxBans+9), now) {
		t.Errorf("%d bans", len(b.all))
	}
	if got := b.list(now.Add(time.Hour)); len(got) != 0 || len(b.all) != 0 {
		t.Errorf("%d bans after an hour", len(b.all))
	}
}
