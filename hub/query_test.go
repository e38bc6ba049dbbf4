package hub

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// query sends a QUERY of a form with alternating header names and values.
func (n *node) query(query, form string, headers ...string) *http.Response {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), spec.MethodQuery, n.url+"?"+query, strings.NewReader(form))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Content-Type", formType)
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

// wantStream requires an open stream.
func (n *node) wantStream(res *http.Response) *stream {
	n.t.Helper()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != eventStream {
		body, _ := io.ReadAll(res.Body)
		n.t.Fatalf("%d %q %s", res.StatusCode, res.Header.Get("Content-Type"), body)
	}
	return &stream{t: n.t, res: res, dec: sse.NewDecoder(res.Body, 16<<20)}
}

// carriers are the ways in which a stream can be served.
func carriers(t *testing.T, n *node) map[string]func() {
	t.Helper()
	return map[string]func(){
		"shard":   func() { n.noHijack = false },
		"handler": func() { n.noHijack = true },
		"h2": func() {
			tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
			tr.Protocols.SetUnencryptedHTTP2(true)
			t.Cleanup(tr.CloseIdleConnections)
			n.client = &http.Client{Transport: tr}
		},
	}
}

// A QUERY selects with its query component and its body, in both generations' parameters, as one request.
//
// Covers: SUB-02, SUB-03, SUB-08, SUB-12, SUB-21, G-10, G-20.
func TestQueryIsAStream(t *testing.T) {
	for _, name := range []string{"shard", "handler", "h2"} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, nil)
			carriers(t, n)[name]()
			s := n.wantStream(n.query("match=a&topic=t1/{x}", "match=b&match_exact=c&topic=t2/{x}"))
			for i, topics := range [][]string{
				{"a"},
				{"b"},
				{"c"},
				{"t1/1"},
				{"t2/2"},
				{"other"},
				{"a", "b", "c", "t1/1", "t2/2"}, // once, whatever selects it
			} {
				kv := []string{"data", fmt.Sprint(i)}
				for _, one := range topics {
					kv = append(kv, "topic", one)
				}
				n.publish(kv...)
			}
			n.publish("topic", "a", "data", "end")
			s.want("0", "1", "2", "3", "4", "6", "end")
		})
	}
}

// The time for a body is not the time of the stream that it asks for.
//
// Covers: SUB-02, LIM-12.
func TestQueryOutlivesTheTimeForItsBody(t *testing.T) {
	n := startNode(t, nil)
	n.bodyTimeout = 3 * time.Second
	streams := map[string]*stream{}
	for _, name := range []string{"shard", "handler", "h2"} {
		carriers(t, n)[name]()
		streams[name] = n.wantStream(n.query("", "match=a"))
	}
	time.Sleep(n.bodyTimeout + 500*time.Millisecond) // every deadline has passed
	n.publish("topic", "a", "data", "1")
	for _, s := range streams {
		s.want("1")
	}
}

// Covers: SUB-02, SUB-11, SUB-18, LIM-05, LIM-12, ERR-12, SUB-10, G-09.
func TestQueryBodies(t *testing.T) {
	const limit = 1 << 13
	change, _, reg := observed(func(o *Options) {
		o.Limits.BodyBytes = limit
		o.MaxConnections = 0
	})
	n := startNode(t, change)
	many := func(name string, from, count int) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, "%s=s%d&", name, from+i)
		}
		return b.String()
	}
	pad := func(s string, length int) string { return s + "&" + strings.Repeat("x", length-len(s)-1) }
	for name, c := range map[string]struct {
		query, mediaType, body string
		status                 int
		reason                 string
	}{
		"nothing at all":               {"", "", "", 400, "missing_topic"},
		"like a GET":                   {"match=a", "", "", 200, ""},
		"like a classic GET":           {"topic=a", "", "", 200, ""},
		"an empty form":                {"match=a", formType, "", 200, ""},
		"an empty form alone":          {"", formType, "", 400, "missing_topic"},
		"a form":                       {"", formType, "match=a", 200, ""},
		"a form with a charset":        {"", formType + "; charset=utf-8", "match=a", 200, ""},
		"in capitals":                  {"", strings.ToUpper(formType), "match=a", 200, ""},
		"JSON":                         {"match=a", "application/json", "{}", 415, "media_type"},
		"empty JSON":                   {"match=a", "application/json", "", 415, "media_type"},
		"text":                         {"match=a", "text/plain", "match=a", 415, "media_type"},
		"no media type":                {"match=a", "", "match=a", 415, "media_type"},
		"as long as allowed":           {"", formType, pad("match=a", limit), 200, ""},
		"too long":                     {"", formType, pad("match=a", limit+1), 413, "body_too_large"},
		"as many selectors as allowed": {many("match", 0, 60), formType, many("topic", 0, 40), 200, ""},
		"too many selectors":           {many("match", 0, 60), formType, many("match", 60, 41), 400, "too_many_selectors"},
		"too many of both generations": {many("match", 0, 60), formType, many("topic", 0, 41), 400, "too_many_selectors"},
		"too many fields":              {strings.Repeat("x&", 700), formType, strings.Repeat("x&", 601), 413, "too_many_fields"},
		"a reserved name in the body":  {"match=a", formType, "Match=b", 400, "unsupported_matcher"},
		"a control character":          {"match=a", formType, "match=%0A", 400, "invalid_selector"},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprint(name, chunked), func(t *testing.T) {
				before := series(t, reg, "cinnabar_refused_total", "action", "subscribe", "reason", c.reason)
				var body io.Reader = strings.NewReader(c.body)
				if chunked {
					body = io.MultiReader(body) // its length is not known
				}
				req, err := http.NewRequestWithContext(t.Context(), spec.MethodQuery, n.url+"?"+c.query, body)
				if err != nil {
					t.Fatal(err)
				}
				if c.mediaType != "" {
					req.Header.Set("Content-Type", c.mediaType)
				}
				res, err := n.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if res.StatusCode != c.status {
					answer, _ := io.ReadAll(res.Body)
					t.Fatalf("%d, want %d: %s", res.StatusCode, c.status, answer)
				}
				if c.reason != "" && series(t, reg, "cinnabar_refused_total", "action", "subscribe", "reason", c.reason) != before+1 {
					t.Errorf("not counted as %s", c.reason)
				}
			})
		}
	}
}

// As with a publication: size, then the token, then the rest.
//
// Covers: SUB-02, AUT-04.
func TestOrderOfChecksOfAQuery(t *testing.T) {
	n, token := startClosedNode(t, nil)
	good, bad := []string{"Authorization", "Bearer " + token}, []string{"Authorization", "Bearer x.y.z"}
	big := strings.Repeat("x", 1<<20+1)
	for name, c := range map[string]struct {
		headers         []string
		mediaType, body string
		status          int
	}{
		"size before a bad token":  {bad, "text/plain", big, 413},
		"token before media type":  {nil, "text/plain", "x", 401},
		"a bad one before fields":  {bad, formType, "matching=x", 401},
		"media type before fields": {good, "text/plain", "matching=x", 415},
		"fields":                   {good, formType, "matching=x", 400},
	} {
		t.Run(name, func(t *testing.T) {
			w := n.serve(spec.MethodQuery, spec.DefaultHubPath, c.body, append([]string{"Content-Type", c.mediaType}, c.headers...)...)
			if w.Code != c.status {
				t.Errorf("%d, want %d: %s", w.Code, c.status, w.Body)
			}
		})
	}
}

// Covers: SUB-04, REC-03, REC-05, REC-10, REC-11, REC-13, REC-14, REC-19, REC-21.
func TestResumeOfDraft08(t *testing.T) {
	n := startNode(t, nil)
	for _, id := range []string{"e0", "e1", "x", "e1", "y"} {
		n.publish("topic", "a", "id", id, "data", id)
	}
	for name, c := range map[string]struct {
		header, query, body string
		echo                string // "-" = none
		want                []string
	}{
		"the query component":         {"", "match=a&last_event_id=x", "", "x", []string{"e1", "y"}},
		"the body":                    {"", "match=a", "last_event_id=x", "x", []string{"e1", "y"}},
		"the query component wins":    {"", "match=a&last_event_id=y", "last_event_id=x", "y", nil},
		"the header wins":             {"x", "match=a&last_event_id=y", "last_event_id=e0", "x", []string{"e1", "y"}},
		"an empty one falls through":  {"", "match=a&last_event_id=", "last_event_id=x", "x", []string{"e1", "y"}},
		"draft-08's name wins":        {"", "match=a&lastEventID=y&last_event_id=x", "", "x", []string{"e1", "y"}},
		"the classic name does, too":  {"", "match=a", "lastEventID=x", "x", []string{"e1", "y"}},
		"the earliest of equal ids":   {"", "match=a&last_event_id=e1", "", "e1", []string{"x", "e1", "y"}},
		"everything":                  {"", "match=a&last_event_id=earliest", "", "earliest", []string{"e0", "e1", "x", "e1", "y"}},
		"an unknown id":               {"", "match=a&last_event_id=nobody", "", "earliest", nil},
		"an empty one":                {"", "match=a&last_event_id=", "", "earliest", nil},
		"an empty one in the body":    {"", "match=a", "last_event_id=", "earliest", nil},
		"one that is none":            {"", "match=a", "last_event_id=a%0Ab", "earliest", nil},
		"none":                        {"", "match=a", "", "-", nil},
		"classic selector, new name":  {"", "topic=a", "last_event_id=x", "x", []string{"e1", "y"}},
		"decoded before it is looked": {"", "match=a", "%6cast_event_id=%78", "x", []string{"e1", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := *n
			n.t = t
			var headers []string
			if c.header != "" {
				headers = []string{spec.HeaderLastEventID, c.header}
			}
			s := n.wantStream(n.query(c.query, c.body, headers...))
			for _, h := range []string{"Last-Event-ID", "Mercure-Last-Event-ID"} {
				echo, there := s.res.Header.Get(h), len(s.res.Header.Values(h)) > 0
				if there != (c.echo != "-") || there && echo != c.echo {
					t.Errorf("%s is %q, want %q", h, echo, c.echo)
				}
			}
			s.want(c.want...)
			n.publish("topic", "a", "type", "end", "data", name)
			for { // those of the other cases come between
				e, err := s.next()
				if err != nil || e.Type != "end" {
					t.Fatalf("%+v, %v: not what comes after the cursor", e, err)
				}
				if e.Data == name {
					return
				}
			}
		})
	}
}

// endStreams ends those there are as their lifetime would.
func (n *node) endStreams() {
	for _, s := range n.fanout.snapshot() {
		s.end(endLifetime)
	}
}

// A connection whose QUERY was answered in full takes the next request.
//
// Covers: SUB-02, SUB-27, SUB-37.
func TestConnectionOfAQueryIsServedAgain(t *testing.T) {
	n := startNode(t, nil)
	n.publish("topic", "a", "id", "e1", "data", "x")
	conn := n.dial()
	br := bufio.NewReader(conn)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	for name, framing := range map[string]string{
		"with a length": "Content-Length: 30\r\n\r\nmatch=a&last_event_id=earliest",
		"in chunks":     "Transfer-Encoding: chunked\r\n\r\n8\r\nmatch=a&\r\n16\r\nlast_event_id=earliest\r\n0\r\n\r\n",
		"on request":    "Expect: 100-continue\r\nContent-Length: 30\r\n\r\nmatch=a&last_event_id=earliest",
	} {
		fmt.Fprintf(conn, "QUERY %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n%s", spec.DefaultHubPath, formType, framing)
		res, err := http.ReadResponse(br, nil)
		if err == nil && res.StatusCode == http.StatusContinue {
			res, err = http.ReadResponse(br, nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e, err := sse.NewDecoder(res.Body, 1<<10).Next()
		if err != nil || res.StatusCode != http.StatusOK || res.Close || e.ID != "e1" {
			t.Fatalf("%s: %d, close %v, %+v, %v", name, res.StatusCode, res.Close, e, err)
		}
		n.endStreams()
		if rest, err := io.ReadAll(res.Body); err != nil {
			t.Fatalf("%s: the end is %q, %v", name, rest, err)
		}
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 12\r\n\r\ntopic=a&id=z", spec.DefaultHubPath, formType)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body := slurp(t, res); res.StatusCode != http.StatusOK || body != "z" {
		t.Errorf("publishing afterwards: %d %q", res.StatusCode, body)
	}
}

// What nobody reads as a body must not be read as a request either: a GET's connection with a body is closed after its
// stream, however late the body comes.
//
// Covers: SUB-37.
func TestBodyOfAGetIsNoRequest(t *testing.T) {
	n := startNode(t, nil)
	for name, framing := range map[string]string{"with a length": "Content-Length: %d\r\n", "in chunks": "Transfer-Encoding: chunked\r\nX-Length: %d\r\n"} {
		t.Run(name, func(t *testing.T) {
			smuggled := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 13\r\n\r\ntopic=a&id=in", spec.DefaultHubPath, formType)
			conn := n.dial()
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			fmt.Fprintf(conn, "GET %s?topic=a HTTP/1.1\r\nHost: x\r\n"+framing+"\r\n", spec.DefaultHubPath, len(smuggled))
			br := bufio.NewReader(conn)
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !res.Close {
				t.Error("the connection is to be used again")
			}
			n.endStreams()
			_, _ = io.Copy(io.Discard, res.Body)
			_, _ = io.WriteString(conn, smuggled)
			if _, err := http.ReadResponse(br, nil); err == nil {
				t.Error("the body was answered")
			}
			if _, err := n.log.Locate(t.Context(), "in"); err == nil {
				t.Error("the body was taken for a publication")
			}
		})
	}
}

// A client that sends a QUERY and says that it wants an event stream reads one that says when to come back.
//
// Covers: SUB-41, SUB-24.
func TestSoftRefusalOfAQuery(t *testing.T) {
	n := startNode(t, func(o *Options) { o.MaxConnections = 1 })
	last := n.publish("topic", "a", "data", "x")
	n.subscribe("topic=a")
	soft := n.query("", "match=a&last_event_id="+last, "Accept", eventStream)
	if got := soft.Header.Get(spec.HeaderMercureLastEventID); got != last {
		t.Errorf("the cursor is answered with %q", got)
	}
	wantSoft(t, soft, 0)
	wantHard(t, n.query("", "match=a"), http.StatusTooManyRequests)
	wantHard(t, n.query("", "match=a", "Accept", "*/*"), http.StatusTooManyRequests)
}

// A QUERY changes nothing, so the cookie alone suffices; pages of other origins need a preflight that allows it.
//
// Covers: CORS-03, CORS-09, CORS-05, SUB-06.
func TestQueryAcrossOrigins(t *testing.T) {
	const page = "https://app.example.com"
	n, token := startClosedNode(t, func(o *Options) { o.CORSOrigins = []string{page} })
	for _, origin := range []string{"", page, "https://evil.test"} {
		headers := []string{"Cookie", spec.CookieClassic + "=" + token}
		if origin != "" {
			headers = append(headers, "Origin", origin)
		}
		s := n.wantStream(n.query("", "match=a", headers...))
		allowed := origin
		if origin != page {
			allowed = ""
		}
		if got := s.res.Header.Get(allowOrigin); got != allowed {
			t.Errorf("%q: %s is %q", origin, allowOrigin, got)
		}
	}
	for origin, allowed := range map[string]bool{page: true, "https://evil.test": false} {
		w := n.serve(http.MethodOptions, spec.DefaultHubPath, "", "Origin", origin, "Access-Control-Request-Method", spec.MethodQuery)
		if got := strings.Contains(w.Header().Get(allowMethods), spec.MethodQuery); w.Code != http.StatusNoContent || got != allowed {
			t.Errorf("preflight of %s: %d, %v", origin, w.Code, w.Header())
		}
	}
	if res := n.query("", "match=a", "Origin", page); res.StatusCode != http.StatusUnauthorized || res.Header.Get(allowOrigin) != page {
		t.Errorf("without a cookie: %d, %v", res.StatusCode, res.Header)
	}
}
