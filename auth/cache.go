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

// role is one role's trusted keys.
type role struct {
	act    spec.Action
	keys   Keys
	parser *jwt.Parser
}

// cacheKey is SHA-256 over the role and the token, so that the cache holds no token.
type cacheKey [sha256.Size]byte

// cached is one verified token.
type cached struct {
	grant     *Grant
	notBefore time.Time // zero = always; a clock may be set back
	version   uint64    // of the keys it was verified with
}

// keyring is the keys of both roles with the tokens that were verified by them. It is replaced as a whole,
// so that a check which began with old keys can only fill the old cache.
type keyring struct {
	publisher, subscriber *role // nil = not configured
	cache                 *lru.Cache[cacheKey, cached]
}

func newKeyring(publisher, subscriber Keys, entries int) *keyring {
	cache, _ := lru.New[cacheKey, cached](entries) // fails for a size below one only
	ring := &keyring{cache: cache}
	if publisher != nil {
		ring.publisher = newRole(spec.ActionPublish, publisher)
	}
	if subscriber != nil {
		ring.subscriber = newRole(spec.ActionSubscribe, subscriber)
	}
	return ring
}

func newRole(act spec.Action, keys Keys) *role {
	return &role{act: act, keys: keys, parser: newParser(keys.Algorithms())}
}

// role returns the keys that decide about act, nil if there are none.
func (k *keyring) role(act spec.Action) *role {
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
func (k *keyring) get(key cacheKey, version uint64, now time.Time) (*Grant, bool) {
	c, ok := k.cache.Get(key)
	if !ok {
		return nil, false
	}
	if c.version != version || expired(c.grant.Expires, now) {
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
