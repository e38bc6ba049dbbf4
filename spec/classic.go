package spec

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Classic is the pre-standardization protocol: drafts 5 to 7, hubs 0.10 to 0.24. It is read only.
var Classic = Dialect{
	Name:       "classic",
	ResumeKeys: []string{"last_event_id", "lastEventID", "Last-Event-ID", "Last-Event-Id", "last-event-id"},
	Reconciled: HeaderLastEventID,
	Cookie:     CookieClassic,
	Selectors:  classicSelectors,
	Claims:     classicClaims,
	Describe:   &describeClassic,
}

// classicSelectors reads the `topic` parameters.
// Source: classic §Subscription; SUB-07, SUB-16, SUB-18 … SUB-20.
func classicSelectors(f Form, l Limits) ([]topic.Selector, error) {
	var s selectorReader
	for i := range f {
		if f[i].Name == FieldTopic {
			if err := s.read(f[i], topic.Classic, l); err != nil {
				return nil, err
			}
		}
	}
	return s.list, nil
}

// classicClaims reads `mercure`, or `https://mercure.rocks/`, which then replaces it. Objects are decoded
// into maps because Go folds the case of struct field names (AUT-10).
// Source: classic §Authorization; CLA-01 … CLA-07, G-03, LIM-08.
func classicClaims(payload json.RawMessage, l Limits) (Claims, error) {
	l = l.WithDefaults()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(payload, &all); err != nil || all == nil {
		return Claims{}, invalidToken("invalid_claims", "the token's payload is not a JSON object", err)
	}
	if hasMercureDetail(all["authorization_details"]) {
		return Claims{}, invalidToken("wrong_token_type",
			"the token has Mercure authorization_details but is not of type at+jwt", nil)
	}
	name := ClaimNamespaced
	raw, ok := all[name]
	if !ok {
		name = ClaimMercure
		raw = all[name]
	}
	if absent(raw) {
		return Claims{}, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return Claims{}, invalidToken("invalid_claims", "the claim "+name+" is not an object", err)
	}
	var c Claims
	var err error
	if c.Publish, err = claimSelectors(object, "publish", l); err != nil {
		return Claims{}, err
	}
	if c.Subscribe, err = claimSelectors(object, "subscribe", l); err != nil {
		return Claims{}, err
	}
	if len(c.Publish)+len(c.Subscribe) > l.GrantSelectors {
		return Claims{}, tooManySelectors(l)
	}
	if p := object["payload"]; !absent(p) {
		c.Payload = bytes.Clone(p)
	}
	return c, nil
}

func claimSelectors(object map[string]json.RawMessage, member string, l Limits) ([]topic.Selector, error) {
	raw := object[member]
	if absent(raw) {
		return nil, nil
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, invalidToken("invalid_claims", "mercure."+member+" is not an array", err)
	}
	if len(entries) > l.GrantSelectors {
		return nil, tooManySelectors(l)
	}
	selectors := make([]topic.Selector, len(entries))
	for i, e := range entries {
		var pattern string
		if absent(e) || json.Unmarshal(e, &pattern) != nil {
			return nil, invalidToken("invalid_claims", "mercure."+member+" has an entry that is not a string", nil)
		}
		if len(pattern) > l.SelectorBytes {
			p := invalidToken("selector_too_long", "", nil)
			p.Detail = "mercure." + member + " has an entry longer than " + strconv.Itoa(l.SelectorBytes) + " bytes"
			return nil, p
		}
		selectors[i] = topic.Selector{Kind: topic.Classic, Pattern: pattern}
	}
	return selectors, nil
}

// hasMercureDetail reports whether raw is an array with a Mercure entry, or such an entry by itself, which is malformed
// but means the same; entries of any other shape or type are none of our business (D08-08).
func hasMercureDetail(raw json.RawMessage) bool {
	var entries []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &entries) != nil {
		return isMercureDetail(raw)
	}
	return slices.ContainsFunc(entries, isMercureDetail)
}

func isMercureDetail(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	var kind string
	return json.Unmarshal(raw, &object) == nil && json.Unmarshal(object["type"], &kind) == nil && kind == AuthorizationDetailType
}

// absent reports whether a member is missing or null, which grants nothing.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func tooManySelectors(l Limits) *Problem {
	return invalidToken("too_many_selectors", "the token has more than "+strconv.Itoa(l.GrantSelectors)+" selectors", nil)
}

func invalidToken(reason, detail string, cause error) *Problem {
	return &Problem{
		Status: http.StatusUnauthorized, Reason: reason, Code: CodeInvalidToken, Challenge: true, Detail: detail, Cause: cause,
	}
}
