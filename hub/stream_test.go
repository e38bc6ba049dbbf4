package hub

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Covers: SUB-01, SUB-27, SUB-28, SSE-W8, SSE-W12.
func TestStreamBytes(t *testing.T) {
	n := startNode(t, nil)
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		t.Run(proto, func(t *testing.T) {
			_, br, head := n.rawStream(proto, "topic=a", 0)
			chunked := proto == "HTTP/1.1"
			if got := head.Get("Transfer-Encoding") == "chunked"; got != chunked {
				t.Errorf("chunked is %v", got)
			}
			for name, want := range map[string]string{
				"Content-Type":  "text/event-stream",
				"Cache-Control": "private, no-cache, no-store, must-revalidate, max-age=0",
				"Pragma":        "no-cache", "Expires": "0", "X-Accel-Buffering": "no",
			} {
				if got := head.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			want := ":\n" + "id: e1\ndata: x\n\n"
			if chunked {
				want = "2\r\n:\n\r\n" + "10\r\nid: e1\ndata: x\n\n\r\n"
			}
			n.publish("topic", "a", "id", "e1", "data", "x")
			got := make([]byte, len(want))
			if _, err := io.ReadFull(br, got); err != nil || string(got) != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		})
	}
}

// Covers: SUB-21, SUB-22, MAT-19, CLA-02.
func TestDelivery(t *testing.T) {
	for _, hijack := range []bool{true, false} {
		t.Run(map[bool]string{true: "shard", false: "handler"}[hijack], func(t *testing.T) {
			n := startNode(t, nil)
			n.noHijack = !hijack
			one := n.subscribe("topic=a&topic={x}&topic=*")
			alt := n.subscribe("topic=b")
			secret := n.subscribe("topic=a", "X-Grant", "a")
			n.publish("topic", "a", "topic", "b", "data", "1")
			n.publish("topic", "a", "data", "2", "private", "")
			n.publish("topic", "c", "data", "3")
			n.publish("topic", "a", "topic", "b", "data", "4")
			one.want("1", "3", "4")
			alt.want("1", "4")
			secret.want("1", "2", "4")
		})
	}
}

// Covers: REC-01, REC-02, REC-05, REC-06, REC-08, REC-09, REC-11, REC-12, REC-13, REC-15, REC-19, REC-21.
func TestResume(t *testing.T) {
	n := startNode(t, nil)
	id1 := n.publish("topic", "a", "data", "1")
	n.publish("topic", "other", "data", "no")
	id2 := n.publish("topic", "a", "data", "2", "id", "é")
	n.publish("topic", "a", "data", "3")

	for name, c := range map[string]struct {
		query  string
		header string
		echo   string
		want   []string
	}{
		"header":               {"topic=a", id1, id1, []string{"2", "3"}},
		"query":                {"topic=a&lastEventID=" + id1, "", id1, []string{"2", "3"}},
		"header wins":          {"topic=a&lastEventID=" + id1, id2, id2, []string{"3"}},
		"latin-1":              {"topic=a", "Ã©", "Ã©", []string{"3"}},
		"snake case wins":      {"topic=a&lastEventID=x&last_event_id=" + id1, "", id1, []string{"2", "3"}},
		"legacy":               {"topic=a&Last-Event-ID=" + id1, "", id1, []string{"2", "3"}},
		"earliest":             {"topic=a", "earliest", "earliest", []string{"1", "2", "3"}},
		"unknown is live only": {"topic=a", "nobody", "earliest", nil},
		"invalid is unknown":   {"topic=a&lastEventID=a%0Ab", "", "earliest", nil},
		"empty is unknown":     {"topic=a&lastEventID=", "", "earliest", nil},
		"none":                 {"topic=a", "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := *n
			n.t = t
			var headers []string
			if c.header != "" {
				headers = []string{"Last-Event-ID", c.header}
			}
			s := n.subscribe(c.query, headers...)
			for _, h := range []string{"Last-Event-ID", "Mercure-Last-Event-ID"} {
				if got := s.res.Header.Get(h); got != c.echo {
					t.Errorf("%s is %q, want %q", h, got, c.echo)
				}
			}
			s.want(c.want...)
			n.publish("topic", "a", "topic", name, "data", "live "+name)
			for {
				e, err := s.next()
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(e.Data, "live ") {
					t.Fatalf("unexpected %q", e.Data)
				}
				if e.Data == "live "+name {
					return
				}
			}
		})
	}
}

// Covers: SUB-05, SUB-06, SUB-11, PUB-02, ERR-11, ERR-12.
func TestRefusals(t *testing.T) {
	n := startNode(t, nil)
	for name, c := range map[string]struct {
		method, query, contentType, body string
		status                           int
	}{
		"head":          {http.MethodHead, "topic=a", "", "", 200},
		"no topic":      {http.MethodGet, "", "", "", 400},
		"match":         {http.MethodGet, "topic=a&Matching=1", "", "", 400},
		"put":           {http.MethodPut, "topic=a", "", "", 405},
		"query":         {spec.MethodQuery, "", "", "", 400},
		"query of json": {spec.MethodQuery, "match=a", "application/json", "{}", 415},
		"large query":   {spec.MethodQuery, "match=a", formType, "x=" + strings.Repeat("x", 1<<20), 413},
		"json":          {http.MethodPost, "", "application/json", "{}", 415},
		"parameter":     {http.MethodPost, "", "application/x-www-form-urlencoded; charset=UTF-8", "topic=a", 200},
		"no media type": {http.MethodPost, "", "", "topic=a", 415},
		"reserved":      {http.MethodPost, "", formType, "topic=/.well-known/mercure/x", 400},
		"too large":     {http.MethodPost, "", formType, "topic=a&data=" + strings.Repeat("x", 1<<20), 413},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, n.url+"?"+c.query, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			res, err := n.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if res.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %s", res.StatusCode, c.status, body)
			}
			if c.status == http.StatusMethodNotAllowed && res.Header.Get("Allow") != allowedMethods {
				t.Errorf("Allow is %q", res.Header.Get("Allow"))
			}
			if c.status >= 400 && (res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("X-Request-Id") == "") {
				t.Errorf("head %v", res.Header)
			}
		})
	}
}

const formType = "application/x-www-form-urlencoded"
