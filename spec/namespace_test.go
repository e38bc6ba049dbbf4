package spec

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
)

func newTestNamespace(tb testing.TB, hub string) *Namespace {
	tb.Helper()
	u, err := url.Parse(hub)
	if err != nil {
		tb.Fatal(err)
	}
	n, err := NewNamespace(u)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

const testHub = "https://hub.example.com/.well-known/mercure"

func TestReservedTopicVectors(t *testing.T) {
	var v struct {
		Cases []struct {
			ID, Topic     string
			Draft08Status int     `json:"draft08_status"`
			ClassicStatus int     `json:"classic_status"`
			ResolvedPath  *string `json:"resolved_path"`
		}
	}
	readVectors(t, "reserved-topics.json", &v)
	if len(v.Cases) != 41 {
		t.Fatalf("%d cases, want 41", len(v.Cases))
	}
	n := newTestNamespace(t, testHub)
	for _, c := range v.Cases {
		t.Run(c.ID, func(t *testing.T) {
			if got, want := n.Reserved(c.Topic, true), c.Draft08Status == 400; got != want {
				t.Errorf("%q reserved for at+jwt publishers: %v, want %v", c.Topic, got, want)
			}
			if got, want := n.Reserved(c.Topic, false), c.ClassicStatus == 400; got != want {
				t.Errorf("%q reserved for classic publishers: %v, want %v", c.Topic, got, want)
			}
			u, err := n.resolve(c.Topic)
			switch {
			case (err != nil) != (c.ResolvedPath == nil):
				t.Errorf("%q: resolved with %v, want path %v", c.Topic, err, c.ResolvedPath)
			case err == nil && u.Pathname() != *c.ResolvedPath:
				t.Errorf("%q: path %q, want %q", c.Topic, u.Pathname(), *c.ResolvedPath)
			}
		})
	}
}

func TestReservedBesideTheVectors(t *testing.T) {
	tests := []struct {
		hub, topic      string
		strict, classic bool
	}{
		{testHub, "https:?x", true, true},
		{testHub, "https:", true, true},
		{testHub, "HTTPS:mercure/x", true, true},
		{testHub, "https:/.well-known/mercure", true, true},
		{testHub, "mercure#general", true, true},
		{testHub, "./mercure", true, true},
		{testHub, " #general", true, false},
		{testHub, "foo/../mercure", true, true},
		{testHub, "mer\tcure/x", true, true},
		{testHub, "http:mercure/x", false, false},
		{testHub, "https://example.com/.well-known/other", false, false},
		{testHub, "https://mercure.example/.well-known", false, false},
		{"http://localhost:3000/hub%C3%A9", "/hubé/x", true, true},
		{"http://localhost:3000/hub%C3%A9", "/hub%c3%a9", true, true},
		{"http://localhost:3000/a/a", "a/x", true, true},
		{"http://localhost:3000/a/a", "/a/b", false, false},
		{"http://localhost:3000/hub/", "/hub/x", true, true},
		{"http://localhost:3000/hub/", "/hub", true, true},
	}
	for _, tt := range tests {
		n := newTestNamespace(t, tt.hub)
		if got := n.Reserved(tt.topic, true); got != tt.strict {
			t.Errorf("hub %s: %q strict: %v", tt.hub, tt.topic, got)
		}
		if got := n.Reserved(tt.topic, false); got != tt.classic {
			t.Errorf("hub %s: %q classic: %v", tt.hub, tt.topic, got)
		}
	}
}

func TestNamespaceNeedsAnAbsoluteURLBelowTheRoot(t *testing.T) {
	for _, raw := range []string{"", "/hub", "ftp://example.com/hub", "https://example.com", "https://example.com/", "https://example.com/a/.."} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := NewNamespace(u); err == nil {
			t.Errorf("%q: namespace of path %q", raw, n.path)
		}
	}
	if _, err := NewNamespace(nil); err == nil {
		t.Error("namespace of no URL")
	}
}

// FuzzReserved checks that the test without a parser never contradicts the one with it, and that no
// topic makes the parser panic.
func FuzzReserved(f *testing.F) {
	var v struct{ Cases []struct{ Topic string } }
	readVectors(f, "reserved-topics.json", &v)
	for _, c := range v.Cases {
		f.Add(c.Topic)
	}
	for _, s := range []string{"https:", "HTTPS:?x", "https:\\x", "a/../..", "..\\mercure", "file:///C|/x", "\u00a0mercure", "ｍercure", "http://[v1.x]/", "//a@b:1/.well-known/mercure", "0@@@@@@@@@"} {
		f.Add(s)
	}
	hubs := []*Namespace{
		newTestNamespace(f, testHub), newTestNamespace(f, "http://localhost/a/a"), newTestNamespace(f, "http://localhost:3000/hub%C3%A9"),
	}
	f.Fuzz(func(t *testing.T, topic string) {
		if strings.Count(topic, "@") > 256 {
			t.Skip("the parser's work grows with the square of the at signs")
		}
		for _, n := range hubs {
			for _, strict := range []bool{true, false} {
				if n.cannotBe(topic) && n.reserved(topic, strict) {
					t.Fatalf("%q is reserved for %s, but the cheap test says it cannot be", topic, n.path)
				}
			}
			if n.Reserved(topic, false) && !n.Reserved(topic, true) {
				t.Fatalf("%q: the classic rule is stricter", topic)
			}
			if _, err := n.resolve(topic); isPanic(err) {
				t.Fatalf("%q: %v", topic, err)
			}
		}
	})
}

func BenchmarkReserved(b *testing.B) {
	n := newTestNamespace(b, testHub)
	for name, topic := range map[string]string{
		"ordinary": "https://example.com/books/1234", "encoded": "https://example.com/books/caf%C3%A9",
		"parsed": "https://example.com/mercure", "long": "https://example.com/mercure/" + strings.Repeat("a/../", 400),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n.Reserved(topic, false) {
					b.Fatal("reserved")
				}
			}
		})
	}
}

// A topic that would cost the parser too much is kept out, if it could be reserved at all.
//
// Covers: SEC-15, PUB-07.
func TestReservedIsBounded(t *testing.T) {
	hub, err := url.Parse("https://hub.example.com/.well-known/mercure")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := NewNamespace(hub)
	if err != nil {
		t.Fatal(err)
	}
	at, foreign := strings.Repeat("@", maxAt+1), strings.Repeat("é", 257)
	for topic, want := range map[string]bool{
		"https://" + at + "x/mercure":                 true,
		"https://" + at + "x/books":                   false, // does not name the hub
		"https://" + foreign + "/mercure":             true,
		"//" + foreign + "/mercure":                   true,
		"https://" + foreign + "/books":               false,
		"https://x/mercure/" + foreign:                false,
		"#" + foreign + "mercure":                     false,
		"#" + at:                                      false,
		"https://x/books?mercure" + at:                false,
		"https://u@x/.well-known/mercure/a":           true,
		"https://" + at[1:] + "x/elsewhere/mercure":   false,
		"https://" + at[1:] + "x/.well-known/mercure": true,
	} {
		if got := ns.Reserved(topic, false); got != want {
			t.Errorf("%q: reserved is %v, want %v", topic, got, want)
		}
	}
}

// The first topics of a hub may come at the same time.
func TestANamespaceIsUsedByMany(t *testing.T) {
	n := newTestNamespace(t, testHub)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 8 {
		wg.Go(func() {
			<-start
			if !n.Reserved(fmt.Sprintf("/.well-known/x/../mercure/%d", i), true) {
				t.Error("not reserved")
			}
		})
	}
	close(start)
	wg.Wait()
}
