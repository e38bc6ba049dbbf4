package auth

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// MintOptions describes a token.
type MintOptions struct {
	Generation string          // name of the dialect, empty = classic
	Key        string          // HMAC secret or PEM private key; required
	Algorithm  string          // empty = HS256 for a secret, the one that fits for a PEM key
	KeyID      string          // kid header, empty = none
	Publish    []string        // classic: selectors of mercure.publish; nil leaves the member out
	Subscribe  []string        // classic: selectors of mercure.subscribe; nil leaves the member out
	Payload    json.RawMessage // classic: mercure.payload, any JSON; nil leaves the member out
	Subject    string          // sub, empty = none
	TTL        time.Duration   // exp = now + TTL, in whole seconds; 0 = no exp, refused in draft-08; negative = already expired

	Issuer   string       // draft-08: iss, required
	Audience []string     // draft-08: aud, at least one; the hub's resource identifier must be among them
	ClientID string       // draft-08: client_id, empty = none
	ID       string       // draft-08: jti, empty = a random one
	Details  []MintDetail // draft-08: in this order; none grants nothing
}

// MintDetail is one entry of authorization_details.
type MintDetail struct {
	Actions []spec.Action
	Topics  []topic.Selector // of kind topic.Exact or topic.URLPattern
	Payload json.RawMessage  // a JSON object for subscribers, nil = none
}

// Mint signs a token for the hub of the keys that match o.Key. It is meant for command lines, demonstrations
// and tests; a hub itself never signs. A draft-08 token that every hub would refuse is an error. Errors never contain
// the key. Source: CLA-01, CLA-02, CLA-05; D08-01, D08-02, D08-07 … D08-11.
func Mint(o MintOptions) (string, error) {
	method, key, err := signingKey(o.Key, o.Algorithm)
	if err != nil {
		return "", fmt.Errorf("mint: %w", err)
	}
	claims, typ := jwt.MapClaims{"iat": time.Now().Unix()}, "JWT"
	switch o.Generation {
	case "", spec.Classic.Name:
		err = o.classic(claims)
	case spec.Draft08.Name:
		typ = spec.TokenTypeDraft08
		err = o.draft08(claims)
	default:
		err = fmt.Errorf("there is no generation %q; there are %s and %s", o.Generation, spec.Classic.Name, spec.Draft08.Name)
	}
	if err != nil {
		return "", fmt.Errorf("mint: %w", err)
	}
	if o.Subject != "" {
		claims["sub"] = o.Subject
	}
	if o.TTL != 0 {
		claims["exp"] = time.Now().Add(o.TTL).Unix()
	}
	t := jwt.NewWithClaims(method, claims)
	t.Header["typ"] = typ
	if o.KeyID != "" {
		t.Header["kid"] = o.KeyID
	}
	token, err := t.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("mint: sign with %s: %w", method.Alg(), err)
	}
	return token, nil
}

// classic adds the mercure claim.
func (o *MintOptions) classic(claims jwt.MapClaims) error {
	if o.Issuer != "" || o.Audience != nil || o.ClientID != "" || o.ID != "" || o.Details != nil {
		return errors.New("issuer, audience, client, id and details belong to draft-08 tokens")
	}
	mercure := map[string]any{}
	if o.Publish != nil {
		mercure["publish"] = o.Publish
	}
	if o.Subscribe != nil {
		mercure["subscribe"] = o.Subscribe
	}
	if o.Payload != nil {
		if !json.Valid(o.Payload) {
			return errors.New("the payload is not valid JSON")
		}
		mercure["payload"] = o.Payload
	}
	claims[spec.ClaimMercure] = mercure
	return nil
}

// draft08 adds what an access token needs, and reads authorization_details as a hub does.
func (o *MintOptions) draft08(claims jwt.MapClaims) error {
	switch {
	case o.Publish != nil || o.Subscribe != nil || o.Payload != nil:
		return errors.New("the grants of a draft-08 token are given as details")
	case o.Issuer == "":
		return errors.New("a draft-08 token needs an issuer, one that the hub knows")
	case len(o.Audience) == 0:
		return errors.New("a draft-08 token needs an audience, the hub's resource identifier")
	case o.TTL == 0:
		return errors.New("a draft-08 token needs a time until it expires")
	}
	claims["iss"], claims["jti"] = o.Issuer, cmp.Or(o.ID, rand.Text())
	claims["aud"] = o.Audience
	if len(o.Audience) == 1 {
		claims["aud"] = o.Audience[0]
	}
	if o.ClientID != "" {
		claims["client_id"] = o.ClientID
	}
	if o.Details == nil {
		return nil
	}
	details := make([]map[string]any, len(o.Details))
	for i := range o.Details {
		details[i] = o.Details[i].claim()
	}
	claims["authorization_details"] = details
	raw, err := json.Marshal(claims)
	if err != nil {
		return errors.New("a payload is not valid JSON")
	}
	read, err := spec.Draft08.Claims(raw, spec.Limits{})
	if err != nil {
		return err
	}
	for _, s := range slices.Concat(read.Publish, read.Subscribe) {
		if _, err := topic.Compile(s, nil, topic.Limits{}); err != nil {
			return fmt.Errorf("%q: %w", s.Pattern, err)
		}
	}
	return nil
}

// claim is the detail as JSON.
func (d *MintDetail) claim() map[string]any {
	actions := make([]string, len(d.Actions))
	for i, a := range d.Actions {
		actions[i] = a.String()
	}
	topics := make([]map[string]string, len(d.Topics))
	for i, s := range d.Topics {
		topics[i] = map[string]string{"match": s.Pattern}
		if name := s.Kind.MatchType(); name != topic.TypeExact {
			topics[i]["match_type"] = name
		}
	}
	claim := map[string]any{"type": spec.AuthorizationDetailType, "actions": actions, "topics": topics}
	if d.Payload != nil {
		claim["payload"] = d.Payload
	}
	return claim
}

// signingKey reads the key and the method to sign with.
func signingKey(key, alg string) (jwt.SigningMethod, any, error) {
	if key == "" {
		return nil, nil, errors.New("a key is needed")
	}
	if !isPEM(key) {
		if alg == "" {
			alg = DefaultAlgorithm
		}
		fam, ok := familyOf(alg)
		if !ok {
			return nil, nil, unknownAlgorithm(alg)
		}
		if fam != familyHMAC {
			return nil, nil, fmt.Errorf("%s needs a private key in PEM form, not a secret", alg)
		}
		if isJWK(key) {
			return nil, nil, jwkAsSecret(alg)
		}
		return jwt.GetSigningMethod(alg), []byte(key), nil
	}
	if fam, _ := familyOf(alg); fam == familyHMAC {
		return nil, nil, fmt.Errorf("%s would use the PEM text as a shared secret; set one of %s", alg,
			strings.Join(algorithmNames(familyRSA, familyECDSA, familyEd25519), ", "))
	}
	signer, err := parsePrivatePEM(key)
	if err != nil {
		return nil, nil, err
	}
	if alg == "" {
		alg = defaultAlgorithmOf(signer.Public())
	}
	if err := fits(signer.Public(), alg); err != nil {
		return nil, nil, err
	}
	return jwt.GetSigningMethod(alg), signer, nil
}

// defaultAlgorithmOf is the usual algorithm of a key's type; empty if it has none.
func defaultAlgorithmOf(pub crypto.PublicKey) string {
	switch k := pub.(type) {
	case *rsa.PublicKey:
		return "RS256"
	case *ecdsa.PublicKey:
		for _, a := range algorithms {
			if a.curve == k.Curve {
				return a.name
			}
		}
	case ed25519.PublicKey:
		return "EdDSA"
	}
	return ""
}
