package auth

import (
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

// maxSetKeys bounds the keys of one set, and so the signatures tried for a token without kid.
const maxSetKeys = 64

// jwk is one usable key of a set.
type jwk struct {
	kid        string
	key        crypto.PublicKey // []byte for oct
	algorithms []string         // those of the allow-list that fit the key
}

// parseSet reads a JWK Set. Keys that are for something else than verifying one of the algorithms are left out,
// each with a word for the log; one odd key does not spoil the set (RFC 7517 §5).
func parseSet(body []byte, allowed []string) (keys []jwk, skipped []string, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil || set.Keys == nil {
		return nil, nil, errors.New("the document is not a JWK Set: want a JSON object with an array of keys")
	}
	if len(set.Keys) > maxSetKeys {
		return nil, nil, fmt.Errorf("it has %d keys, at most %d are allowed", len(set.Keys), maxSetKeys)
	}
	for i, raw := range set.Keys {
		k, err := parseJWK(raw, allowed)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("%d: %v", i, err))
			continue
		}
		keys = append(keys, k)
	}
	return keys, skipped, nil
}

// parseJWK reads the public part of one key. X.509 members are dropped before the library sees them: it would
// fetch x5u (SEC-08).
func parseJWK(raw json.RawMessage, allowed []string) (jwk, error) {
	var m jwkset.JWKMarshal
	if json.Unmarshal(raw, &m) != nil {
		return jwk{}, errors.New("not a JSON Web Key")
	}
	if m.USE != "" && m.USE != jwkset.UseSig {
		return jwk{}, errors.New("not for signatures (use)")
	}
	if len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) {
		return jwk{}, errors.New("not for verifying (key_ops)")
	}
	public := jwkset.JWKMarshal{KTY: m.KTY, ALG: m.ALG, CRV: m.CRV, X: m.X, Y: m.Y, N: m.N, E: m.E, K: m.K}
	parsed, err := jwkset.NewJWKFromMarshal(public, jwkset.JWKMarshalOptions{Private: m.KTY == jwkset.KtyOct},
		jwkset.JWKValidateOptions{})
	if err != nil {
		return jwk{}, errors.New("its parameters are not those of a key that is supported")
	}
	k := jwk{kid: m.KID, key: parsed.Key()}
	if secret, ok := k.key.([]byte); ok && len(secret) < minSecretBytes {
		return jwk{}, fmt.Errorf("its secret has fewer than %d bytes", minSecretBytes)
	}
	reason := errors.New("none of the allowed algorithms fits it")
	for _, alg := range allowed {
		if m.ALG != "" && string(m.ALG) != alg {
			continue
		}
		if err := fits(k.key, alg); err != nil {
			reason = err
			continue
		}
		k.algorithms = append(k.algorithms, alg)
	}
	if k.algorithms == nil {
		return jwk{}, reason
	}
	return k, nil
}
