package spec

import (
	"net/url"
	"strings"
	"testing"
	"unsafe"
)

// Covers: DIS-03, ERR-07.
func TestResourceMetadataURL(t *testing.T) {
	for hub, want := range map[string]string{
		"https://hub.example.com/.well-known/mercure": "https://hub.example.com/.well-known/oauth-protected-resource/.well-known/mercure",
		"http://localhost:3000/live/hub?x#y":          "http://localhost:3000/.well-known/oauth-protected-resource/live/hub",
		"https://user@hub.example.com/h%C3%A9":        "https://hub.example.com/.well-known/oauth-protected-resource/h%C3%A9",
	} {
		u, err := url.Parse(hub)
		if err != nil {
			t.Fatal(err)
		}
		if got := ResourceMetadataURL(u); got != want {
			t.Errorf("%s: %s, want %s", hub, got, want)
		}
	}
}

// Covers: DIS-04, DIS-05.
func TestResourceMetadataDocument(t *testing.T) {
	for want, m := range map[string]ResourceMetadata{
		`{"resource":"https://h.example/x","authorization_details_types_supported":["https://mercure.rocks/authorization-detail"],` +
			`"bearer_methods_supported":["header"],"mercure_matcher_types_supported":["exact","urlpattern"]}`: {Resource: "https://h.example/x"},
		`{"resource":"r","authorization_servers":["https://a.example"],"authorization_details_types_supported":["https://mercure.rocks/authorization-detail"],` +
			`"bearer_methods_supported":["header"],"mercure_cookie":"c","mercure_matcher_types_supported":["exact"],"mercure_subscriptions":true}`: {
			Resource: "r", AuthorizationServers: []string{"https://a.example"}, Cookie: "c", MatcherTypes: []string{"exact"}, Subscriptions: true,
		},
	} {
		if got, err := m.JSON(); err != nil || string(got) != want {
			t.Errorf("%s, %v\nwant %s", got, err, want)
		}
	}
}

// A selector is kept as long as its stream is, and in caches: the megabyte of the body in which it came must not be.
//
// Covers: LIM-12, MAT-20.
func TestSelectorsDoNotKeepTheRequest(t *testing.T) {
	raw := strings.Clone("match=abc&topic=def&x=" + strings.Repeat("x", 1000))
	selectors, err := ReadSelectors(ParseForm(raw), Limits{}, true)
	if err != nil || len(selectors) != 2 {
		t.Fatalf("%v, %v", selectors, err)
	}
	from := uintptr(unsafe.Pointer(unsafe.StringData(raw)))
	for _, s := range selectors {
		if at := uintptr(unsafe.Pointer(unsafe.StringData(s.Pattern))); at >= from && at < from+uintptr(len(raw)) {
			t.Errorf("%q shares the request's memory", s.Pattern)
		}
	}
}
