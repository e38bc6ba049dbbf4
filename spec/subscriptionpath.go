package spec

import (
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// SubscriptionQuery is what a request to the subscription API asks for. The zero value asks for everything, in a form that
// the path does not say.
type SubscriptionQuery struct {
	Generation *Dialect       // whose form, and whose subscriptions; nil = yet to be chosen (G-17), then nothing is selected
	Selector   topic.Selector // meaningless unless One or Of
	Subscriber string         // meaningless unless One
	Of         bool           // the collection of a selector
	One        bool           // a single subscription
}

// Selects reports whether the query's answer has the subscription of that selector and subscriber.
func (q *SubscriptionQuery) Selects(sel topic.Selector, subscriber string) bool {
	if q.Of || q.One {
		return sel == q.Selector && (q.Of || subscriber == q.Subscriber)
	}
	return q.Generation != nil && GenerationOf(sel.Kind) == q.Generation
}

// ParseSubscriptionPath reads what comes after …/subscriptions in a request's path, still escaped:
//
//	(nothing)                              everything, in a form that is yet to be chosen
//	/{topic}                               classic
//	/{match_type}/{match}                  draft-08, if that match type exists, else
//	/{topic}/{subscriber}                  classic
//	/{match_type}/{match}/{subscriber}     draft-08
//
// Without classic, those paths do not exist. ok is false for a path that the API does not have; a bad escape is a
// *Problem (400). Source: classic and draft-08 §Subscription API; ACT-12 … ACT-14, ACT-26, ACT-27, G-16, G-22.
func ParseSubscriptionPath(escaped string, classic bool) (q SubscriptionQuery, ok bool, err error) {
	if escaped == "" {
		return q, true, nil
	}
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return q, false, nil
	}
	segments := strings.SplitN(rest, "/", 4)
	if len(segments) > 3 {
		return q, false, nil
	}
	for i, s := range segments {
		if segments[i], err = unescapeSegment(s); err != nil {
			return q, false, err
		}
	}
	kind, draft08 := topic.KindOf(segments[0])
	switch n := len(segments); {
	case n > 1 && draft08:
		q = SubscriptionQuery{Generation: &Draft08, Selector: topic.Selector{Kind: kind, Pattern: segments[1]}, Of: n == 2, One: n == 3}
	case n < 3 && classic:
		q = SubscriptionQuery{Generation: &Classic, Selector: topic.Selector{Kind: topic.Classic, Pattern: segments[0]}, Of: n == 1, One: n == 2}
	default:
		return q, false, nil
	}
	if q.One {
		q.Subscriber = segments[len(segments)-1]
	}
	return q, true, nil
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
