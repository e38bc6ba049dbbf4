package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// rules turn verified claims into grants.
type rules struct {
	requireExp bool   // of classic tokens
	resource   string // which draft-08 tokens must be for
	limits     spec.Limits
	patterns   *topic.Cache
}

func newRules(requireExp bool, resource string, base *url.URL, l spec.Limits) rules {
	patterns := topic.NewCache(patternCacheEntries, base, topic.Limits{PatternBytes: l.SelectorBytes, Variables: l.Variables})
	return rules{requireExp: requireExp, resource: resource, limits: l, patterns: patterns}
}

// patternCacheEntries bounds the compiled selectors that all grants share (MAT-20).
const patternCacheEntries = 16384

// grant reads a verified token. What it refuses, it refuses with the reason (ERR-08).
func (r *rules) grant(v *validator, act spec.Action, header map[string]any, raw json.RawMessage, now time.Time) (*Grant, time.Time, error) {
	if _, critical := header["crit"]; critical {
		return nil, time.Time{}, invalid(ReasonCritical, "the token's crit header names extensions that this hub does not know", "")
	}
	registered, err := readRegistered(raw)
	if err != nil {
		return nil, time.Time{}, err
	}
	if err := registered.check(now, v.issuer != nil || r.requireExp); err != nil {
		return nil, time.Time{}, err
	}
	g := &Grant{Action: act, Subject: registered.subject, Expires: registered.expires}
	if v.issuer != nil {
		err = r.draft08(g, v.issuer, raw)
	} else {
		err = r.classic(g, raw)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return g, registered.notBefore, nil
}

// classic fills in what the mercure claim grants.
func (r *rules) classic(g *Grant, raw json.RawMessage) error {
	claims, err := spec.Classic.Claims(raw, r.limits)
	if err != nil {
		return err
	}
	g.Dialect = spec.Classic.Name
	selectors := claims.Publish
	if g.Action == spec.ActionSubscribe {
		selectors = claims.Subscribe
		g.Payload = claims.Payload
	}
	for _, s := range selectors {
		m, err := r.patterns.Compile(s)
		if err != nil {
			return selectorProblem(g.Action, err)
		}
		g.Topics = append(g.Topics, m)
	}
	return nil
}

// registered are the claims that every JSON Web Token may have. Source: RFC 7519 §4.1.
type registered struct {
	expires, notBefore, issued time.Time // zero = absent
	subject                    string
}

// readRegistered reads them by their exact names (AUT-10).
func readRegistered(raw json.RawMessage) (registered, error) {
	var out registered
	var members map[string]json.RawMessage
	if !utf8.Valid(raw) || json.Unmarshal(raw, &members) != nil || members == nil {
		return out, invalid(ReasonClaims, "the token's claims are not a JSON object in UTF-8", "")
	}
	for _, date := range []struct {
		name string
		to   *time.Time
	}{{"exp", &out.expires}, {"nbf", &out.notBefore}, {"iat", &out.issued}} {
		value, ok := members[date.name]
		if !ok {
			continue
		}
		t, ok := numericDate(value)
		if !ok {
			return out, invalid(ReasonClaims, fmt.Sprintf("the token's %s is not a number of seconds", date.name), "")
		}
		*date.to = t
	}
	if value, ok := members["sub"]; ok && json.Unmarshal(value, &out.subject) != nil {
		return out, invalid(ReasonClaims, "the token's sub is not a string", "")
	}
	return out, nil
}

// check applies exp and nbf without leeway (AUT-11, CLA-12).
func (r *registered) check(now time.Time, requireExp bool) error {
	switch {
	case r.expires.IsZero() && requireExp:
		return invalid(ReasonNoExpiry, "the token has no exp, which this hub requires", "")
	case expired(r.expires, now):
		return invalid(ReasonExpired, "the token is expired since "+r.expires.UTC().Format(time.RFC3339), "")
	case now.Before(r.notBefore):
		return invalid(ReasonNotYetValid, "the token is not valid before "+r.notBefore.UTC().Format(time.RFC3339), "")
	}
	return nil
}

// lastDate keeps dates where time.Time and its texts are well defined: the end of the year 9999.
const lastDate = 253402300799

// numericDate reads seconds since 1970, whole or not. Source: RFC 7519 §2.
func numericDate(raw json.RawMessage) (time.Time, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || (raw[0] != '-' && (raw[0] < '0' || raw[0] > '9')) { // "1", true, null …
		return time.Time{}, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return time.Time{}, false
	}
	whole, frac := math.Modf(max(min(f, lastDate), -lastDate/10))
	return time.Unix(int64(whole), int64(frac*1e9)), true
}

// selectorProblem refuses a token with a selector over a limit (LIM-06, LIM-07, MAT-06).
func selectorProblem(act spec.Action, err error) *spec.Problem {
	p := invalid(ReasonClaims, fmt.Sprintf("the token's %s claim has a selector that cannot be used", act), "")
	if errors.Is(err, topic.ErrLimit) {
		p.Detail = fmt.Sprintf("the token's %s claim: %v", act, err) // names the limit and not the selector
	}
	p.Cause = err
	return p
}
