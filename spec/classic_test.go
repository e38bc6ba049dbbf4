package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

func classicSelector(pattern string) topic.Selector {
	return topic.Selector{Kind: topic.Classic, Pattern: pattern}
}

func TestClassicSelectors(t *testing.T) {
	l := Limits{Selectors: 3, SelectorBytes: 10}
	tests := []struct {
		name, query string
		status      int
		want        []string
	}{
		{"one", "topic=a", 200, []string{"a"}},
		{"several, in order", "topic=b&x=1&topic=%2A&topic=a;b", 200, []string{"b", "*", "a;b"}},
		{"duplicates collapse", "topic=a&topic=%61&topic=b", 200, []string{"a", "b"}},
		{"an encoded name", "%74opic=a", 200, []string{"a"}},
		{"a brace that is no template", "topic={", 200, []string{"{"}},
		{"none", "", 400, nil},
		{"names are case-sensitive", "Topic=a", 400, nil},
		{"too many", "topic=a&topic=a&topic=a&topic=a", 400, nil},
		{"too long", "topic=01234567890", 400, nil},
		{"a control character", "topic=a%0Ab", 400, nil},
		{"a format character", "topic=%E2%80%AE", 400, nil},
		{"not UTF-8", "topic=%FF", 400, nil},
		{"the reserved prefix in another case", "topic=a&MATCHES=1", 400, nil},
		{"the reserved prefix encoded", "topic=a&%6Datch_regexp=b", 400, nil},
		{"a name that only contains it", "topic=a&rematch=1&mat=2&m%C4%81tch=3", 200, []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadSelectors(ParseForm(tt.query), l, true)
			if status := statusOf(t, err); status != tt.status {
				t.Fatalf("status %d (%v), want %d", status, err, tt.status)
			}
			var patterns []string
			for _, s := range got {
				if s.Kind != topic.Classic {
					t.Errorf("kind %d", s.Kind)
				}
				patterns = append(patterns, s.Pattern)
			}
			if !reflect.DeepEqual(patterns, tt.want) {
				t.Errorf("%q, want %q", patterns, tt.want)
			}
		})
	}
	if _, err := ReadSelectors(nil, l, true); err == nil || !strings.Contains(err.Error(), `"topic"`) {
		t.Errorf("the text does not name the missing parameter: %v", err)
	}
}

func TestClassicClaims(t *testing.T) {
	detail := `{"type":"` + AuthorizationDetailType + `","actions":["publish"]}`
	tests := []struct {
		name, payload string
		status        int
		want          Claims
	}{
		{
			"both roles and a payload", `{"mercure":{"publish":["a"],"subscribe":["b","{c}"],"payload":{"x":1}},"sub":"u"}`, 200,
			Claims{Publish: []topic.Selector{classicSelector("a")}, Subscribe: []topic.Selector{classicSelector("b"), classicSelector("{c}")}, Payload: json.RawMessage(`{"x":1}`)},
		},
		{"no claim", `{"sub":"u"}`, 200, Claims{}},
		{"null claim", `{"mercure":null}`, 200, Claims{}},
		{"null members", `{"mercure":{"publish":null,"subscribe":null,"payload":null}}`, 200, Claims{}},
		{"any JSON payload", `{"mercure":{"payload":"text"}}`, 200, Claims{Payload: json.RawMessage(`"text"`)}},
		{"the namespaced claim", `{"https://mercure.rocks/":{"publish":["a"]}}`, 200, Claims{Publish: []topic.Selector{classicSelector("a")}}},
		{
			"the namespaced claim replaces the other", `{"mercure":{"publish":["*"]},"https://mercure.rocks/":{"subscribe":["b"]}}`, 200,
			Claims{Subscribe: []topic.Selector{classicSelector("b")}},
		},
		{"even when it is null", `{"mercure":{"publish":["*"]},"https://mercure.rocks/":null}`, 200, Claims{}},
		{"names are exact", `{"MERCURE":{"publish":["*"]},"Mercure":{"publish":["*"]}}`, 200, Claims{}},
		{"member names are exact", `{"mercure":{"PUBLISH":["*"],"Subscribe":["*"],"Payload":1}}`, 200, Claims{}},
		{"foreign details", `{"mercure":{},"authorization_details":[{"type":"x"},7,"y",{"type":3},{"Type":"` + AuthorizationDetailType + `"}]}`, 200, Claims{}},
		{"details of another shape", `{"authorization_details":"x"}`, 200, Claims{}},
		{"a Mercure detail", `{"mercure":{"publish":["*"]},"authorization_details":[{"type":"x"},` + detail + `]}`, 401, Claims{}},
		{"a Mercure detail that is not in an array", `{"mercure":{"publish":["*"]},"authorization_details":` + detail + `}`, 401, Claims{}},
		{"a foreign detail that is not in an array", `{"mercure":{},"authorization_details":{"type":"x"}}`, 200, Claims{}},
		{"a string of selectors", `{"mercure":{"subscribe":"*"}}`, 401, Claims{}},
		{"an object of selectors", `{"mercure":{"publish":{"0":"*"}}}`, 401, Claims{}},
		{"a number among selectors", `{"mercure":{"publish":["a",7]}}`, 401, Claims{}},
		{"null among selectors", `{"mercure":{"publish":["a",null]}}`, 401, Claims{}},
		{"an array as claim", `{"mercure":["*"]}`, 401, Claims{}},
		{"a string as claim", `{"mercure":"*"}`, 401, Claims{}},
		{"not an object", `["mercure"]`, 401, Claims{}},
		{"null", `null`, 401, Claims{}},
		{"not JSON", `{`, 401, Claims{}},
		{"too many selectors", `{"mercure":{"publish":["a"` + strings.Repeat(`,"b"`, 1000) + `]}}`, 401, Claims{}},
		{"too many together", `{"mercure":{"publish":["a"` + strings.Repeat(`,"b"`, 500) + `],"subscribe":["a"` + strings.Repeat(`,"b"`, 499) + `]}}`, 401, Claims{}},
		{"a selector that is too long", `{"mercure":{"publish":["` + strings.Repeat("x", 4097) + `"]}}`, 401, Claims{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Classic.Claims(json.RawMessage(tt.payload), Limits{})
			if status := statusOf(t, err); status != tt.status {
				t.Fatalf("status %d (%v), want %d", status, err, tt.status)
			}
			if p, ok := errors.AsType[*Problem](err); ok && (!p.Challenge || p.Code != CodeInvalidToken) {
				t.Errorf("no invalid_token challenge: %+v", p)
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
	full := `{"mercure":{"publish":["a"` + strings.Repeat(`,"b"`, 999) + `]}}`
	if c, err := Classic.Claims(json.RawMessage(full), Limits{}); err != nil || len(c.Publish) != 1000 {
		t.Errorf("1000 selectors: %d, %v", len(c.Publish), err)
	}
}

// Covers: REC-02, REC-03, REC-04, REC-05, SUB-04, G-08, G-22.
func TestCursor(t *testing.T) {
	const (
		all  = "last-event-id=e&Last-Event-Id=d&Last-Event-ID=c&lastEventID=b&last_event_id=a"
		none = "-" // no such form
	)
	both, legacy, strict := ResumeKeys(true, false), ResumeKeys(true, true), ResumeKeys(false, true)
	tests := []struct {
		query, body, header string
		keys                []string
		value               string
		present             bool
	}{
		{"", none, "", legacy, "", false},
		{all, none, "h", legacy, "h", true},
		{all, none, "", legacy, "a", true},
		{strings.TrimSuffix(all, "&last_event_id=a"), none, "", legacy, "b", true},
		{"last-event-id=e&Last-Event-Id=d&Last-Event-ID=c", none, "", legacy, "c", true},
		{"last-event-id=e&Last-Event-Id=d", none, "", legacy, "d", true},
		{"last-event-id=e", none, "", legacy, "e", true},
		{"last-event-id=e&Last-Event-Id=d&Last-Event-ID=c", none, "", both, "", false},
		{"last-event-id=e&lastEventID=b", none, "", both, "b", true},
		{"last_event_id=&lastEventID=b", none, "", legacy, "b", true},
		{"lastEventID=", none, "", legacy, "", true},
		{"lasteventid=b", none, "", legacy, "", false},

		{"last_event_id=q", "last_event_id=b", "h", both, "h", true},
		{"last_event_id=q", "last_event_id=b", "", both, "q", true},
		{"", "last_event_id=b", "", both, "b", true},
		{"last_event_id=", "last_event_id=b", "", both, "b", true},
		{"lastEventID=q", "last_event_id=b", "", both, "q", true},
		{"last_event_id=", "", "", both, "", true},
		{"", "last_event_id=", "", both, "", true},

		{all, none, "", strict, "a", true},
		{all, none, "h", strict, "h", true},
		{strings.TrimSuffix(all, "&last_event_id=a"), none, "", strict, "", false},
		{"lastEventID=q", "last_event_id=b", "", strict, "b", true},
	}
	for _, tt := range tests {
		forms := []Form{ParseForm(tt.query)}
		if tt.body != none {
			forms = append(forms, ParseForm(tt.body))
		}
		value, present := Cursor(tt.header, tt.keys, forms...)
		if value != tt.value || present != tt.present {
			t.Errorf("%q, body %q, header %q, keys %v: %q, %v, want %q, %v", tt.query, tt.body, tt.header, tt.keys, value, present, tt.value, tt.present)
		}
	}
}

func TestValidCursor(t *testing.T) {
	for value, want := range map[string]bool{
		"e1": true, Earliest: true, "café": true, "#x": true, strings.Repeat("x", 1024): true,
		"": false, strings.Repeat("x", 1025): false, "a\r\nb": false, "a\u200bb": false, "\xe9": false,
	} {
		if got := ValidCursor(value, Limits{}); got != want {
			t.Errorf("%.20q: %v", value, got)
		}
	}
}

func TestCursorFormsRecogniseLatin1(t *testing.T) {
	for value, want := range map[string][]string{
		"e1": {"e1"}, "": {""}, "café": {"café"}, "cafÃ©": {"cafÃ©", "café"}, "â\u0098\u0095": {"â\u0098\u0095", "☕"},
		"caf\xe9": {"caf\xe9", "café"}, "☕": {"☕"},
	} {
		if got := CursorForms(value); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func FuzzClassicSelectors(f *testing.F) {
	f.Add("topic=a&topic={b}&%6Datch=c&lastEventID=x")
	f.Add("topic=%FF;&&=&topic=*")
	f.Fuzz(func(t *testing.T, query string) {
		form, err := ParseFormLimit(query, Limits{}.FormFields())
		if err != nil {
			return
		}
		selectors, err := ReadSelectors(form, Limits{}, true)
		if status := statusOf(t, err); status != 200 {
			if status != 400 || selectors != nil {
				t.Fatalf("%q: %d with %d selectors", query, status, len(selectors))
			}
			return
		}
		seen := map[topic.Selector]bool{}
		for _, s := range selectors {
			if seen[s] || len(s.Pattern) > 4096 || !ValidText(s.Pattern) {
				t.Fatalf("%q: selector %+v was accepted", query, s)
			}
			seen[s] = true
		}
		if len(selectors) == 0 || len(selectors) > 100 {
			t.Fatalf("%q: %d selectors", query, len(selectors))
		}
		if v, ok := Cursor("", ResumeKeys(true, true), form); ok && ValidCursor(v, Limits{}) && (strings.ContainsAny(v, "\r\n\x00") || len(v) > 1024) {
			t.Fatalf("%q: cursor %q is not fit for a header", query, v)
		}
	})
}

func FuzzClassicClaims(f *testing.F) {
	f.Add(`{"mercure":{"publish":["a"],"subscribe":null,"payload":{"x":[1]}}}`)
	f.Add(`{"https://mercure.rocks/":{},"authorization_details":[{"type":"https://mercure.rocks/authorization-detail"}]}`)
	f.Add(`{"mercure":{"publish":"*"}}`)
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := Classic.Claims(json.RawMessage(payload), Limits{})
		if status := statusOf(t, err); status != 200 {
			if status != 401 || c.Publish != nil || c.Subscribe != nil || c.Payload != nil {
				t.Fatalf("%q: %d with %+v", payload, status, c)
			}
			return
		}
		if !strings.Contains(payload, "mercure") && !strings.Contains(payload, `\u`) && (c.Publish != nil || c.Subscribe != nil) {
			t.Fatalf("%q: grants %+v without a claim", payload, c)
		}
		if c.Payload != nil && !json.Valid(c.Payload) {
			t.Fatalf("%q: payload %q", payload, c.Payload)
		}
	})
}
