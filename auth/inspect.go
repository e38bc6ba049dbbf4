package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// InspectOptions is what the hub that is imagined has; the zero value checks nothing but the token's own words.
type InspectOptions struct {
	Keys     Keys     // a role's for a classic token, an issuer's for one of draft-08; nil leaves the signature unchecked
	Issuer   string   // draft-08: whose Keys are; empty = the one that the token names
	Resource string   // draft-08: the hub's resource identifier; empty = any audience
	Base     *url.URL // the hub's URL, for relative URL patterns; nil as in Options
	Topics   []string // to ask about
}

// Inspect explains a token with the default limits: which generation's rules a hub applies to it and why, whether it is
// accepted, and what it grants. Without keys nothing in the report can be trusted. It returns an error only if token
// is not a JSON Web Signature whose header and claims can be read.
func Inspect(token string, o InspectOptions) (Report, error) {
	r, err := dissect(token)
	if err != nil {
		return Report{}, err
	}
	r.rules = newRules(false, o.Resource, baseURL(&Options{Base: o.Base}), spec.DefaultLimits())
	r.Checked = o.Keys != nil
	if limit := r.rules.limits.TokenBytes; len(token) > limit {
		r.problem(fmt.Errorf("it has %d bytes, hubs take %d unless configured otherwise", len(token), limit))
	}
	var header map[string]any
	_ = json.Unmarshal(r.Header, &header) // dissect has read it before
	r.classify(header["typ"], o.Issuer)
	if o.Keys != nil {
		r.verify(token, o.Keys)
	}
	if _, critical := header["crit"]; critical {
		r.problem(errors.New("its crit header names extensions that this hub does not know"))
	}
	r.dates()
	if r.trusted != nil {
		r.addressed(o.Resource)
	}
	r.grants(o.Topics)
	r.Accepted = len(r.Problems) == 0
	return r.Report, nil
}

// inspection is a report in the making.
type inspection struct {
	Report

	rules   rules
	trusted *Issuer // nil = classic
}

// classify says which validator a hub chooses (G-01).
func (r *inspection) classify(typ any, issuer string) {
	if !accessTokenType(typ) {
		r.Dialect = spec.Classic.Name
		r.Why = "the header has no typ, and only at+jwt makes it draft-08"
		if typ != nil {
			r.Why = fmt.Sprintf("the header's typ is %v, and only at+jwt makes it draft-08", typ)
		}
		r.Why += "; the role's key and the claim mercure count"
		return
	}
	r.Dialect = spec.Draft08.Name
	r.Why = fmt.Sprintf("the header's typ is %v; the issuer's keys and the claim authorization_details count", typ)
	r.Issuer = issuerOf(r.Claims)
	r.trusted = &Issuer{ID: r.Issuer}
	switch {
	case r.Issuer == "":
		r.problem(errors.New("it names no issuer (iss), which hubs need to choose the keys"))
	case issuer != "" && issuer != r.Issuer:
		r.problem(fmt.Errorf("its issuer is not %s", issuer))
	}
}

// dissect splits token and decodes what can be decoded without a key.
func dissect(token string) (*inspection, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("inspect: a token has three parts separated by dots, this has %d", len(parts))
	}
	r := &inspection{}
	for i, to := range []*json.RawMessage{&r.Header, &r.Claims} {
		name := [...]string{"header", "claims"}[i]
		raw, err := decodeSegment(parts[i])
		if err != nil {
			return nil, fmt.Errorf("inspect: the %s part is not base64url", name)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil || object == nil {
			return nil, fmt.Errorf("inspect: the %s part is not a JSON object", name)
		}
		*to = raw
	}
	return r, nil
}

func (r *inspection) problem(err error) {
	if p, ok := errors.AsType[*spec.Problem](err); ok {
		r.Problems = append(r.Problems, p.Detail)
		return
	}
	r.Problems = append(r.Problems, err.Error())
}

// verify checks the signature; unlike a hub's answer it may tell why it does not hold.
func (r *inspection) verify(token string, keys Keys) {
	_, _, err := verify(context.Background(), newValidator(keys, r.trusted), strings.TrimSpace(token)) //nolint:forbidigo // waits at most for one fetch of a key set
	if err == nil {
		r.Verified = true
		return
	}
	if p, ok := errors.AsType[*spec.Problem](err); ok && p.Cause != nil {
		err = p.Cause
	}
	r.problem(fmt.Errorf("not verified: %w; the key is for %s", err, strings.Join(keys.Algorithms(), ", ")))
}

// dates reads the registered claims.
func (r *inspection) dates() {
	reg, err := readRegistered(r.Claims)
	if err == nil {
		err = reg.check(time.Now(), r.trusted != nil)
	}
	if err != nil {
		r.problem(err)
	}
	r.Subject = reg.subject
	r.IssuedAt, r.NotBefore, r.Expires = given(reg.issued), given(reg.notBefore), given(reg.expires)
}

// addressed reads who a draft-08 token is for.
func (r *inspection) addressed(resource string) {
	audience, err := audienceOf(r.Claims)
	switch {
	case err != nil:
		r.problem(err)
	case resource != "":
		if err := checkAudience(r.Claims, resource); err != nil {
			r.problem(err)
		}
	case len(audience) == 0:
		r.problem(errors.New("it has no audience (aud), which must be the hub's resource identifier"))
	}
	r.Audience = audience
	var members map[string]json.RawMessage
	_ = json.Unmarshal(r.Claims, &members) // dissect has read it before
	_ = json.Unmarshal(members["client_id"], &r.Client)
}

// given is nil for the zero time.
func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// grants reads what the token says of Mercure and asks it about topics.
func (r *inspection) grants(topics []string) {
	dialect, one, many := &spec.Classic, "mercure.%s selector", "mercure.%s selectors"
	if r.trusted != nil {
		dialect, one, many = &spec.Draft08, "matcher in authorization_details to %s", "matchers in authorization_details to %s"
	}
	claims, err := dialect.Claims(r.Claims, r.rules.limits)
	if err != nil {
		r.problem(err)
		return
	}
	r.Payload = claims.Payload
	for _, d := range claims.Details {
		r.Payloads = append(r.Payloads, PayloadReport{Topics: selectorNames(d.Topics), Payload: d.Payload})
	}
	if !slices.ContainsFunc(r.Payloads, func(p PayloadReport) bool { return p.Payload != nil }) {
		r.Payloads = nil
	}
	r.Publish, r.Subscribe = selectorNames(claims.Publish), selectorNames(claims.Subscribe)
	grant := func(act spec.Action, selectors []topic.Selector) *grantInspection {
		return &grantInspection{name: fmt.Sprintf(one, act), plural: fmt.Sprintf(many, act), selectors: selectors}
	}
	publish, subscribe := grant(spec.ActionPublish, claims.Publish), grant(spec.ActionSubscribe, claims.Subscribe)
	r.compile(publish)
	r.compile(subscribe)
	for _, t := range topics {
		r.Topics = append(r.Topics, TopicReport{Topic: t, Publish: publish.verdict(t), Subscribe: subscribe.verdict(t)})
	}
}

// grantInspection is what a token grants of one action.
type grantInspection struct {
	name      string // of a selector
	plural    string
	selectors []topic.Selector
	matchers  []topic.Matcher // nil for one that does not compile
}

// compile makes the matchers; a selector over the limits, or a pattern that is none, refuses the token.
func (r *inspection) compile(g *grantInspection) {
	g.matchers = make([]topic.Matcher, len(g.selectors))
	for i, s := range g.selectors {
		m, err := r.rules.patterns.Compile(s)
		if err != nil {
			r.problem(fmt.Errorf("%s: %q: %w", g.name, s.Pattern, err))
			continue
		}
		g.matchers[i] = m
	}
}

// verdict finds the first selector that selects t.
func (g *grantInspection) verdict(t string) Verdict {
	if len(g.selectors) == 0 {
		return Verdict{Reason: fmt.Sprintf("the token has no %s", g.name)}
	}
	i := slices.IndexFunc(g.matchers, func(m topic.Matcher) bool { return m != nil && m.Match(t) })
	if i < 0 {
		return Verdict{Reason: fmt.Sprintf("none of the %d %s selects it", len(g.selectors), g.plural)}
	}
	s := g.selectors[i]
	v := Verdict{Granted: true, Selector: selectorName(s)}
	switch {
	case s.Pattern == spec.Wildcard:
		v.Reason = "* selects every topic"
	case s.Kind == topic.URLPattern:
		v.Reason = fmt.Sprintf("the URL pattern %s matches it", s.Pattern)
	case s.Pattern == t:
		v.Reason = "the selector equals the topic"
	default:
		v.Reason = fmt.Sprintf("the URI template %s can expand to it", s.Pattern)
	}
	return v
}

// selectorName is how reports write a selector.
func selectorName(s topic.Selector) string {
	if s.Kind == topic.URLPattern && s.Pattern != spec.Wildcard {
		return topic.TypeURLPattern + ":" + s.Pattern
	}
	return s.Pattern
}

func selectorNames(selectors []topic.Selector) []string {
	var names []string
	for _, s := range selectors {
		names = append(names, selectorName(s))
	}
	return names
}
