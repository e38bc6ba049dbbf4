package auth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeySpec is one key that stands in the configuration.
type KeySpec struct {
	ID        string // kid; empty = tried for every token of its algorithm
	Key       string // HMAC secret or PEM public key
	Algorithm string // empty = DefaultAlgorithm
}

// ParseKeySet makes the keys of one issuer from its configuration. allowed is the allow-list of algorithms that each key
// must be on, empty = those of the keys themselves. A key is used with its own algorithm only, and a token with a kid by
// the key of that name only, if it has one. name is for errors, which never contain a key. An HMAC secret of fewer
// than 32 bytes is refused unless allowShort. Source: AUT-07, D08-03, D08-05, D08-06.
func ParseKeySet(name string, specs []KeySpec, allowed []string, allowShort bool) (Keys, error) {
	if len(specs) == 0 {
		return nil, fmt.Errorf("%s: it has no key", name)
	}
	if len(specs) > maxSetKeys {
		return nil, fmt.Errorf("%s: it has %d keys, at most %d are allowed", name, len(specs), maxSetKeys)
	}
	for _, alg := range allowed {
		if _, ok := familyOf(alg); !ok {
			return nil, fmt.Errorf("%s: %w", name, unknownAlgorithm(alg))
		}
	}
	set := &keySet{}
	for i, s := range specs {
		label := name
		switch {
		case s.ID != "":
			label = fmt.Sprintf("%s: %q", name, s.ID)
		case len(specs) > 1:
			label = fmt.Sprintf("%s: %d.", name, i+1)
		}
		one, err := parseKey(label, s.Key, s.Algorithm, allowShort)
		if err != nil {
			return nil, err
		}
		if err := set.add(s.ID, one, allowed); err != nil {
			return nil, fmt.Errorf("%s key: %w", label, err)
		}
	}
	return set, nil
}

// keySet is several fixed keys, each with its name and algorithm.
type keySet struct {
	keys       []jwk
	algorithms []string
	warnings   []string
}

// add takes over the key of one.
func (s *keySet) add(kid string, one *static, allowed []string) error {
	if len(allowed) > 0 && !slices.Contains(allowed, one.alg) {
		return fmt.Errorf("%s is not one of the allowed algorithms (%s)", one.alg, strings.Join(allowed, ", "))
	}
	if kid != "" && slices.ContainsFunc(s.keys, func(k jwk) bool { return k.kid == kid }) {
		return errors.New("another key has the same key id")
	}
	for _, key := range one.keys {
		s.keys = append(s.keys, jwk{kid: kid, key: key, algorithms: one.Algorithms()})
	}
	if !slices.Contains(s.algorithms, one.alg) {
		s.algorithms = append(s.algorithms, one.alg)
	}
	s.warnings = append(s.warnings, one.warnings...)
	return nil
}

// Algorithms implements Keys.
func (s *keySet) Algorithms() []string { return s.algorithms }

// Find implements Keys.
func (s *keySet) Find(_ context.Context, alg, kid string) []crypto.PublicKey {
	return chosen(s.keys, alg, kid)
}

// Version implements Keys: fixed keys never change.
func (s *keySet) Version() uint64 { return 0 }

// Warnings implements Keys.
func (s *keySet) Warnings() []string { return s.warnings }

// chosen returns the keys that may have signed: those of the token's kid, or those without a name.
func chosen(keys []jwk, alg, kid string) []crypto.PublicKey {
	var found []crypto.PublicKey
	for _, k := range keys {
		if slices.Contains(k.algorithms, alg) && (kid == "" || k.kid == "" || k.kid == kid) {
			found = append(found, k.key)
		}
	}
	return found
}
