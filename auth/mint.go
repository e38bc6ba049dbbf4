package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// MintOptions describes a classic token.
type MintOptions struct {
	Key       string          // HMAC secret or PEM private key; required
	Algorithm string          // empty = HS256 for a secret, the one that fits for a PEM key
	KeyID     string          // kid header, empty = none
	Publish   []string        // selectors of mercure.publish; nil leaves the member out
	Subscribe []string        // selectors of mercure.subscribe; nil leaves the member out
	Payload   json.RawMessage // mercure.payload, any JSON; nil leaves the member out
	Subject   string          // sub, empty = none
	TTL       time.Duration   // exp = now + TTL, in whole seconds; 0 = no exp, negative = already expired
}

// Mint signs a token for the hub of the keys that match o.Key. It is meant for command lines, demonstrations
// and tests; a hub itself never signs. Errors never contain the key. Source: CLA-01, CLA-02, CLA-05.
func Mint(o MintOptions) (string, error) {
	method, key, err := signingKey(o.Key, o.Algorithm)
	if err != nil {
		return "", fmt.Errorf("mint: %w", err)
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
			return "", errors.New("mint: the payload is not valid JSON")
		}
		mercure["payload"] = o.Payload
	}
	now := time.Now()
	claims := jwt.MapClaims{spec.ClaimMercure: mercure, "iat": now.Unix()}
	if o.Subject != "" {
		claims["sub"] = o.Subject
	}
	if o.TTL != 0 {
		claims["exp"] = now.Add(o.TTL).Unix()
	}
	t := jwt.NewWithClaims(method, claims)
	if o.KeyID != "" {
		t.Header["kid"] = o.KeyID
	}
	token, err := t.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("mint: sign with %s: %w", method.Alg(), err)
	}
	return token, nil
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
