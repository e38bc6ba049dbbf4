package jetstream

import (
	"net/url"
	"strings"
	"testing"
)

func TestSubjectOfTopics(t *testing.T) {
	hub, err := url.Parse("https://hub.example/.well-known/mercure")
	if err != nil {
		t.Fatal(err)
	}
	s := newSubjects("p", hub, "")
	for _, c := range []struct {
		topics []string
		want   string // # stands for the hash
	}{
		{[]string{"https://example.com/books/1"}, "p.u.t.https.example=2Ecom.books.1.#"},
		{[]string{"https://example.com/books/1?q#f"}, "p.u.t.https.example=2Ecom.books.1.#"},
		{[]string{"https://example.com/"}, "p.u.t.https.example=2Ecom.-.#"},
		{[]string{"https://example.com/a//b/"}, "p.u.t.https.example=2Ecom.a.-.b.-.#"},
		{[]string{"https://example.com:8443/a"}, "p.u.t.https.example=2Ecom=3A8443.a.#"},
		{[]string{"https://example.com/1/2/3/4/5/6/7/8/9/10"}, "p.u.t.https.example=2Ecom.1.2.3.4.5.6.7.8.#"},
		{[]string{"https://example.com/%C3%A9*>"}, "p.u.t.-.#"}, // > is not canonical in a path
		{[]string{"https://example.com/%C3%A9*"}, "p.u.t.https.example=2Ecom.=25C3=25A9=2A.#"},
		{[]string{"https://example.com"}, "p.u.t.-.#"},
		{[]string{"https://example.com:443/a"}, "p.u.t.-.#"},
		{[]string{"HTTPS://example.com/a"}, "p.u.t.-.#"},
		{[]string{"https://EXAMPLE.com/a"}, "p.u.t.-.#"},
		{[]string{"https://example.com/a/../b"}, "p.u.t.-.#"},
		{[]string{"https://example.com/a/%2e%2e/b"}, "p.u.t.-.#"},
		{[]string{`https:\\example.com\a`}, "p.u.t.-.#"},
		{[]string{"https://example.com/é"}, "p.u.t.-.#"},
		{[]string{"books/1"}, "p.u.t.-.#"},
		{[]string{"#general"}, "p.u.t.-.#"},
		{[]string{"http://["}, "p.u.t.-.#"},
		{[]string{"https://example.com/@a"}, "p.u.t.https.example=2Ecom.=40a.#"},
		{[]string{"https://example.com/" + strings.Repeat("@", 2000)}, "p.u.t.-.#"}, // would take long to parse
		{[]string{"https://" + strings.Repeat("%41", 300) + ".example/"}, "p.u.t.-.#"},
		{[]string{"foo://" + strings.Repeat("%41", 300) + "/"}, "p.u.t.-.#"}, // is as the parser would write it, but likewise
		{[]string{"urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}, "p.u.t.urn.-.#"},
		{[]string{"https://example.com/a", "https://example.com/b"}, "p.u.m.https.example=2Ecom"},
		{[]string{"https://example.com/a", "http://example.com/b"}, "p.u.m.-.-"},
		{[]string{"https://example.com/a", "b"}, "p.u.m.-.-"},
		{[]string{"https://hub.example/.well-known/mercure/subscriptions/a"}, "p.u.t.https.hub=2Eexample.=2Ewell-known.mercure.subscriptions.a.#"}, // on another node it may be anybody's
		{[]string{"/.well-known/mercure/subscriptions/a"}, "p.u.s"},
		{[]string{"/.well-known/mercure/subscriptions/a..b/...?/../x"}, "p.u.s"},
		{[]string{"/.well-known/mercure/../../books/1"}, "p.u.t.-.#"}, // climbs out
		{[]string{`/.well-known/mercure/a\.%2E\%2e.`}, "p.u.t.-.#"},
		{[]string{"/.well-known/x/../mercure/subscriptions/a"}, "p.u.t.-.#"}, // not the form in which the hub publishes
		{[]string{"https://hub.example:443/.well-known/mercure/a"}, "p.u.t.-.#"},
		{[]string{"https://hub.example/.well-known/mercure"}, "p.u.t.https.hub=2Eexample.=2Ewell-known.mercure.#"},
		{[]string{"https://hub.example/.well-known/mercurex/y"}, "p.u.t.https.hub=2Eexample.=2Ewell-known.mercurex.y.#"},
	} {
		want := strings.ReplaceAll(c.want, "#", hash(c.topics[0]))
		for range 2 { // the second time from memory
			if got := s.of(c.topics); got != want {
				t.Errorf("%q: %s, want %s", c.topics, got, want)
			}
		}
	}
	if got := newSubjects("p", nil, "").of([]string{"/.well-known/mercure/subscriptions/a"}); !strings.HasPrefix(got, "p.u.t.-.") {
		t.Errorf("without a hub URL: %s", got)
	}
}

func TestLongTokensAreHashed(t *testing.T) {
	long := strings.Repeat("a", 25)
	if got := token(long[:24]); got != long[:24] {
		t.Errorf("24 characters became %s", got)
	}
	if got := token(long); got != "~"+hash(long) {
		t.Errorf("25 characters became %s", got)
	}
	if token(long) == token(long+"a") {
		t.Error("two long tokens are the same")
	}
}

// checkSubject fails the test unless s can be published to and never strains the server's control line.
func checkSubject(t *testing.T, s string) {
	t.Helper()
	if len(s) > 400 {
		t.Errorf("subject of %d bytes: %s", len(s), s)
	}
	for tok := range strings.SplitSeq(s, ".") {
		if tok == "" {
			t.Errorf("empty token in %s", s)
		}
		for _, c := range tok {
			if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-=~", c) {
				t.Errorf("%q in %s", c, s)
			}
		}
	}
}

func FuzzSubjectIsBoundedAndPlain(f *testing.F) {
	f.Add("https://example.com/a/b", "urn:x")
	f.Add("a.*.>", " \x00")
	f.Add("https://"+strings.Repeat("é", 300)+"/"+strings.Repeat("/x", 300), "")
	s := newSubjects("cinnabar", nil, "")
	f.Fuzz(func(t *testing.T, a, b string) {
		checkSubject(t, s.of([]string{a}))
		checkSubject(t, s.of([]string{a, b}))
		checkSubject(t, s.id(a))
	})
}
