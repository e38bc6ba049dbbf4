package auth

import (
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// QueryToken says which requests may carry a token in the query parameter `authorization` (CLA-09, G-05).
type QueryToken uint8

// The values of classic.query_token.
const (
	QueryTokenSubscribe QueryToken = iota // GET and HEAD only
	QueryTokenOff
	QueryTokenAll // publishing as well
)

// Options configures New.
type Options struct {
	Publisher, Subscriber Keys // nil = that role is refused: 401, role_not_configured

	Anonymous      bool     // subscribers without a token receive public updates (AUT-05)
	PublishOrigins []string // origins whose pages may publish with the cookie: an exact origin, "null" or "*" (CORS-07)
	PublicURL      *url.URL // the hub as clients see it; nil = the request's own scheme and Host
	CookieName     string   // empty = spec.CookieClassic
	QueryToken     QueryToken
	RequireExp     bool // refuse tokens without exp (CLA-12)
	Limits         spec.Limits
	CacheEntries   int // verified tokens remembered, 0 = 4096

	ResourceMetadata string // URL of the metadata document for JWT.Challenge, empty = none (ERR-01)
}

// JWT is the Authorizer of classic tokens: JSON Web Signatures whose mercure claim lists selectors. Draft-08's
// tokens are refused until that generation arrives (G-01, G-03). Use New; safe for concurrent use.
type JWT struct {
	// static after construction
	anonymous *Grant // nil = a token is needed
	origins   origins
	cookie    string
	query     QueryToken
	limits    spec.Limits
	entries   int
	metadata  string
	rules     rules

	keys         atomic.Pointer[keyring] // replaced as a whole, with its cache
	hits, misses atomic.Uint64
}

// New checks o and makes a JWT. It returns an error that names a malformed publish origin.
func New(o Options) (*JWT, error) {
	allowed, err := parseOrigins(o.PublicURL, o.PublishOrigins)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	j := &JWT{
		origins: allowed, cookie: o.CookieName, query: o.QueryToken,
		limits: withDefaults(o.Limits), entries: o.CacheEntries, metadata: o.ResourceMetadata,
	}
	j.rules = newRules(o.RequireExp, j.limits)
	if j.cookie == "" {
		j.cookie = spec.CookieClassic
	}
	if j.entries <= 0 {
		j.entries = defaultCacheEntries
	}
	if o.Anonymous {
		j.anonymous = &Grant{Action: spec.ActionSubscribe, Anonymous: true}
	}
	j.SetKeys(o.Publisher, o.Subscriber)
	return j, nil
}

// SetKeys replaces the keys of both roles; nil refuses the role. Nothing that was verified with the keys
// before is used again. Streams that are open keep their grants. Source: SEC-09.
func (j *JWT) SetKeys(publisher, subscriber Keys) {
	j.keys.Store(newKeyring(publisher, subscriber, j.entries))
}

// CacheStats counts the tokens found already verified and those that had to be verified, since New.
func (j *JWT) CacheStats() (hits, misses uint64) { return j.hits.Load(), j.misses.Load() }

// Challenge is the value of WWW-Authenticate for p with the configured metadata document; see the function
// of the same name.
func (j *JWT) Challenge(p *spec.Problem) string { return Challenge(p, j.metadata) }

// Authorize implements Authorizer. It looks for one token in one place (AUT-01, CLA-09): the Authorization
// header if there is one, else the query parameter, else the cookie; what is found there is final (AUT-04).
func (j *JWT) Authorize(r *http.Request, act spec.Action) (*Grant, error) {
	token, err := j.token(r, act)
	if err != nil {
		return nil, err
	}
	ring := j.keys.Load()
	role := ring.role(act)
	if token == "" {
		switch {
		case act == spec.ActionSubscribe && j.anonymous != nil:
			return j.anonymous, nil
		case role == nil:
			return nil, missing(ReasonNotConfigured, notConfigured(act), nil)
		}
		return nil, missing(ReasonNoToken, fmt.Sprintf("a token is needed to %s", act), nil)
	}
	if role == nil {
		return nil, invalid(ReasonNotConfigured, textUnverified, notConfigured(act))
	}
	if len(token) > j.limits.TokenBytes {
		return nil, invalid(ReasonTooLong, fmt.Sprintf("the token has more than %d bytes", j.limits.TokenBytes), "")
	}
	now, key, version := time.Now(), keyOf(act, token), role.keys.Version()
	if grant, ok := ring.get(key, version, now); ok {
		j.hits.Add(1)
		return grant, nil
	}
	j.misses.Add(1)
	header, payload, err := verify(r.Context(), role, token)
	if err != nil {
		return nil, err
	}
	now = time.Now() // the keys may have been waited for
	grant, notBefore, err := j.rules.grant(act, header, payload, now)
	if err != nil {
		return nil, err
	}
	ring.cache.Add(key, cached{grant: grant, notBefore: notBefore, version: version})
	return grant, nil
}

// notConfigured is for the log: the operator gave this role no key.
func notConfigured(act spec.Action) string {
	if act == spec.ActionPublish {
		return "no publisher key is configured, nobody can publish"
	}
	return "no subscriber key is configured, no subscriber token can be verified"
}

// withDefaults fills in the limits that are read here.
func withDefaults(l spec.Limits) spec.Limits {
	d := spec.DefaultLimits()
	if l.TokenBytes == 0 {
		l.TokenBytes = d.TokenBytes
	}
	if l.GrantSelectors == 0 {
		l.GrantSelectors = d.GrantSelectors
	}
	if l.SelectorBytes == 0 {
		l.SelectorBytes = d.SelectorBytes
	}
	if l.Variables == 0 {
		l.Variables = d.Variables
	}
	return l
}
