package spec

import (
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// The media types of the API's documents, and the vocabulary of the classic ones.
// Source: classic §Subscription Events, §Subscription API; draft-08 the same; ACT-15, ACT-16.
const (
	MediaTypeJSONLD = "application/ld+json"
	MediaTypeJSON   = "application/json"
	contextClassic  = "https://mercure.rocks/"
)

// describeClassic is the JSON-LD of drafts 5 to 7.
var describeClassic = Description{
	MediaType: MediaTypeJSONLD,
	Path: func(hubPath string, s Subscription) string {
		return string(appendClassicPath(nil, hubPath, s))
	},
	CollectionPath: func(hubPath string, s topic.Selector) string {
		return string(AppendEscaped(append([]byte(hubPath), SubscriptionsPath+"/"...), s.Pattern))
	},
	Append: func(dst []byte, hubPath string, s Subscription, lastEventID string) []byte {
		dst = append(dst, `{"@context":"`+contextClassic+`",`...)
		dst = appendClassic(dst, hubPath, s)
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
		return append(appendClassic(append(dst, '{'), hubPath, s), '}')
	},
	AppendTail: endCollection,
	Link:       func(hubPath, _ string) string { return "<" + hubPath + `>; rel="mercure"` },
}

func endCollection(dst []byte) []byte { return append(dst, "]}"...) }

// appendClassic appends the members of a classic subscription, without the braces.
func appendClassic(dst []byte, hubPath string, s Subscription) []byte {
	dst = append(dst, `"id":"`...)
	dst = appendClassicPath(dst, hubPath, s) // has nothing that JSON would escape
	dst = AppendJSONString(append(dst, `","type":"Subscription","topic":`...), s.Selector.Pattern)
	return appendCommon(dst, s)
}

// appendCommon appends the members that both generations call the same.
func appendCommon(dst []byte, s Subscription) []byte {
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

func appendClassicPath(dst []byte, hubPath string, s Subscription) []byte {
	dst = append(append(dst, hubPath...), SubscriptionsPath...)
	dst = AppendEscaped(append(dst, '/'), s.Selector.Pattern)
	return AppendEscaped(append(dst, '/'), s.Subscriber)
}

// describeDraft08 is plain JSON, which has the cursor in a header.
var describeDraft08 = Description{
	MediaType: MediaTypeJSON,
	EventType: TypeMercure,
	Path: func(hubPath string, s Subscription) string {
		return string(appendDraft08Path(nil, hubPath, s))
	},
	CollectionPath: func(hubPath string, s topic.Selector) string {
		return string(appendSelectorPath(nil, hubPath, s))
	},
	Append: func(dst []byte, hubPath string, s Subscription, _ string) []byte {
		return append(appendDraft08(append(dst, '{'), hubPath, s), '}')
	},
	AppendHead: func(dst []byte, id, _ string) []byte {
		return append(AppendJSONString(append(dst, `{"id":`...), id), `,"type":"subscriptions","subscriptions":[`...)
	},
	AppendItem: func(dst []byte, hubPath string, s Subscription, first bool) []byte {
		if !first {
			dst = append(dst, ',')
		}
		return append(appendDraft08(append(dst, '{'), hubPath, s), '}')
	},
	AppendTail: endCollection,
	Link: func(hubPath, lastEventID string) string {
		return "<" + hubPath + `>; rel="mercure"; last-event-id="` + quotable.Replace(lastEventID) +
			`"; type="mercure"; content-type="` + MediaTypeJSON + `"`
	},
}

// quotable makes a text the inside of a quoted-string. Bytes beyond ASCII go as they are (RFC 9110 §5.6.4; PUB-12).
var quotable = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// appendDraft08 appends the members of a draft-08 subscription, without the braces (ACT-07).
func appendDraft08(dst []byte, hubPath string, s Subscription) []byte {
	dst = append(dst, `"id":"`...)
	dst = appendDraft08Path(dst, hubPath, s) // has nothing that JSON would escape
	dst = append(append(dst, `","type":"subscription","match_type":"`...), s.Selector.Kind.MatchType()...)
	return appendCommon(AppendJSONString(append(dst, `","match":`...), s.Selector.Pattern), s)
}

func appendDraft08Path(dst []byte, hubPath string, s Subscription) []byte {
	return AppendEscaped(append(appendSelectorPath(dst, hubPath, s.Selector), '/'), s.Subscriber)
}

func appendSelectorPath(dst []byte, hubPath string, s topic.Selector) []byte {
	dst = append(append(append(dst, hubPath...), SubscriptionsPath...), '/')
	dst = append(append(dst, s.Kind.MatchType()...), '/')
	return AppendEscaped(dst, s.Pattern)
}
