// Package auth decides who a request comes from and what it may do. It reads tokens where the protocol
// lets them sit, verifies them against the keys of one role, and turns their claims into a Grant.
package auth

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Authorizer says what the sender of a request may do.
type Authorizer interface {
	// Authorize returns the grant of r's sender for act. The error is a *spec.Problem: 400
	// invalid_request, 401 without or with invalid_token. A valid token that grants nothing is not an
	// error. r.URL.Scheme and r.Host must be what the client sees (the hub sets them behind a trusted
	// proxy); r.URL.RawQuery is read with the WHATWG parser. Grants may be shared between requests with
	// the same token and must not be changed. Safe for concurrent use.
	Authorize(r *http.Request, act spec.Action) (*Grant, error)
}

// Grant is what one verified token, or an anonymous request, may do with one action.
type Grant struct {
	Action    spec.Action
	Subject   string // the token's sub; empty if it has none or the request is anonymous
	Issuer    string // of a draft-08 token, else empty
	Anonymous bool
	Dialect   string          // "classic", "draft-08"; empty when anonymous
	Topics    []topic.Matcher // nil grants nothing
	Payload   json.RawMessage // subscribe: attached to all of the connection's subscriptions; nil for none
	Payloads  []Payload       // draft-08: attached to those that they are for, see PayloadFor
	Expires   time.Time       // zero = never
}

// Holder is whom a token is about. The subjects of two issuers are two holders, whatever they are called, and so is the
// subject of a classic token, which has no issuer here.
type Holder struct{ Issuer, Subject string }

// Holder returns whom the token is about; without a subject that is nobody in particular.
func (g *Grant) Holder() Holder { return Holder{Issuer: g.Issuer, Subject: g.Subject} }

// Payload is what one detail of a draft-08 token attaches to subscriptions.
type Payload struct {
	Topics []topic.Matcher
	JSON   json.RawMessage // nil for none
}

// PayloadFor returns what the token attaches to a subscription: the first detail counts whose topics select the
// selector itself, taken as a topic (D08-19); a classic token has one for all (ACT-29). Nil for none.
func (g *Grant) PayloadFor(s topic.Selector) json.RawMessage {
	for _, p := range g.Payloads {
		for _, m := range p.Topics {
			if m.Match(s.Pattern) {
				return p.JSON
			}
		}
	}
	return g.Payload
}

// Allows reports whether the grant covers an update of these topics: every topic when publishing
// (PUB-27), at least one when receiving a private update (CLA-02, D08-16).
func (g *Grant) Allows(topics []string) bool {
	if g.Action == spec.ActionPublish {
		_, missing := g.Missing(topics)
		return !missing
	}
	return slices.ContainsFunc(topics, g.selects)
}

// Missing returns the first topic that the grant does not cover, for the refusal's text.
func (g *Grant) Missing(topics []string) (string, bool) {
	for _, t := range topics {
		if !g.selects(t) {
			return t, true
		}
	}
	return "", false
}

func (g *Grant) selects(t string) bool {
	for _, m := range g.Topics {
		if m.Match(t) {
			return true
		}
	}
	return false
}
