package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

func mercureDetail(members string) string {
	return `{"type":"` + AuthorizationDetailType + `",` + members + `}`
}

// Covers: D08-08, D08-09, D08-10, D08-11, D08-12, D08-13, D08-14, G-03, AUT-10, LIM-08.
func TestDraft08Claims(t *testing.T) {
	t.Parallel()
	exact := func(patterns ...string) (s []topic.Selector) {
		for _, p := range patterns {
			s = append(s, topic.Selector{Kind: topic.Exact, Pattern: p})
		}
		return s
	}
	pattern := topic.Selector{Kind: topic.URLPattern, Pattern: "/:id"}
	matchers := func(n int) string { return `"topics":[{"match":"a"}` + strings.Repeat(`,{"match":"a"}`, n-1) + `]` }
	const a = `"topics":[{"match":"a"}]`
	for name, c := range map[string]struct {
		details string
		want    Claims
		told    string // "" = accepted
	}{
		"none": {`[]`, Claims{}, ""},
		"both actions": {
			`[` + mercureDetail(`"actions":["subscribe","publish"],"topics":[{"match":"a"},{"match":"/:id","match_type":"urlpattern"}]`) + `]`,
			Claims{Publish: append(exact("a"), pattern), Subscribe: append(exact("a"), pattern), Details: []Detail{{Topics: append(exact("a"), pattern)}}},
			"",
		},
		"several": {
			`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"a"}],"payload":{"n":0}`) + `,{"type":"x","actions":7},` +
				mercureDetail(`"actions":["subscribe"],"topics":[{"match":"b","match_type":"exact"}],"payload": {"n": 1} `) + `,7,null,` +
				mercureDetail(`"actions":["subscribe"],"topics":[{"match":"c"}]`) + `]`,
			Claims{Publish: exact("a"), Subscribe: exact("b", "c"), Details: []Detail{{exact("b"), json.RawMessage(`{"n": 1}`)}, {Topics: exact("c")}}},
			"",
		},
		"unknown actions":          {`[` + mercureDetail(`"actions":["archive","Publish"],`+a) + `]`, Claims{}, ""},
		"another type":             {`[{"type":"https://mercure.rocks/Authorization-Detail","actions":["publish"],` + a + `}]`, Claims{}, ""},
		"Type":                     {`[{"Type":"` + AuthorizationDetailType + `","actions":["publish"],` + a + `}]`, Claims{}, ""},
		"type a list":              {`[{"type":["` + AuthorizationDetailType + `"],"actions":["publish"],` + a + `}]`, Claims{}, ""},
		"other members":            {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"a","Match_Type":"x","y":1}],"Payload":7`) + `]`, Claims{Publish: exact("a")}, ""},
		"the wildcard":             {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"*"}]`) + `]`, Claims{Publish: exact("*")}, ""},
		"100 matchers":             {`[` + mercureDetail(`"actions":["x"],`+matchers(100)) + `]`, Claims{}, ""},
		"101 matchers":             {`[` + mercureDetail(`"actions":["x"],`+matchers(101)) + `]`, Claims{}, "more than 100 topics"},
		"101 matchers in two":      {`[` + mercureDetail(`"actions":["x"],`+matchers(50)) + `,` + mercureDetail(`"actions":["x"],`+matchers(51)) + `]`, Claims{}, "more than 100 topics"},
		"101 details":              {`[` + strings.Repeat(mercureDetail(`"actions":["x"],`+a)+`,`, 100) + mercureDetail(`"actions":["x"],`+a) + `]`, Claims{}, "more than 100 authorization_details"},
		"other details are free":   {`[` + strings.Repeat(`{"type":"x"},`, 200) + `{}]`, Claims{}, ""},
		"a string":                 {`"x"`, Claims{}, "are not an array"},
		"an object":                {mercureDetail(`"actions":["publish"],` + a), Claims{}, "are not an array"},
		"no actions":               {`[` + mercureDetail(a) + `]`, Claims{}, "actions are not an array of at least one"},
		"Actions":                  {`[` + mercureDetail(`"Actions":["publish"],`+a) + `]`, Claims{}, "actions are not an array of at least one"},
		"empty actions":            {`[` + mercureDetail(`"actions":[],`+a) + `]`, Claims{}, "actions are not an array of at least one"},
		"actions a string":         {`[` + mercureDetail(`"actions":"publish",`+a) + `]`, Claims{}, "actions are not an array of at least one"},
		"a number among actions":   {`[` + mercureDetail(`"actions":["publish",1],`+a) + `]`, Claims{}, "action that is not a string"},
		"null among actions":       {`[` + mercureDetail(`"actions":[null],`+a) + `]`, Claims{}, "action that is not a string"},
		"no topics":                {`[` + mercureDetail(`"actions":["publish"]`) + `]`, Claims{}, "topics are not an array of at least one"},
		"topics null":              {`[` + mercureDetail(`"actions":["publish"],"topics":null`) + `]`, Claims{}, "topics are not an array of at least one"},
		"a string among topics":    {`[` + mercureDetail(`"actions":["publish"],"topics":["a"]`) + `]`, Claims{}, "not an object"},
		"null among topics":        {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"a"},null]`) + `]`, Claims{}, "not an object"},
		"no match":                 {`[` + mercureDetail(`"actions":["publish"],"topics":[{"Match":"a"}]`) + `]`, Claims{}, "match is not a string"},
		"match null":               {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":null}]`) + `]`, Claims{}, "match is not a string"},
		"match with a control":     {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"\u0000"}]`) + `]`, Claims{}, "control or format"},
		"a long match":             {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"`+strings.Repeat("x", 4097)+`"}]`) + `]`, Claims{}, "longer than 4096 bytes"},
		"match_type in upper case": {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"a","match_type":"Exact"}]`) + `]`, Claims{}, "neither exact nor urlpattern"},
		"match_type unknown":       {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"a","match_type":"regexp"}]`) + `]`, Claims{}, "neither exact nor urlpattern"},
		"match_type null":          {`[` + mercureDetail(`"actions":["publish"],"topics":[{"match":"a","match_type":null}]`) + `]`, Claims{}, "match_type that is not a string"},
		"payload a string":         {`[` + mercureDetail(`"actions":["subscribe"],`+a+`,"payload":"x"`) + `]`, Claims{}, "payload that is not an object"},
		"payload a list":           {`[` + mercureDetail(`"actions":["subscribe"],`+a+`,"payload":[{}]`) + `]`, Claims{}, "payload that is not an object"},
		"payload null":             {`[` + mercureDetail(`"actions":["publish"],`+a+`,"payload":null`) + `]`, Claims{}, "payload that is not an object"},
		"one bad among good":       {`[` + mercureDetail(`"actions":["publish"],`+a) + `,` + mercureDetail(`"actions":["x"]`) + `]`, Claims{}, "topics are not an array of at least one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Draft08.Claims(json.RawMessage(`{"mercure":{"publish":["*"]},"authorization_details":`+c.details+`}`), Limits{})
			p, refused := errors.AsType[*Problem](err)
			switch {
			case refused != (c.told != ""):
				t.Fatalf("got %+v, %v", got, err)
			case refused && (p.Status != 401 || p.Code != CodeInvalidToken || !p.Challenge || !strings.Contains(p.Detail, c.told)):
				t.Errorf("got %+v, want 401 with %q", p, c.told)
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	for payload, want := range map[string]bool{
		`{}`: true, `{"authorization_details":null}`: true, `{"Authorization_Details":7}`: true, `null`: false, `[]`: false, `{`: false,
	} {
		if got, err := Draft08.Claims(json.RawMessage(payload), Limits{}); (err == nil) != want || got.Publish != nil {
			t.Errorf("%s: %+v, %v", payload, got, err)
		}
	}
	small := Limits{GrantMatchers: 1, GrantDetails: 2, SelectorBytes: 3}
	for details, want := range map[string]bool{
		mercureDetail(`"actions":["x"],"topics":[{"match":"abc"}]`):                                                                 true,
		mercureDetail(`"actions":["x"],"topics":[{"match":"abcd"}]`):                                                                false,
		mercureDetail(`"actions":["x"],"topics":[{"match":"a"},{"match":"b"}]`):                                                     false,
		mercureDetail(`"actions":["x"],"topics":[{"match":"a"}]`) + `,` + mercureDetail(`"actions":["x"],"topics":[{"match":"b"}]`): false,
	} {
		if _, err := Draft08.Claims(json.RawMessage(`{"authorization_details":[`+details+`]}`), small); (err == nil) != want {
			t.Errorf("%s with small limits: %v", details, err)
		}
	}
}
