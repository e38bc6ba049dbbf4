package spec

import (
	"encoding/json"
	"net/url"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// ResourceMetadataPath is where the metadata of a protected resource are, before the path of the resource.
// Source: RFC 9728 §3; DIS-03.
const ResourceMetadataPath = "/.well-known/oauth-protected-resource"

// ResourceMetadata is what a hub that takes draft-08 tokens tells OAuth clients about itself. A hub that publishes it
// says so that draft-08 may be used (G-18). It is a value to read after construction.
// Source: RFC 9728 §2; draft-08 §Discovery; DIS-03 … DIS-05.
type ResourceMetadata struct {
	Resource             string   // the resource identifier, which tokens have as their audience (DIS-04)
	AuthorizationServers []string // issuer identifiers of servers that clients can get tokens from; nil = not told
	Cookie               string   // name of the cookie that may carry a token; empty = none (D08-18)
	MatcherTypes         []string // of subscriptions and of grants; nil = MatcherTypes()
	Subscriptions        bool     // whether there are subscription events and an API (ACT-01)
}

// MatcherTypes returns draft-08's matcher types that this implementation knows (MAT-18).
func MatcherTypes() []string { return []string{topic.TypeExact, topic.TypeURLPattern} }

// JSON returns the document, without a line's end.
func (m ResourceMetadata) JSON() ([]byte, error) {
	types := m.MatcherTypes
	if types == nil {
		types = MatcherTypes()
	}
	return json.Marshal(struct {
		Resource             string   `json:"resource"`
		AuthorizationServers []string `json:"authorization_servers,omitempty"`
		DetailTypes          []string `json:"authorization_details_types_supported"`
		BearerMethods        []string `json:"bearer_methods_supported"`
		Cookie               string   `json:"mercure_cookie,omitempty"`
		MatcherTypes         []string `json:"mercure_matcher_types_supported,omitempty"`
		Subscriptions        bool     `json:"mercure_subscriptions,omitempty"`
	}{
		m.Resource, m.AuthorizationServers,
		[]string{AuthorizationDetailType},
		[]string{"header"},
		m.Cookie, types, m.Subscriptions,
	})
}

// ResourceMetadataURL returns where the metadata of the hub at hubURL are, for its challenges: the well-known path
// stands between the host and the hub's path. Source: RFC 9728 §3.1; ERR-07.
func ResourceMetadataURL(hubURL *url.URL) string {
	return hubURL.Scheme + "://" + hubURL.Host + ResourceMetadataPath + hubURL.EscapedPath()
}
