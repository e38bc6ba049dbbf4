package app

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/cinnabar-hub/cinnabar/auth"
)

// IssuerKey is one key of an issuer as it was configured.
type IssuerKey struct {
	Key Secret // an HMAC secret or a PEM public key
	Alg string // empty = HS256
	ID  string // the kid that tokens name it by; empty = any
}

// Issuer is who may sign draft-08 tokens, and by what they are verified. Without keys and without a JWK Set, the set is
// found by the issuer's metadata (RFC 8414). Source: D08-03, D08-04, D08-20.
type Issuer struct {
	URL        string // the token's iss, byte by byte
	Keys       []IssuerKey
	JWKS       string   // URL of a JWK Set, empty = none
	Algorithms []string // of a set's keys; nil = auth.IssuerAlgorithms
	Roles      []string // of issuerRoles; nil = both
}

// issuerRoles are what the tokens of an issuer may be good for.
var issuerRoles = []string{"publish", "subscribe"}

// discovers reports whether the keys of i are found by its metadata.
func (i *Issuer) discovers() bool { return len(i.Keys) == 0 && i.JWKS == "" }

// serves reports whether tokens of i count for role.
func (i *Issuer) serves(role string) bool { return len(i.Roles) == 0 || slices.Contains(i.Roles, role) }

// allIssuers are those of the file, and the one that the flags make.
func (c *Config) allIssuers() []Issuer {
	all := slices.Clone(c.Issuers)
	if c.Issuer == "" {
		return all
	}
	i := Issuer{URL: c.Issuer, JWKS: c.IssuerJWKS}
	if !c.IssuerKey.IsZero() {
		i.Keys = []IssuerKey{{Key: c.IssuerKey, Alg: c.IssuerAlg}}
	} else if c.IssuerAlg != auth.DefaultAlgorithm { // a set names the algorithms of its keys; the default is for secrets
		i.Algorithms = []string{c.IssuerAlg}
	}
	return append(all, i)
}

// parseIssuer takes what RFC 8414 §2 allows as an issuer: an https URL without query and fragment. Plain http is for
// this machine; empty is none.
func parseIssuer(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if err := identifier(s); err != nil {
		return "", err
	}
	u, _ := url.Parse(s) // identifier has read it
	if u.Scheme == "http" && !localHost(u.Hostname()) {
		return "", errors.New("must begin with https://; plain http:// is for localhost and loopback addresses")
	}
	return s, nil
}

// parseResource takes what RFC 8707 §2 allows as the name of a protected resource; empty is the public URL.
func parseResource(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return s, identifier(s)
}

// identifier says what keeps s from being an absolute URL that others compare byte by byte.
func identifier(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return errors.New("must be a whole URL such as https://example.com")
	case u.User != nil:
		return errors.New("must not have a user in it")
	case strings.ContainsAny(s, "?#"):
		return errors.New("must not have a query or a fragment")
	}
	return nil
}

// localHost reports whether host is this machine by its name alone.
func localHost(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// validateIssuers judges the issuers but for their keys, which are judged when they are read.
func (c *Config) validateIssuers(refuse, warn report) {
	if c.Issuer == "" {
		for _, f := range []struct {
			name  string
			given bool
		}{
			{"--issuer-jwt-key", !c.IssuerKey.IsZero()},
			{"--issuer-jwks-url", c.IssuerJWKS != ""},
			{"--issuer-jwt-alg", c.IssuerAlg != auth.DefaultAlgorithm},
		} {
			if f.given {
				refuse("%s is of no use without --issuer, which says whose tokens it is for", f.name)
			}
		}
	}
	all := c.allIssuers()
	seen := make(map[string]bool)
	for i := range all {
		if seen[all[i].URL] {
			refuse("issuer %s is configured twice", all[i].URL)
		}
		seen[all[i].URL] = true
		all[i].validate(refuse)
	}
	if len(all) > 0 && c.resource() == "" && !c.Dev {
		refuse("issuers need the name by which tokens mean this hub, their aud: give --public-url, or --resource-identifier where it is another")
	}
	if len(all) == 0 && c.ResourceIdentifier != "" && !c.Dev {
		warn("--resource-identifier is of no use without an issuer: no draft-08 token is taken")
	}
	c.validateGenerations(len(all), refuse, warn)
}

func (i *Issuer) validate(refuse report) {
	if len(i.Keys) > 0 && i.JWKS != "" {
		refuse("issuer %s: a key and a JWK Set are both given: choose one", i.URL)
	}
	if len(i.Keys) > 0 && len(i.Algorithms) > 0 {
		refuse("issuer %s: algorithms are for a JWK Set; a key has its own", i.URL)
	}
	u, err := url.Parse(i.JWKS)
	if i.JWKS != "" && (err != nil || !slices.Contains([]string{"https", "file"}, u.Scheme)) {
		refuse("issuer %s: JWK Set %q: must begin with https:// or file://", i.URL, redactURL(i.JWKS))
	}
	if at := slices.IndexFunc(i.Algorithms, func(alg string) bool { return strings.HasPrefix(alg, "HS") }); at >= 0 {
		refuse("issuer %s: %s is for a secret, which has no place in a set that is fetched: give it as a key", i.URL, i.Algorithms[at])
	}
	if i.discovers() && strings.HasPrefix(i.URL, "http://") {
		refuse("issuer %s: metadata is read over https:// only: give a key or a JWK Set", i.URL)
	}
}

// validateGenerations judges what belongs to one of the two generations of the protocol alone.
func (c *Config) validateGenerations(issuers int, refuse, warn report) {
	if c.SubscriptionEvents == "both" && !c.Subscriptions {
		warn("--subscription-events is of no use without --subscriptions: there are no such events")
	}
	if c.Classic {
		return
	}
	if issuers == 0 && !c.Dev {
		refuse("--classic=false leaves draft-08 tokens, and they need an issuer: give --issuer, or issuers in the file of --config")
	}
	if c.hasRoleKeys() {
		refuse("--classic=false: the keys and JWK Sets of --publisher-jwt-… and --subscriber-jwt-… verify classic tokens, which are not taken; leave them out, or name the key as --issuer-jwt-key")
	}
	if c.DefaultGeneration == "classic" {
		refuse("--default-generation classic cannot be used with --classic=false")
	}
	if c.SubscriptionEvents == "both" {
		refuse("--subscription-events both cannot be used with --classic=false: there is one form left")
	}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"--cookie-name", c.CookieName != ""},
		{"--classic-require-exp", c.ClassicRequireExp},
		{"--classic-query-token", c.ClassicQueryToken != Default().ClassicQueryToken},
	} {
		if f.given {
			warn("%s is of no use with --classic=false", f.name)
		}
	}
}

func (c *Config) hasRoleKeys() bool {
	return !c.PublisherKey.IsZero() || c.PublisherJWKS != "" || !c.SubscriberKey.IsZero() || c.SubscriberJWKS != ""
}

// resource is the name by which draft-08 tokens mean this hub; empty if it has none.
func (c *Config) resource() string {
	if c.ResourceIdentifier == "" && c.PublicURL != nil {
		return c.PublicURL.String()
	}
	return c.ResourceIdentifier
}
