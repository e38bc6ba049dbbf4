package spec

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Subscription is one selector of one connection: what the subscription API lists and what subscription events
// tell of. It is a value.
type Subscription struct {
	Selector   topic.Selector
	Subscriber string // the connection's id (ACT-10)
	Active     bool
	Payload    json.RawMessage // valid JSON, nil for none; the same for all subscriptions of a classic token (ACT-29)
}

// Description is how one generation writes about active subscriptions. hubPath is the path of the hub. Nothing in
// it keeps state; all functions are safe for concurrent use.
type Description struct {
	MediaType string // of the API's documents (ACT-15, ACT-16)
	EventType string // SSE type of events, empty for none (ACT-08, ACT-09)
	// Path is the subscription's place in the API, its identity, and the topic of its events (ACT-03, ACT-12).
	Path func(hubPath string, s Subscription) string
	// Append appends the subscription's document to dst, by itself: as an event with lastEventID empty, or as the
	// answer of the API with the cursor (ACT-06, ACT-19).
	Append func(dst []byte, hubPath string, s Subscription, lastEventID string) []byte
	// AppendHead begins the document of a collection, at id, its escaped path (ACT-17); AppendItem appends one of
	// its members, where first says that none came before; AppendTail ends it.
	AppendHead func(dst []byte, id, lastEventID string) []byte
	AppendItem func(dst []byte, hubPath string, s Subscription, first bool) []byte
	AppendTail func(dst []byte) []byte
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

// The media type and the vocabulary of classic documents. Source: classic §Subscription Events, §Subscription API.
const (
	MediaTypeJSONLD = "application/ld+json"
	contextClassic  = "https://mercure.rocks/"
)

// describeClassic is the JSON-LD of drafts 5 to 7.
var describeClassic = Description{
	MediaType: MediaTypeJSONLD,
	Path: func(hubPath string, s Subscription) string {
		return string(appendSubscriptionPath(nil, hubPath, s))
	},
	Append: func(dst []byte, hubPath string, s Subscription, lastEventID string) []byte {
		dst = append(dst, `{"@context":"`+contextClassic+`",`...)
		dst = appendSubscription(dst, hubPath, s)
		if lastEventID != "" {
			dst = AppendJSONString(append(dst, `,"lastEventID":`...), lastEventID)
		}
		return append(dst, '}')
	},
	AppendHead: func(dst []byte, id, lastEventID string) []byte {
		dst = AppendJSONString(append(dst, `{"@context":"`+contextClassic+`","id":`...), id)
		dst = AppendJSONString(append(dst, `,"type":"Subscriptions","lastEventID":`...), lastEventID)
		return append(dst, `,"subscriptions":[`...)
	},
	AppendItem: func(dst []byte, hubPath string, s Subscription, first bool) []byte {
		if !first {
			dst = append(dst, ',')
		}
		return append(appendSubscription(append(dst, '{'), hubPath, s), '}')
	},
	AppendTail: func(dst []byte) []byte { return append(dst, "]}"...) },
}

// appendSubscription appends the members of a classic subscription, without the braces.
func appendSubscription(dst []byte, hubPath string, s Subscription) []byte {
	dst = append(dst, `"id":"`...)
	dst = appendSubscriptionPath(dst, hubPath, s) // has nothing that JSON would escape
	dst = AppendJSONString(append(dst, `","type":"Subscription","topic":`...), s.Selector.Pattern)
	dst = AppendJSONString(append(dst, `,"subscriber":`...), s.Subscriber)
	if s.Active {
		dst = append(dst, `,"active":true`...)
	} else {
		dst = append(dst, `,"active":false`...)
	}
	if len(s.Payload) > 0 {
		dst = append(append(dst, `,"payload":`...), s.Payload...)
	}
	return dst
}

func appendSubscriptionPath(dst []byte, hubPath string, s Subscription) []byte {
	dst = append(append(dst, hubPath...), SubscriptionsPath...)
	dst = AppendEscaped(append(dst, '/'), s.Selector.Pattern)
	return AppendEscaped(append(dst, '/'), s.Subscriber)
}

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

// SubscriptionQuery is what a request to the subscription API asks for. The zero value asks for everything.
type SubscriptionQuery struct {
	Selector   topic.Selector // meaningless unless One or Of
	Subscriber string         // meaningless unless One
	Of         bool           // the collection of a selector
	One        bool           // a single subscription
}

// Selects reports whether the query's answer has the subscription of that selector and subscriber.
func (q *SubscriptionQuery) Selects(sel topic.Selector, subscriber string) bool {
	return !q.Of && !q.One || sel == q.Selector && (q.Of || subscriber == q.Subscriber)
}

// ParseSubscriptionPath reads what comes after …/subscriptions in a request's path, still escaped: empty,
// /{topic}, or /{topic}/{subscriber}. ok is false for a path that the API does not have; a bad escape is a
// *Problem (400). Source: classic §Subscription API; ACT-12, ACT-14, ACT-26.
func ParseSubscriptionPath(escaped string) (q SubscriptionQuery, ok bool, err error) {
	if escaped == "" {
		return q, true, nil
	}
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return q, false, nil
	}
	first, second, both := strings.Cut(rest, "/")
	if strings.Contains(second, "/") {
		return q, false, nil
	}
	pattern, err := unescapeSegment(first)
	if err != nil {
		return q, false, err
	}
	q.Selector = topic.Selector{Kind: topic.Classic, Pattern: pattern}
	if !both {
		q.Of = true
		return q, true, nil
	}
	q.One = true
	q.Subscriber, err = unescapeSegment(second)
	return q, err == nil, err
}

// unescapeSegment decodes every triplet once; a plus sign is a plus sign.
func unescapeSegment(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return "", BadRequest("bad_path", "the path has a bad percent-encoding")
		}
		b = append(b, unhex(s[i+1])<<4|unhex(s[i+2]))
		i += 2
	}
	return string(b), nil
}
