package hub

import (
	"net/url"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// What docs/presence.md says of the selectors that a watcher, or a grant, may use.
func TestSelectorsOfSubscriptionEvents(t *testing.T) {
	base := &url.URL{Scheme: "https", Host: "hub.example", Path: spec.DefaultHubPath}
	classic, draft08 := bothForms[0].path("https://example.com/rooms/7", "urn:uuid:1"), bothForms[1].path("https://example.com/rooms/7", "urn:uuid:1")
	for _, c := range []struct {
		kind             topic.Kind
		pattern          string
		classic, draft08 bool
	}{
		{topic.Classic, allEvents, true, false},
		{topic.Classic, apiPath + "{/match_type}{/match}{/subscriber}", true, true},
		{topic.Classic, apiPath + "/exact{/match}{/subscriber}", false, true},
		{topic.URLPattern, apiPath + "/*", true, true},
		{topic.URLPattern, apiPath + "/exact/*", false, true},
		{topic.URLPattern, apiPath + "/exact/https%3A%2F%2Fexample.com%2Frooms%2F7/:subscriber", false, true},
		{topic.Exact, draft08, false, true},
	} {
		m, err := topic.Compile(topic.Selector{Kind: c.kind, Pattern: c.pattern}, base, topic.Limits{})
		if err != nil || m.Match(classic) != c.classic || m.Match(draft08) != c.draft08 {
			t.Errorf("%s selects the classic event: %v, draft-08's: %v (%v)", c.pattern, m.Match(classic), m.Match(draft08), err)
		}
	}
}
