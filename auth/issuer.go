package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Issuer is one authorization server, or the operator as one, whose draft-08 tokens are taken. Source: D08-02, D08-03,
// D08-20.
type Issuer struct {
	ID        string // what its tokens have as iss, compared byte by byte
	Keys      Keys   // of this issuer alone: ParseKeySet, NewJWKS or NewIssuerKeys
	Publish   bool   // its tokens may allow publishing
	Subscribe bool   // its tokens may allow subscribing
}

// may reports whether tokens of the issuer can allow act at all.
func (i *Issuer) may(act spec.Action) bool {
	switch act {
	case spec.ActionPublish:
		return i.Publish
	case spec.ActionSubscribe:
		return i.Subscribe
	default:
		return false
	}
}

// checkIssuers returns what is wrong with a configuration of issuers, nil if nothing is.
func checkIssuers(issuers []Issuer, resource string) error {
	if len(issuers) > 0 && resource == "" {
		return errors.New("auth: issuers need a resource identifier, which their tokens must have as audience")
	}
	seen := make(map[string]bool, len(issuers))
	for i := range issuers {
		issuer := &issuers[i]
		switch {
		case issuer.ID == "":
			return errors.New("auth: an issuer has no identifier")
		case seen[issuer.ID]:
			return fmt.Errorf("auth: issuer %q is configured twice", issuer.ID)
		case issuer.Keys == nil:
			return fmt.Errorf("auth: issuer %q has no keys", issuer.ID)
		case !issuer.Publish && !issuer.Subscribe:
			return fmt.Errorf("auth: issuer %q is trusted neither to publish nor to subscribe", issuer.ID)
		}
		if set, ok := issuer.Keys.(*JWKS); ok && slices.ContainsFunc(set.Algorithms(), isHMAC) {
			return fmt.Errorf("auth: issuer %q: a key set that is fetched must not hold shared secrets", issuer.ID)
		}
		seen[issuer.ID] = true
	}
	return nil
}

// isHMAC reports whether alg signs with a secret that the verifier knows.
func isHMAC(alg string) bool {
	fam, _ := familyOf(alg)
	return fam == familyHMAC
}

// draft08 fills in what authorization_details grant to a token of issuer.
func (r *rules) draft08(g *Grant, issuer *Issuer, raw json.RawMessage) error {
	if issuerOf(raw) != issuer.ID {
		return invalid(ReasonIssuer, "the token is of another issuer", "")
	}
	if err := checkAudience(raw, r.resource); err != nil {
		return err
	}
	claims, err := spec.Draft08.Claims(raw, r.limits)
	if err != nil {
		return err
	}
	g.Dialect, g.Issuer = spec.Draft08.Name, issuer.ID
	// One bad detail refuses the token, even for the action that the detail is not about (D08-12).
	publish, err := r.compile(claims.Publish)
	if err != nil {
		return err
	}
	subscribe, err := r.compile(claims.Subscribe)
	if err != nil {
		return err
	}
	if g.Action == spec.ActionPublish {
		g.Topics = publish
		return nil
	}
	g.Topics = subscribe
	g.Payloads, err = r.payloads(claims.Details)
	return err
}

// compile makes the matchers of a draft-08 token.
func (r *rules) compile(selectors []topic.Selector) ([]topic.Matcher, error) {
	var matchers []topic.Matcher
	for _, s := range selectors {
		m, err := r.patterns.Compile(s)
		if err != nil {
			p := invalid(ReasonClaims, "the token's authorization_details have a matcher that cannot be used", "")
			if errors.Is(err, topic.ErrLimit) || errors.Is(err, topic.ErrInvalid) { // these are our words
				p.Detail = fmt.Sprintf("the token's authorization_details: %v", err)
			}
			p.Cause = err
			return nil, p
		}
		matchers = append(matchers, m)
	}
	return matchers, nil
}

// payloads keeps the order of the details: the first that fits counts, with a payload or without (D08-19).
func (r *rules) payloads(details []spec.Detail) ([]Payload, error) {
	if !slices.ContainsFunc(details, func(d spec.Detail) bool { return d.Payload != nil }) {
		return nil, nil
	}
	payloads := make([]Payload, len(details))
	for i, d := range details {
		matchers, err := r.compile(d.Topics)
		if err != nil {
			return nil, err
		}
		payloads[i] = Payload{Topics: matchers, JSON: d.Payload}
	}
	return payloads, nil
}

// checkAudience refuses a token that is not for resource. Source: D08-02; RFC 7519 §4.1.3; RFC 9068 §4.
func checkAudience(raw json.RawMessage, resource string) error {
	audience, err := audienceOf(raw)
	switch {
	case err != nil:
		return err
	case len(audience) == 0:
		return invalid(ReasonAudience, "the token has no audience (aud), it must be "+resource, "")
	case !slices.Contains(audience, resource):
		return invalid(ReasonAudience, "the token has the wrong audience (aud), it must be "+resource, fmt.Sprintf("it is for %.200q", audience))
	}
	return nil
}

// audienceOf returns the aud of a claims set, nil if it has none.
func audienceOf(raw json.RawMessage) ([]string, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil, invalid(ReasonClaims, "the token's claims are not a JSON object", "")
	}
	aud, ok := members["aud"]
	if !ok {
		return nil, nil
	}
	var entries []*string
	if aud = bytes.TrimSpace(aud); len(aud) > 0 && aud[0] == '"' {
		entries = make([]*string, 1)
		if json.Unmarshal(aud, &entries[0]) == nil {
			return []string{*entries[0]}, nil
		}
	}
	if json.Unmarshal(aud, &entries) != nil || slices.Contains(entries, nil) {
		return nil, invalid(ReasonClaims, "the token's aud is neither a string nor an array of strings", "")
	}
	audience := make([]string, len(entries))
	for i := range entries {
		audience[i] = *entries[i]
	}
	return audience, nil
}
