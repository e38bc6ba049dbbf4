package auth

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// payload is the claims set exactly as it was signed, so that every reader sees the same bytes (AUT-10). The
// embedded map is nil; it only makes payload acceptable to the library, whose own validation is off: it takes
// exp 0 for "never" and knows no crit.
type payload struct {
	jwt.MapClaims

	raw json.RawMessage
}

// UnmarshalJSON keeps b, which the caller has found to be valid JSON.
func (p *payload) UnmarshalJSON(b []byte) error {
	p.raw = slices.Clone(b)
	return nil
}

var (
	errGeneration = errors.New("a token of type at+jwt is a draft-08 access token, for which no issuer is configured")
	errType       = errors.New("its typ belongs to another validator")
	errNoKey      = errors.New("no key of this role or issuer fits the token's algorithm and key id")
)

// notCompact is for the log.
const notCompact = "it is not a JSON Web Signature in compact form"

// newParser makes the verifier for an allow-list of algorithms (AUT-07). Base64 is read strictly: one
// signature has one spelling.
func newParser(algorithms []string) *jwt.Parser {
	return jwt.NewParser(jwt.WithValidMethods(algorithms), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())
}

// verify checks token's signature and returns its header and claims as they were signed. Of the header it
// reads alg, kid and typ; jwk, jku, x5u and x5c are never looked at (AUT-08). Its problem tells a client
// nothing about the token (ERR-08), and its cause repeats neither the token nor the library's words.
func verify(ctx context.Context, v *validator, token string) (map[string]any, json.RawMessage, error) {
	if broken(token) {
		return nil, nil, invalid(ReasonUnverified, textUnverified, notCompact)
	}
	claims := &payload{}
	t, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		// typ has decided the validator: a classic key never verifies a draft-08 token, nor the reverse (G-01, G-02).
		if accessTokenType(t.Header["typ"]) != (v.issuer != nil) {
			return nil, errType
		}
		kid, _ := t.Header["kid"].(string)
		found := v.keys.Find(ctx, t.Method.Alg(), kid)
		if len(found) == 0 {
			return nil, errNoKey
		}
		set := jwt.VerificationKeySet{Keys: make([]jwt.VerificationKey, len(found))}
		for i := range found {
			set.Keys[i] = found[i]
		}
		return set, nil
	})
	switch {
	case err == nil:
		if claims.raw == nil { // the claims set is the literal null
			return nil, nil, invalid(ReasonUnverified, textUnverified, "the claims are not an object")
		}
		return t.Header, claims.raw, nil
	case errors.Is(err, errType):
		return nil, nil, invalid(ReasonGeneration, textUnverified, errType.Error())
	case errors.Is(err, errNoKey):
		return nil, nil, invalid(ReasonUnverified, textUnverified, errNoKey.Error())
	case errors.Is(err, jwt.ErrTokenMalformed):
		return nil, nil, invalid(ReasonUnverified, textUnverified, notCompact)
	case t == nil || t.Method == nil || !slices.Contains(v.keys.Algorithms(), t.Method.Alg()):
		return nil, nil, invalid(ReasonAlgorithm, textAlgorithm, "its algorithm is not the one configured for this role or issuer")
	default:
		return nil, nil, invalid(ReasonUnverified, textUnverified, "its signature does not match the key")
	}
}
