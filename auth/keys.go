package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Keys is what one role trusts: keys, and the algorithms each may be used with. ParseKey makes a fixed
// one, NewJWKS one that follows a key set. Implementations are safe for concurrent use.
type Keys interface {
	// Algorithms is the allow-list (AUT-07): JWA names, never empty, never "none".
	Algorithms() []string
	// Find returns the keys that may have signed a token with this algorithm and key id (empty = the token
	// has none): []byte for HMAC, else a public key that fits alg. It returns nil if there is none. It may
	// wait for a key set to be fetched anew, at most until ctx ends. The token chooses among trusted keys
	// and never introduces one (AUT-08).
	Find(ctx context.Context, alg, kid string) []crypto.PublicKey
	// Version changes whenever a key is added or removed, so that nothing verified with an older set is
	// taken from a cache.
	Version() uint64
	// Warnings are sentences for the operator's log, at start; nil for none.
	Warnings() []string
}

// DefaultAlgorithm is the algorithm of a key for which none is configured. Source: CLA-13.
const DefaultAlgorithm = "HS256"

// minSecretBytes is RFC 7518 §3.2: an HMAC key is at least as long as SHA-256's output.
const minSecretBytes = 32

// minRSABits is RFC 7518 §3.3. A key beyond maxRSABits is a mistake, or somebody's attempt to make every check slow.
const (
	minRSABits = 2048
	maxRSABits = 16384
)

// family is the kind of key that an algorithm needs.
type family uint8

const (
	familyHMAC family = iota + 1
	familyRSA
	familyECDSA
	familyEd25519
)

// algorithm is one JWA signature algorithm and what its key has to be.
type algorithm struct {
	name   string
	family family
	curve  elliptic.Curve // ECDSA only
}

// algorithms are the supported ones in the order in which messages list them.
var algorithms = []algorithm{
	{name: "HS256", family: familyHMAC},
	{name: "HS384", family: familyHMAC},
	{name: "HS512", family: familyHMAC},
	{name: "RS256", family: familyRSA},
	{name: "RS384", family: familyRSA},
	{name: "RS512", family: familyRSA},
	{name: "PS256", family: familyRSA},
	{name: "PS384", family: familyRSA},
	{name: "PS512", family: familyRSA},
	{name: "ES256", family: familyECDSA, curve: elliptic.P256()},
	{name: "ES384", family: familyECDSA, curve: elliptic.P384()},
	{name: "ES512", family: familyECDSA, curve: elliptic.P521()},
	{name: "EdDSA", family: familyEd25519},
}

// familyOf returns the family of alg, compared exactly, and whether alg is supported.
func familyOf(alg string) (family, bool) {
	for _, a := range algorithms {
		if a.name == alg {
			return a.family, true
		}
	}
	return 0, false
}

// algorithmNames lists the supported algorithms of the given families.
func algorithmNames(families ...family) []string {
	var names []string
	for _, a := range algorithms {
		if slices.Contains(families, a.family) {
			names = append(names, a.name)
		}
	}
	return names
}

// unknownAlgorithm says which algorithms there are; "none" is named because people try it.
func unknownAlgorithm(alg string) error {
	all := strings.Join(algorithmNames(familyHMAC, familyRSA, familyECDSA, familyEd25519), ", ")
	if strings.EqualFold(alg, "none") {
		return fmt.Errorf(`algorithm %q would accept unsigned tokens; use one of %s`, alg, all)
	}
	return fmt.Errorf("algorithm %q is not supported; use one of %s", alg, all)
}

// fits returns nil if key can verify alg, else the reason why not.
func fits(key crypto.PublicKey, alg string) error {
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.name == alg })
	if i < 0 {
		return unknownAlgorithm(alg)
	}
	want := algorithms[i]
	switch k := key.(type) {
	case []byte:
		if want.family != familyHMAC {
			return fmt.Errorf("%s needs a public key in PEM form, not a secret", alg)
		}
	case *rsa.PublicKey:
		if want.family != familyRSA {
			return fmt.Errorf("an RSA key cannot verify %s; use one of %s", alg, strings.Join(algorithmNames(familyRSA), ", "))
		}
		if bits := k.N.BitLen(); bits < minRSABits {
			return fmt.Errorf("the RSA key has %d bits, at least %d are needed", bits, minRSABits)
		} else if bits > maxRSABits {
			return fmt.Errorf("the RSA key has %d bits, at most %d are allowed", bits, maxRSABits)
		}
	case *ecdsa.PublicKey:
		if want.family != familyECDSA || k.Curve != want.curve {
			return fmt.Errorf("a key on curve %s cannot verify %s%s", k.Curve.Params().Name, alg, curveHint(k.Curve))
		}
	case ed25519.PublicKey:
		if want.family != familyEd25519 {
			return fmt.Errorf("an Ed25519 key cannot verify %s; use EdDSA", alg)
		}
	default:
		return fmt.Errorf("keys of type %T are not supported", key)
	}
	return nil
}

// curveHint names the algorithm that a curve belongs to.
func curveHint(c elliptic.Curve) string {
	for _, a := range algorithms {
		if a.curve == c {
			return "; use " + a.name
		}
	}
	return ""
}

// static is one fixed key with its one algorithm.
type static struct {
	alg      string
	keys     []crypto.PublicKey
	warnings []string
}

// ParseKey makes the Keys of one role ("publisher", "subscriber": it begins every message) from one key:
// an HMAC secret or a PEM public key; a JSON Web Key is refused. alg is the only algorithm accepted with it, empty = HS256. An HMAC
// secret of fewer than 32 bytes is refused unless allowShort, which then gives a warning. Errors say what
// to do and never contain the key. Source: AUT-07, CLA-13.
func ParseKey(role, key, alg string, allowShort bool) (Keys, error) {
	k, err := parseKey(role, key, alg, allowShort)
	if err != nil {
		return nil, err
	}
	return k, nil
}

func parseKey(role, key, alg string, allowShort bool) (*static, error) {
	if alg == "" {
		alg = DefaultAlgorithm
	}
	fam, ok := familyOf(alg)
	if !ok {
		return nil, fmt.Errorf("%s key: %w", role, unknownAlgorithm(alg))
	}
	if key == "" {
		return nil, fmt.Errorf("%s key: it is empty", role)
	}
	if fam != familyHMAC {
		pub, err := parsePublicPEM(key)
		if err == nil {
			err = fits(pub, alg)
		}
		if err != nil {
			return nil, fmt.Errorf("%s key: %w", role, err)
		}
		return &static{alg: alg, keys: []crypto.PublicKey{pub}}, nil
	}
	if isPEM(key) {
		return nil, fmt.Errorf("%s key: %s would use the PEM text as a shared secret, and everybody who knows the "+
			"public key could sign tokens; set the algorithm that fits the key (%s)",
			role, alg, strings.Join(algorithmNames(familyRSA, familyECDSA, familyEd25519), ", "))
	}
	if isJWK(key) {
		return nil, fmt.Errorf("%s key: %w", role, jwkAsSecret(alg))
	}
	k := &static{alg: alg, keys: []crypto.PublicKey{[]byte(key)}}
	if len(key) < minSecretBytes {
		if !allowShort {
			return nil, fmt.Errorf("%s key: the secret has %d bytes, %s needs at least %d; make one with "+
				"`openssl rand -hex 32`, or allow short keys (--allow-short-keys)", role, len(key), alg, minSecretBytes)
		}
		k.warnings = []string{fmt.Sprintf("the %s key has only %d bytes; a secret shorter than %d bytes can be guessed from one token",
			role, len(key), minSecretBytes)}
	}
	return k, nil
}

// isJWK reports whether s is a JSON Web Key or a set of them.
func isJWK(s string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &members) != nil {
		return false
	}
	_, key := members["kty"]
	_, set := members["keys"]
	return key || set
}

func jwkAsSecret(alg string) error {
	return fmt.Errorf("%s would use the text of a JSON Web Key as a shared secret, and everybody who knows the public key "+
		"could sign tokens; give the secret itself, or the key in PEM form with its algorithm, or use a JWK Set", alg)
}

// Algorithms implements Keys.
func (s *static) Algorithms() []string { return []string{s.alg} }

// Find implements Keys. A key id is ignored: there is only one key (JWT-037).
func (s *static) Find(_ context.Context, alg, _ string) []crypto.PublicKey {
	if alg != s.alg {
		return nil
	}
	return s.keys
}

// Version implements Keys: a fixed key never changes.
func (s *static) Version() uint64 { return 0 }

// Warnings implements Keys.
func (s *static) Warnings() []string { return s.warnings }
