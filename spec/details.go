package spec

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// draft08Claims reads authorization_details. Objects are decoded into maps because Go folds the case of struct field
// names (AUT-10). One bad entry of the Mercure type refuses the whole token; entries of other types are nobody's here.
// Source: draft-08 §Authorization; D08-08 … D08-14, G-03, LIM-08.
func draft08Claims(payload json.RawMessage, l Limits) (Claims, error) {
	l = l.WithDefaults()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(payload, &all); err != nil || all == nil {
		return Claims{}, invalidToken("invalid_claims", "the token's payload is not a JSON object", err)
	}
	raw := all["authorization_details"]
	if absent(raw) {
		return Claims{}, nil
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return Claims{}, invalidDetail("are not an array")
	}
	r := detailReader{limits: l}
	for _, entry := range entries {
		if !isMercureDetail(entry) {
			continue
		}
		if err := r.read(entry); err != nil {
			return Claims{}, err
		}
	}
	return r.claims, nil
}

// detailReader collects what the Mercure entries of authorization_details grant.
type detailReader struct {
	limits   Limits
	details  int
	matchers int
	claims   Claims
}

// read adds one entry of the Mercure type.
func (r *detailReader) read(raw json.RawMessage) error {
	if r.details++; r.details > r.limits.GrantDetails {
		return invalidToken("too_many_details",
			"the token has more than "+strconv.Itoa(r.limits.GrantDetails)+" authorization_details", nil)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return invalidDetail("have an entry that is not an object") // isMercureDetail has read it before
	}
	publish, subscribe, err := detailActions(object["actions"])
	if err != nil {
		return err
	}
	topics, err := r.topics(object["topics"])
	if err != nil {
		return err
	}
	payload, given := object["payload"]
	if given && payload[0] != '{' { // what the decoder hands over begins without blanks
		return invalidDetail("have a payload that is not an object")
	}
	if publish {
		r.claims.Publish = append(r.claims.Publish, topics...)
	}
	if subscribe {
		r.claims.Subscribe = append(r.claims.Subscribe, topics...)
		r.claims.Details = append(r.claims.Details, Detail{Topics: topics, Payload: bytes.Clone(payload)})
	}
	return nil
}

// detailActions reads the actions that this hub knows; others may be there (D08-09).
func detailActions(raw json.RawMessage) (publish, subscribe bool, err error) {
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil || len(entries) == 0 {
		return false, false, invalidDetail("have an entry whose actions are not an array of at least one string")
	}
	for _, e := range entries {
		action, ok := jsonString(e)
		if !ok {
			return false, false, invalidDetail("have an action that is not a string")
		}
		publish = publish || action == ActionPublish.String()
		subscribe = subscribe || action == ActionSubscribe.String()
	}
	return publish, subscribe, nil
}

// topics reads the matchers of one entry (D08-10).
func (r *detailReader) topics(raw json.RawMessage) ([]topic.Selector, error) {
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil || len(entries) == 0 {
		return nil, invalidDetail("have an entry whose topics are not an array of at least one matcher")
	}
	if r.matchers += len(entries); r.matchers > r.limits.GrantMatchers {
		return nil, invalidToken("too_many_selectors",
			"the token's authorization_details have more than "+strconv.Itoa(r.limits.GrantMatchers)+" topics", nil)
	}
	selectors := make([]topic.Selector, len(entries))
	for i, e := range entries {
		var err error
		if selectors[i], err = r.matcher(e); err != nil {
			return nil, err
		}
	}
	return selectors, nil
}

// matcher reads one object {match, match_type}.
func (r *detailReader) matcher(raw json.RawMessage) (topic.Selector, error) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return topic.Selector{}, invalidDetail("have a topic that is not an object with the member match")
	}
	match, ok := jsonString(object["match"])
	switch {
	case !ok:
		return topic.Selector{}, invalidDetail("have a topic whose match is not a string")
	case len(match) > r.limits.SelectorBytes:
		return topic.Selector{}, invalidToken("selector_too_long",
			"the token's authorization_details have a match longer than "+strconv.Itoa(r.limits.SelectorBytes)+" bytes", nil)
	case !ValidText(match):
		return topic.Selector{}, invalidDetail("have a match with control or format characters")
	}
	kind := topic.Exact
	if matchType, given := object["match_type"]; given {
		name, ok := jsonString(matchType)
		if !ok {
			return topic.Selector{}, invalidDetail("have a match_type that is not a string")
		}
		if kind, ok = topic.KindOf(name); !ok {
			return topic.Selector{}, invalidDetail("have a match_type that is neither " + topic.TypeExact + " nor " + topic.TypeURLPattern)
		}
	}
	return topic.Selector{Kind: kind, Pattern: match}, nil
}

// jsonString decodes a JSON string; anything else, and nothing, is not one.
func jsonString(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	ok = json.Unmarshal(raw, &s) == nil
	return s, ok
}

func invalidDetail(what string) *Problem {
	return invalidToken("invalid_claims", "the token's authorization_details "+what, nil)
}
