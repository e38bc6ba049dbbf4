package app_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// isDraft08 reports whether a request has a token of draft-08.
func isDraft08(r *http.Request) bool {
	jose, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
	b, _ := base64.RawURLEncoding.DecodeString(jose)
	return strings.Contains(string(b), spec.TokenTypeDraft08)
}

// rename makes the hub read a parameter as another, in either component.
func rename(from, to string) func(*http.Request, *string) {
	replace := func(form string) string {
		return strings.TrimPrefix(strings.ReplaceAll("&"+form, "&"+from+"=", "&"+to+"="), "&")
	}
	return func(r *http.Request, form *string) {
		r.URL.RawQuery = replace(r.URL.RawQuery)
		if r.Method == spec.MethodQuery {
			*form = replace(*form)
		}
	}
}

// faults08 are rules of draft-08, and of both generations together, broken on purpose.
var faults08 = []fault{
	{name: "the body of a QUERY is ignored", noticed: "query/union", request: func(r *http.Request, form *string) {
		if r.Method == spec.MethodQuery && r.URL.RawQuery != "" {
			*form = ""
		}
	}},
	{name: "the query component of a QUERY is ignored", noticed: "query/union", request: func(r *http.Request, form *string) {
		if r.Method == spec.MethodQuery && *form != "" {
			r.URL.RawQuery = ""
		}
	}},
	{name: "the body's cursor comes first", noticed: "query/cursor", request: func(r *http.Request, form *string) {
		if f, err := url.ParseQuery(*form); r.Method == spec.MethodQuery && err == nil && f.Get("last_event_id") != "" {
			r.URL.RawQuery = ""
		}
	}},
	{name: "a QUERY may have any body", noticed: "query/media-type", request: func(r *http.Request, _ *string) {
		if r.Method == spec.MethodQuery {
			r.Header.Set("Content-Type", spec.MediaTypeForm)
		}
	}},
	{name: "a token of draft-08 in the URL counts", noticed: "access/url", request: func(r *http.Request, _ *string) {
		if t := r.URL.Query().Get("access_token"); t != "" {
			r.Header.Set("Authorization", "Bearer "+t)
		}
	}},
	{name: "the cookie of draft-08 is not read", noticed: "access/cookie", request: func(r *http.Request, _ *string) {
		r.Header.Set("Cookie", strings.ReplaceAll(r.Header.Get("Cookie"), spec.CookieDraft08, "x"))
	}},
	{name: "a pattern is taken exactly", noticed: "matcher/urlpattern", request: rename("match_urlpattern", "match")},
	{name: "an exact matcher is a pattern", noticed: "matcher/exact", request: rename("match", "match_urlpattern")},
	{name: "an exact matcher is a template", noticed: "matcher/exact", request: rename("match_exact", "topic")},
	{name: "names of matchers in any case", noticed: "matcher/names", request: rename("Match", "match")},
	{name: "unknown matchers are ignored", noticed: "matcher/names", request: rename("match_regexp", "x")},
	{name: "an invalid pattern selects nothing", noticed: "matcher/invalid", answer: swapStatus(http.StatusBadRequest, http.StatusOK)},
	{name: "topic does not count beside match", noticed: "query/both-kinds", request: func(r *http.Request, _ *string) {
		if strings.Contains(r.URL.RawQuery, "match=") {
			r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "topic=", "x=")
		}
	}},
	{name: "the metadata are another resource's", noticed: "discovery/document", body: func(_ int, body string) string {
		return strings.Replace(body, `"resource":"`, `"resource":"https://evil.example/?`, 1)
	}},
	{name: "no challenge tells of the metadata", noticed: "discovery/challenge", answer: func(r *http.Response) {
		if r.Header.Get("WWW-Authenticate") != "" {
			r.Header.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
	}},
	{name: "subscription events without their type", noticed: "subscription/events", event: func(_ int, _ bool, raw string) string {
		return strings.Replace(raw, "event: mercure\n", "", 1)
	}},
	{name: "classic subscription events with the type", noticed: "subscription/own-form", event: func(_ int, _ bool, raw string) string {
		if strings.Contains(raw, `"@context"`) {
			return "event: mercure\n" + raw
		}
		return raw
	}},
	{name: "each subscription is told of in both forms", noticed: "subscription/own-form", event: func(_ int, _ bool, raw string) string {
		if strings.Contains(raw, `"@context"`) {
			return raw + raw
		}
		return raw
	}},
	{name: "no list says where it ends", noticed: "subscription/link", answer: dropHeader("Link")},
	{name: "every list in one form", noticed: "subscription/one-path-two-forms", request: func(r *http.Request, _ *string) {
		r.URL.RawPath, r.URL.Path = strings.Replace(r.URL.RawPath, "/exact/", "/", 1), strings.Replace(r.URL.Path, "/exact/", "/", 1)
	}},
	{name: "caches may mix the forms of a list", noticed: "subscription/one-path-two-forms", answer: dropHeader("Vary")},
	{name: "private updates of classic publishers are public", noticed: "cross/private", request: func(r *http.Request, form *string) {
		if !isDraft08(r) {
			*form = strings.ReplaceAll(*form, "private=", "x=")
		}
	}},
	{name: "updates of draft-08 publishers stay in their generation", noticed: "cross/updates", request: func(r *http.Request, form *string) {
		if isDraft08(r) && r.Method == http.MethodPost {
			*form = strings.Replace(*form, "topic=", "topic=draft-08", 1)
		}
	}},
	{name: "one set of plain words for all publishers", noticed: "cross/reserved", answer: func(r *http.Response) {
		if r.StatusCode == http.StatusBadRequest && isDraft08(r.Request) {
			r.StatusCode = http.StatusOK
		}
	}},
	{name: "one generation's cursors only", noticed: "cross/resume", request: rename("last_event_id", "x")},
}
