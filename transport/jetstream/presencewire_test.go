package jetstream

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Hubs of two versions share a directory while one replaces the other: what was stored before single subscriptions had
// payloads is read, and what is stored now can be read by what read it then.
func TestPresencesOfTwoVersions(t *testing.T) {
	old, err := decodePresence([]byte(`{"s":"urn:uuid:1","u":"ann","t":[{"k":1,"p":"a"},{"k":1,"p":"b"}],"p":{"user":"ann"},"at":7}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range old.Selectors {
		if got := string(old.PayloadOf(i)); got != `{"user":"ann"}` {
			t.Errorf("payload %d is %s", i, got)
		}
	}
	if old.Subject != "ann" || old.Subscriber != "urn:uuid:1" || old.Since.UnixNano() != 7 || old.Payloads != nil {
		t.Errorf("%+v", old)
	}

	p := transport.Presence{
		Subscriber: "urn:uuid:2", Selectors: []topic.Selector{{Kind: topic.Exact, Pattern: "a"}, {Kind: topic.URLPattern, Pattern: "b"}},
		Payloads: []json.RawMessage{nil, json.RawMessage(`{}`)},
	}
	b, err := encodePresence(p)
	if err != nil {
		t.Fatal(err)
	}
	var before struct {
		Subscriber string `json:"s"`
		Selectors  []struct {
			Kind    topic.Kind `json:"k"`
			Pattern string     `json:"p"`
		} `json:"t"`
		Payload json.RawMessage `json:"p,omitempty"`
	}
	if err := json.Unmarshal(b, &before); err != nil || before.Subscriber != p.Subscriber || len(before.Selectors) != 2 ||
		before.Selectors[1].Kind != topic.URLPattern || before.Selectors[1].Pattern != "b" || before.Payload != nil {
		t.Errorf("%s is read as %+v, %v", b, before, err)
	}
}

// A place that no payload has is no payload, and no panic.
func TestPresenceWithABadPlace(t *testing.T) {
	for _, stored := range []string{
		`{"s":"x","t":[{"k":2,"p":"a","v":2}],"pp":[{}]}`, `{"s":"x","t":[{"k":2,"p":"a","v":-1}],"pp":[{}]}`, `{"s":"x","t":[{"k":2,"p":"a","v":1}]}`,
	} {
		if p, err := decodePresence([]byte(stored)); err != nil || p.PayloadOf(0) != nil {
			t.Errorf("%s: %+v, %v", stored, p, err)
		}
	}
}

// Subscriptions that share a payload do not multiply it; one that does not fit all the same is refused.
func TestSharedPayloadsAreStoredOnce(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("x", 12<<10) + `"`)
	p := transport.Presence{Subscriber: "urn:uuid:1"}
	for i := range 100 {
		p.Selectors = append(p.Selectors, topic.Selector{Kind: topic.Exact, Pattern: strings.Repeat("a", i)})
		p.Payloads = append(p.Payloads, long)
	}
	p.Payloads[50] = json.RawMessage(`{}`)
	b, err := encodePresence(p)
	if err != nil || len(b) > 32<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	got, err := decodePresence(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Selectors {
		if string(got.PayloadOf(i)) != string(p.PayloadOf(i)) {
			t.Errorf("payload %d is another", i)
		}
	}

	l := open(t, Options{Dir: t.TempDir(), lease: shortLease})
	if err := l.Attend(t.Context(), nil, func() {}); err != nil {
		t.Fatal(err)
	}
	if err := l.Enter(t.Context(), p); err != nil {
		t.Errorf("enter: %v", err)
	}
	huge := p
	huge.Subscriber = "urn:uuid:2"
	huge.Payloads = []json.RawMessage{json.RawMessage(`"` + strings.Repeat("x", int(l.nc.MaxPayload())) + `"`)}
	if err := l.Enter(t.Context(), huge); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("enter: %v, want ErrTooLarge", err)
	}
}
