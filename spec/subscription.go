package spec

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Subscription is one selector of one connection: what the subscription API lists and what subscription events
// tell of. It is a value.
type Subscription struct {
	Selector   topic.Selector
	Subscriber string // the connection's id (ACT-10)
	Active     bool
	Payload    json.RawMessage // valid JSON, nil for none (ACT-29, ACT-30)
}

// GenerationOf returns the generation whose parameters make such selectors, nil for a kind that is not known here.
func GenerationOf(k topic.Kind) *Dialect {
	switch k {
	case topic.Classic:
		return &Classic
	case topic.Exact, topic.URLPattern:
		return &Draft08
	default:
		return nil
	}
}

// Description is how one generation writes about active subscriptions, which are of its own kinds of selectors. hubPath is
// the path of the hub. Nothing in it keeps state; all functions are safe for concurrent use.
type Description struct {
	MediaType string // of the API's documents (ACT-15, ACT-16)
	EventType string // SSE type of events, empty for none (ACT-08, ACT-09)
	// Path is the subscription's place in the API, its identity, and the topic of its events (ACT-03, ACT-04, ACT-12, ACT-13).
	Path func(hubPath string, s Subscription) string
	// Append appends the subscription's document to dst, by itself: as an event with lastEventID empty, or as the
	// answer of the API with the cursor, if that is where it stands (ACT-06, ACT-07, ACT-19).
	Append func(dst []byte, hubPath string, s Subscription, lastEventID string) []byte
	// CollectionPath is the place in the API of a selector's subscriptions.
	CollectionPath func(hubPath string, s topic.Selector) string
	// AppendHead begins the document of a collection, at id, its escaped path (ACT-17, ACT-18); AppendItem appends one of
	// its members, where first says that none came before; AppendTail ends it.
	AppendHead func(dst []byte, id, lastEventID string) []byte
	AppendItem func(dst []byte, hubPath string, s Subscription, first bool) []byte
	AppendTail func(dst []byte) []byte
	// Link is the header of that name of the API's answers, which announces the hub, and carries the cursor if the
	// documents do not (ACT-20, DIS-07).
	Link func(hubPath, lastEventID string) string
}

// Event is the update that tells of s: private, of one topic, without an id (ACT-02).
func (d *Description) Event(hubPath string, s Subscription) *Update {
	return &Update{
		Topics: []string{d.Path(hubPath, s)}, Type: d.EventType, Private: true,
		Data: string(d.Append(nil, hubPath, s, "")),
	}
}

// SubscriptionsPath is the path of the subscription API below the hub's.
const SubscriptionsPath = "/subscriptions"

// AppendEscaped appends s with everything percent-encoded but ALPHA, DIGIT and -._~, in capitals: the simple string
// expansion of RFC 6570 (ACT-05).
func AppendEscaped(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if isUnreserved(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// AppendJSONString appends s, valid UTF-8, as a JSON string. Nothing is escaped that need not be.
func AppendJSONString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendJSONSlowly(dst, s)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

func appendJSONSlowly(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
