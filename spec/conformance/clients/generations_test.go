package clients_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
)

// followed is what a page knows of a stream that it reads with fetch.
type followed struct {
	Got    []string `json:"got"`
	IDs    []string `json:"ids"`
	Status int      `json:"status"`
	Cursor string   `json:"cursor"` // Mercure-Last-Event-ID, as the script reads it
}

func (p *page) followed(name string) followed {
	p.t.Helper()
	return eval[followed](p, "const s = streams[%q]; return { got: s.got, ids: s.ids, status: s.status, cursor: s.cursor ?? '' };", name)
}

// follow reads a stream with fetch, by GET or, with a form in body, by QUERY.
func (p *page) follow(name, address, token, body string) {
	p.t.Helper()
	if body == "" {
		p.run(`await follow(%q, %q, { headers: { Authorization: "Bearer " + %q } });`, name, address, token)
	} else {
		p.run(`await follow(%q, %q, { method: "QUERY", body: new URLSearchParams(%q), headers: { Authorization: "Bearer " + %q } });`,
			name, address, body, token)
	}
	if f := p.followed(name); f.Status != http.StatusOK {
		p.t.Fatalf("%s: status %d", name, f.Status)
	}
}

// awaitAll waits until the stream has exactly these updates.
func (p *page) awaitAll(name string, want []string) {
	p.t.Helper()
	child.Eventually(p.t, patience, func() error {
		if got := p.followed(name).Got; !slices.Equal(got, want) {
			return fmt.Errorf("%s has got %q, want %q", name, got, want)
		}
		return nil
	})
}

// On one page an old client and a new one receive what publishers of both generations send, private updates included.
// Covers: MAT-19, G-05, G-07, G-20, G-21, X-09, SUB-02, SUB-08, REC-10, REC-20, CORS-03, CORS-04, CORS-09.
func TestBrowserClientsOfBothGenerationsOnOneHub(t *testing.T) {
	p := openPage(t)
	h := child.New(t, append(child.Draft08(), "--cors-origin", p.origin)...)
	h.Start()
	const room = "https://example.com/rooms/1"
	pattern := url.Values{"match_urlpattern": {"https://example.com/rooms/:id"}}.Encode()
	old, granted := child.Token(t), child.Draft08Token(t, room)

	p.subscribe("EventSource", at(h, "https://example.com/rooms/{id}", "&authorization=", old))
	p.waitOpen("EventSource", 1)
	p.follow("fetch", h.URL+"?"+pattern, granted, "")
	p.follow("QUERY", h.URL, granted, pattern)
	p.follow("without a grant", h.URL+"?"+pattern, child.Draft08Token(t), "")

	var all, public, ids []string
	for _, publisher := range []struct{ name, token string }{{"classic", old}, {"draft-08", granted}, {"classic again", old}} {
		for _, private := range []bool{true, false} {
			form := url.Values{"topic": {room}, "data": {fmt.Sprintf("%s, private %v", publisher.name, private)}}
			if private {
				form.Set("private", "on")
			} else {
				public = append(public, form.Get("data"))
			}
			id, err := h.Publish(t.Context(), publisher.token, form)
			if err != nil {
				t.Fatalf("publish as %s: %v", publisher.name, err)
			}
			all, ids = append(all, form.Get("data")), append(ids, id)
		}
	}
	for name, want := range map[string][]string{"EventSource": all, "fetch": all, "QUERY": all, "without a grant": public} {
		p.awaitAll(name, want)
	}
	if got := p.stream("EventSource").IDs; !slices.Equal(got, ids) {
		t.Errorf("the EventSource has the ids %q, the publishers were told %q", got, ids)
	}

	// Each takes up where the other was. A browser has six connections to a hub.
	p.run("for (const s of Object.values(streams)) await (s.reader ? s.reader.cancel() : s.source.close());")
	p.follow("resumed", h.URL+"?"+pattern+"&last_event_id="+url.QueryEscape(ids[1]), granted, "")
	p.awaitAll("resumed", all[2:])
	if got := p.followed("resumed").Cursor; got != ids[1] {
		t.Errorf("the script reads the cursor %q, want %q", got, ids[1])
	}
	p.subscribe("old again", at(h, "https://example.com/rooms/{id}", "&authorization=", old, "&lastEventID=", url.QueryEscape(p.followed("fetch").IDs[3])))
	p.awaitAll("old again", all[4:])

	// A token of draft-08 in the URL is none.
	status := eval[int](p, "return (await fetch(%q)).status;", h.URL+"?"+pattern+"&authorization="+granted)
	if status != http.StatusUnauthorized {
		t.Errorf("a token of draft-08 in the URL: status %d, want 401", status)
	}
	if challenge := eval[string](p, "return (await fetch(%q)).headers.get('WWW-Authenticate') ?? '';", h.URL+"?"+pattern); !strings.Contains(challenge, "resource_metadata=") {
		t.Errorf("the script reads the challenge %q, want it to say where the metadata are", challenge)
	}
}
