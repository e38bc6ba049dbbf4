package auth

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
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
	Publisher, Subscriber Keys // classic; nil = that role's classic tokens are refused: 401, role_not_configured

	Issuers   []Issuer // of draft-08 tokens, empty = such tokens are refused (G-01)
	Resource  string   // the resource identifier, which aud must contain; required when there are issuers (D08-02)
	NoClassic bool     // refuse every token that is not at+jwt; the classic cookie and the query are not read (G-22)
	Base      *url.URL // the hub's URL, for relative URL patterns; nil = PublicURL, else http://localhost + the default path (MAT-09)

	Anonymous      bool     // subscribers without a token receive public updates (AUT-05)
	PublishOrigins []string // origins whose pages may publish with the cookie: an exact origin, "null" or "*" (CORS-07)
	PublicURL      *url.URL // the hub as clients see it; nil = the request's own scheme and Host
	CookieName     string   // classic, empty = spec.CookieClassic
	Draft08Cookie  string   // read first (G-06), empty = spec.CookieDraft08
	QueryToken     QueryToken
	RequireExp     bool // refuse classic tokens without exp (CLA-12); draft-08's always need one
	Limits         spec.Limits
	CacheEntries   int // verified tokens remembered, 0 = 4096

	ResourceMetadata string // URL of the metadata document for JWT.Challenge, empty = none (ERR-01)
}

// JWT is the Authorizer of tokens that are JSON Web Signatures. The typ of a token alone decides how it is verified
// (G-01): at+jwt is draft-08, with the keys of its issuer and authorization_details; any other is classic, with the keys
// of the role and the mercure claim. Neither's keys verify the other's tokens. Use New; safe for concurrent use.
type JWT struct {
	// static after construction
	anonymous *Grant // nil = a token is needed
	origins   origins
	cookies   []string // names in the order in which they are looked for
	noClassic bool
	resource  string
	query     QueryToken
	limits    spec.Limits
	entries   int
	metadata  string
	rules     rules

	mu                    sync.Mutex // serialises who replaces keys; guards the three below
	publisher, subscriber Keys
	issuers               []Issuer

	keys         atomic.Pointer[keyring] // made of those, replaced as a whole, with its cache
	hits, misses atomic.Uint64
}

// New checks o and makes a JWT. It returns an error that names a malformed publish origin or what is wrong with an
// issuer.
func New(o Options) (*JWT, error) {
	allowed, err := parseOrigins(o.PublicURL, o.PublishOrigins)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	j := &JWT{
		origins: allowed, cookies: cookieNames(&o), noClassic: o.NoClassic, resource: o.Resource, query: o.QueryToken,
		limits: o.Limits.WithDefaults(), entries: o.CacheEntries, metadata: o.ResourceMetadata,
	}
	j.rules = newRules(o.RequireExp, o.Resource, baseURL(&o), j.limits)
	if o.NoClassic {
		j.query = QueryTokenOff
	}
	if j.entries <= 0 {
		j.entries = defaultCacheEntries
	}
	if o.Anonymous {
		j.anonymous = &Grant{Action: spec.ActionSubscribe, Anonymous: true}
	}
	j.SetKeys(o.Publisher, o.Subscriber)
	if err := j.SetIssuers(o.Issuers); err != nil {
		return nil, err
	}
	return j, nil
}

// SetKeys replaces the classic keys of both roles; nil refuses the role. Nothing that was verified with the keys
// before is used again. Streams that are open keep their grants. Source: SEC-09.
func (j *JWT) SetKeys(publisher, subscriber Keys) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.publisher, j.subscriber = publisher, subscriber
	j.renew()
}

// SetIssuers replaces the issuers of draft-08 tokens as SetKeys does the classic keys; none refuses these tokens. It
// returns an error, and changes nothing, if one of them is incomplete or named twice or if there is no resource
// identifier. Source: SEC-09.
func (j *JWT) SetIssuers(issuers []Issuer) error {
	if err := checkIssuers(issuers, j.resource); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.issuers = slices.Clone(issuers)
	j.renew()
	return nil
}

// renew puts the present keys in force; mu is held.
func (j *JWT) renew() {
	publisher, subscriber := j.publisher, j.subscriber
	if j.noClassic {
		publisher, subscriber = nil, nil
	}
	j.keys.Store(newKeyring(publisher, subscriber, j.issuers, j.entries))
}

// cookieNames are those that may hold a token, in order of precedence (G-06, G-22).
func cookieNames(o *Options) []string {
	names := []string{cmp.Or(o.Draft08Cookie, spec.CookieDraft08)}
	if !o.NoClassic {
		names = append(names, cmp.Or(o.CookieName, spec.CookieClassic))
	}
	return names
}

// baseURL is what relative patterns are resolved against.
func baseURL(o *Options) *url.URL {
	return cmp.Or(o.Base, o.PublicURL, &url.URL{Scheme: "http", Host: "localhost", Path: spec.DefaultHubPath})
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
	if token == "" {
		switch {
		case act == spec.ActionSubscribe && j.anonymous != nil:
			return j.anonymous, nil
		case !ring.trusts(act):
			return nil, missing(ReasonNotConfigured, notConfigured(act), nil)
		}
		return nil, missing(ReasonNoToken, fmt.Sprintf("a token is needed to %s", act), nil)
	}
	if !ring.trusts(act) {
		return nil, invalid(ReasonNotConfigured, textUnverified, notConfigured(act))
	}
	if len(token) > j.limits.TokenBytes {
		return nil, invalid(ReasonTooLong, fmt.Sprintf("the token has more than %d bytes", j.limits.TokenBytes), "")
	}
	key := keyOf(act, token)
	if grant, ok := ring.get(key, time.Now()); ok {
		j.hits.Add(1)
		return grant, nil
	}
	j.misses.Add(1)
	v, err := j.choose(ring, act, token)
	if err != nil {
		return nil, err
	}
	version := v.keys.Version() // before the keys are used: what an older set verified does not outlive it
	header, payload, err := verify(r.Context(), v, token)
	if err != nil {
		return nil, err
	}
	// The clock is read now because the keys may have been waited for.
	grant, notBefore, err := j.rules.grant(v, act, header, payload, time.Now())
	if err != nil {
		return nil, err
	}
	ring.cache.Add(key, cached{grant: grant, notBefore: notBefore, by: v, version: version})
	return grant, nil
}

// choose picks the one validator of a token by what it says of itself, unverified (G-01 … G-04): the typ, and the issuer
// that it names among those configured. Nobody gains by a lie, as the keys of another validator do not verify it.
func (j *JWT) choose(ring *keyring, act spec.Action, token string) (*validator, error) {
	if !accessTokenType(peekType(token)) {
		switch v := ring.role(act); {
		case v != nil:
			return v, nil
		case j.noClassic:
			return nil, invalid(ReasonGeneration, textUnverified, "it is not of type at+jwt, and classic tokens are switched off")
		}
		return nil, invalid(ReasonNotConfigured, textUnverified, notConfigured(act))
	}
	if len(ring.issuers) == 0 {
		return nil, invalid(ReasonGeneration, textUnverified, errGeneration.Error())
	}
	v := ring.issuers[peekIssuer(token)]
	switch {
	case v == nil:
		return nil, invalid(ReasonUnverified, textUnverified, "its issuer is none of those configured")
	case !v.issuer.may(act):
		return nil, invalid(ReasonUnverified, textUnverified, fmt.Sprintf("its issuer is not trusted to let anybody %s", act))
	}
	return v, nil
}

// notConfigured is for the log: the operator gave this role no key.
func notConfigured(act spec.Action) string {
	if act == spec.ActionPublish {
		return "no publisher key is configured, nobody can publish"
	}
	return "no subscriber key is configured, no subscriber token can be verified"
}
