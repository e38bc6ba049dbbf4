package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// IssuerAlgorithms are the algorithms of an issuer's JWK Set unless others are listed. Secrets are never among them: who
// can read such a set could sign. Source: D08-06.
func IssuerAlgorithms() []string {
	return []string{"EdDSA", "ES256", "ES384", "ES512", "RS256", "PS256"}
}

// NewIssuerKeys finds the JWK Set of issuer, an https URL, through its authorization server's metadata and follows it as
// NewJWKS does. Each fetch of the set reads the metadata anew, so that a set that moves is followed; when either fails
// the keys before stay. The metadata is read at RFC 8414's place and, where that is refused (4xx: not every server says
// 404 of a place that it does not know), at OpenID Connect's; it counts only if it names issuer, byte by byte. Both
// documents are fetched with the guards of NewJWKS, together within o.Timeout. Without o.Algorithms they are
// IssuerAlgorithms; HMAC is an error. Source: RFC 8414 §3; OpenID Connect Discovery 1.0 §4; D08-04, D08-06, SEC-08.
func NewIssuerKeys(ctx context.Context, issuer string, o JWKSOptions) (*JWKS, error) {
	u, err := issuerURL(issuer)
	if err != nil {
		return nil, fmt.Errorf("auth: issuer: %w", err)
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = IssuerAlgorithms()
	}
	if slices.ContainsFunc(o.Algorithms, isHMAC) {
		return nil, fmt.Errorf("auth: issuer %s: a key set that is fetched must not hold shared secrets", whereabouts(u))
	}
	d := &discovery{issuer: issuer, documents: metadataURLs(u), client: guardedClient(o), limit: documentLimit(o)}
	return follow(ctx, whereabouts(u), d.load, o)
}

// issuerURL reads an issuer's identifier. Source: RFC 8414 §2.
func issuerURL(issuer string) (*url.URL, error) {
	u, err := url.Parse(issuer)
	switch {
	case err != nil:
		return nil, errors.New("its URL cannot be parsed")
	case u.Scheme != "https" || u.Host == "":
		return nil, errors.New("want an https:// URL")
	case u.User != nil || strings.ContainsAny(issuer, "?#"):
		return nil, errors.New("its URL must not have a user, a query or a fragment")
	}
	return u, nil
}

// metadataURLs are the places of u's metadata in the order in which they are tried: the well-known name is put before
// the path (RFC 8414 §3.1) or behind it (OpenID Connect Discovery 1.0 §4.1).
func metadataURLs(u *url.URL) []string {
	origin, path := u.Scheme+"://"+u.Host, strings.TrimRight(u.EscapedPath(), "/")
	return []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + path + "/.well-known/openid-configuration",
	}
}

// discovery loads the key set of an issuer. It is immutable.
type discovery struct {
	issuer    string
	documents []string
	client    *http.Client
	limit     int64
}

// load reads the metadata and then the set that it points to.
func (d *discovery) load(ctx context.Context) ([]byte, error) {
	metadata, err := d.metadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	set, err := d.keySet(metadata)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	body, err := fetch(ctx, d.client, set.String(), d.limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", whereabouts(set), err)
	}
	return body, nil
}

// metadata fetches the first document that is given out.
func (d *discovery) metadata(ctx context.Context) (body []byte, err error) {
	for _, place := range d.documents {
		body, err = fetch(ctx, d.client, place, d.limit)
		if status, ok := errors.AsType[statusError](err); !ok || status.code < 400 || status.code > 499 {
			break
		}
	}
	return body, err
}

// keySet returns the address of the set. Names are read from a map as Go folds the case of struct fields.
func (d *discovery) keySet(metadata []byte) (*url.URL, error) {
	var members map[string]json.RawMessage
	var issuer, address string
	switch {
	case json.Unmarshal(metadata, &members) != nil:
		return nil, errors.New("the document is not a JSON object")
	case json.Unmarshal(members["issuer"], &issuer) != nil || issuer != d.issuer:
		return nil, errors.New("the document is of another issuer: its issuer must equal the configured one byte by byte")
	case json.Unmarshal(members["jwks_uri"], &address) != nil || address == "":
		return nil, errors.New("the document names no key set (jwks_uri)")
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("its jwks_uri is not an https URL")
	}
	return u, nil
}
