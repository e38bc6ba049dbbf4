package auth

import (
	"crypto/sha256"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// defaultCacheEntries bounds the verified tokens remembered. An entry is usually about a kilobyte, so all are a few
// MiB. The worst that fits into a token of 16 KiB, selectors of nothing but variables, compiles into 1 MiB; such
// tokens can only be made with a trusted key, and equal selectors are shared (rules.patterns).
const defaultCacheEntries = 4096

// validator verifies the tokens of one set of keys: a role's classic ones or an issuer's (G-02).
type validator struct {
	keys   Keys
	parser *jwt.Parser
	issuer *Issuer // nil = classic
}

// cacheKey is SHA-256 over the action and the token, so that the cache holds no token. The token names its type and
// its issuer, so that one entry has one validator.
type cacheKey [sha256.Size]byte

// cached is one verified token.
type cached struct {
	grant     *Grant
	notBefore time.Time  // zero = always; a clock may be set back
	by        *validator // that verified it
	version   uint64     // of its keys then
}

// keyring is everything that is trusted, with the tokens that were verified by it. It is replaced as a whole,
// so that a check which began with old keys can only fill the old cache.
type keyring struct {
	publisher, subscriber *validator            // classic; nil = not configured
	issuers               map[string]*validator // draft-08, by iss
	cache                 *lru.Cache[cacheKey, cached]
}

func newKeyring(publisher, subscriber Keys, issuers []Issuer, entries int) *keyring {
	cache, _ := lru.New[cacheKey, cached](entries) // fails for a size below one only
	ring := &keyring{cache: cache, issuers: make(map[string]*validator, len(issuers))}
	if publisher != nil {
		ring.publisher = newValidator(publisher, nil)
	}
	if subscriber != nil {
		ring.subscriber = newValidator(subscriber, nil)
	}
	for i := range issuers {
		ring.issuers[issuers[i].ID] = newValidator(issuers[i].Keys, &issuers[i])
	}
	return ring
}

func newValidator(keys Keys, issuer *Issuer) *validator {
	return &validator{keys: keys, parser: newParser(keys.Algorithms()), issuer: issuer}
}

// trusts reports whether any token at all may allow act.
func (k *keyring) trusts(act spec.Action) bool {
	if k.role(act) != nil {
		return true
	}
	for _, v := range k.issuers {
		if v.issuer.may(act) {
			return true
		}
	}
	return false
}

// role returns the classic keys that decide about act, nil if there are none.
func (k *keyring) role(act spec.Action) *validator {
	switch act {
	case spec.ActionPublish:
		return k.publisher
	case spec.ActionSubscribe:
		return k.subscriber
	default:
		return nil
	}
}

// keyOf returns the place of token in the cache.
func keyOf(act spec.Action, token string) cacheKey {
	buf := make([]byte, 0, 1024) // stays on the stack unless the token is longer
	return sha256.Sum256(append(append(buf, byte(act)), token...))
}

// get returns the grant of a token that was verified with the present keys and is valid now.
func (k *keyring) get(key cacheKey, now time.Time) (*Grant, bool) {
	c, ok := k.cache.Get(key)
	if !ok {
		return nil, false
	}
	if c.version != c.by.keys.Version() || expired(c.grant.Expires, now) {
		k.cache.Remove(key)
		return nil, false
	}
	if now.Before(c.notBefore) {
		return nil, false
	}
	return c.grant, true
}

// expired reports whether now is at or after exp; a zero exp is never.
func expired(exp, now time.Time) bool { return !exp.IsZero() && !now.Before(exp) }
