package auth

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// JWKSOptions configures NewJWKS; the zero value is usable.
type JWKSOptions struct {
	Algorithms   []string       // nil = every asymmetric one; HMAC only when listed
	Refresh      time.Duration  // between fetches, jittered by a tenth; 0 = 10 minutes
	MinRefresh   time.Duration  // least time between fetches caused by an unknown kid, 0 = 30 seconds
	Timeout      time.Duration  // of one fetch, 0 = 10 seconds
	MaxBytes     int64          // of the document, 0 = 256 KiB
	AllowPrivate bool           // allow loopback, private and other internal addresses (SEC-08)
	RootCAs      *x509.CertPool // nil = the system's
	Logger       *slog.Logger   // nil = discard
}

// JWKS is a JWK Set that is fetched anew from time to time, when a token names a key that is not in it, and on
// Reload. When a fetch fails the keys before stay trusted; a set that was fetched replaces them all. It never
// fetches because of a URL in a token or in a key. It implements Keys. Safe for concurrent use.
// Source: RFC 7517; SEC-08, SEC-09.
type JWKS struct {
	// static after construction
	where      string // for logs and errors, without what may be a credential
	algorithms []string
	warnings   []string
	load       func(context.Context) ([]byte, error)
	timeout    time.Duration
	refresh    time.Duration
	minRefresh time.Duration
	log        *slog.Logger
	turn       chan struct{} // holds a token while nobody fetches
	kick       chan struct{} // wakes the refresher for an unknown kid
	cancel     context.CancelFunc
	done       sync.WaitGroup

	// guarded by mu
	mu       sync.RWMutex
	keys     []jwk
	skipped  []string          // keys that are not used, each with the reason
	digest   [sha256.Size]byte // of the document behind keys
	version  uint64
	fetched  time.Time     // when the last fetch began
	awaiting chan struct{} // closed after the fetch that an unknown kid asked for; nil if none is pending
	closed   bool          // the refresher has ended
}

// NewJWKS fetches the set at rawURL, https:// or file://, and keeps it fresh in a goroutine that ends with ctx or
// Close, whichever comes first. It returns an error if the first fetch fails or yields no usable key: a hub
// that can verify nothing should not start. An https URL is fetched without a proxy, its redirects are
// followed on the same host only, and addresses inside the network are refused unless o.AllowPrivate.
func NewJWKS(ctx context.Context, rawURL string, o JWKSOptions) (*JWKS, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("auth: the key set's URL cannot be parsed")
	}
	load, err := loader(u, o)
	if err != nil {
		return nil, fmt.Errorf("auth: key set %s: %w", whereabouts(u), err)
	}
	return follow(ctx, whereabouts(u), load, o)
}

// follow makes a JWKS of what load reads.
func follow(ctx context.Context, where string, load func(context.Context) ([]byte, error), o JWKSOptions) (j *JWKS, err error) {
	j = newSet(o, where, load)
	if j.algorithms, j.warnings, err = setAlgorithms(o.Algorithms); err != nil {
		return nil, fmt.Errorf("auth: key set %s: %w", j.where, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	if err := j.start(ctx, cancel); err != nil {
		cancel()
		return nil, err
	}
	return j, nil
}

func newSet(o JWKSOptions, where string, load func(context.Context) ([]byte, error)) *JWKS {
	j := &JWKS{
		where: where, load: load, log: o.Logger, algorithms: algorithmNames(familyRSA, familyECDSA, familyEd25519),
		timeout: orElse(o.Timeout, 10*time.Second), refresh: orElse(o.Refresh, 10*time.Minute),
		minRefresh: orElse(o.MinRefresh, 30*time.Second), turn: make(chan struct{}, 1), kick: make(chan struct{}, 1),
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	j.turn <- struct{}{}
	return j
}

// start fetches the set for the first time and begins to follow it; cancel ends ctx.
func (j *JWKS) start(ctx context.Context, cancel context.CancelFunc) error {
	j.cancel = cancel
	if err := j.Reload(ctx); err != nil {
		return err
	}
	if len(j.keys) == 0 {
		return fmt.Errorf("auth: key set %s: it has no key usable with %s (skipped: %s)",
			j.where, strings.Join(j.algorithms, ", "), strings.Join(append(j.skipped, "no other"), "; "))
	}
	j.done.Go(func() { j.follow(ctx) })
	return nil
}

// setAlgorithms checks the allow-list.
func setAlgorithms(list []string) (algs, warnings []string, err error) {
	if len(list) == 0 {
		return algorithmNames(familyRSA, familyECDSA, familyEd25519), nil, nil
	}
	for _, alg := range list {
		fam, ok := familyOf(alg)
		if !ok {
			return nil, nil, unknownAlgorithm(alg)
		}
		if fam == familyHMAC {
			warnings = append(warnings, "a key set with "+alg+" holds secrets: whoever can read it can sign tokens")
		}
	}
	return slices.Clone(list), warnings, nil
}

// Close ends the refresher and waits for it. The keys stay usable. It may be called more than once.
func (j *JWKS) Close() {
	j.cancel()
	j.done.Wait()
}

// Algorithms implements Keys.
func (j *JWKS) Algorithms() []string { return j.algorithms }

// Warnings implements Keys.
func (j *JWKS) Warnings() []string { return j.warnings }

// Version implements Keys.
func (j *JWKS) Version() uint64 {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.version
}

// Find implements Keys. A kid that is not in the set makes the refresher look for it, at most once in
// JWKSOptions.MinRefresh however many tokens name it; all of them wait for the same fetch.
func (j *JWKS) Find(ctx context.Context, alg, kid string) []crypto.PublicKey {
	found := j.find(alg, kid)
	if found != nil || kid == "" {
		return found
	}
	fetched := j.ask()
	if fetched == nil {
		return nil
	}
	select {
	case <-fetched:
		return j.find(alg, kid)
	case <-ctx.Done():
		return nil
	}
}

// find looks in the present set. A token with a kid fits the keys of that name, or those without a name.
func (j *JWKS) find(alg, kid string) []crypto.PublicKey {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return chosen(j.keys, alg, kid)
}

// ask returns a channel that is closed after a fetch, or nil if it is too early for one.
func (j *JWKS) ask() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.awaiting != nil {
		return j.awaiting
	}
	if j.closed || time.Since(j.fetched) < j.minRefresh {
		return nil
	}
	j.awaiting = make(chan struct{})
	select {
	case j.kick <- struct{}{}:
	default: // the refresher has been woken already
	}
	return j.awaiting
}

// follow is the refresher.
func (j *JWKS) follow(ctx context.Context) {
	defer j.release(true)
	timer := time.NewTimer(jittered(j.refresh))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-j.kick:
		}
		if err := j.Reload(ctx); err != nil && ctx.Err() == nil {
			j.log.WarnContext(ctx, "key set not refreshed, the keys before stay in use", "url", j.where, "error", err)
		}
		j.release(false)
		timer.Reset(jittered(j.refresh))
	}
}

// release lets those go on who wait for a fetch; last is for the refresher's end.
func (j *JWKS) release(last bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = j.closed || last
	select {
	case <-j.kick: // asked for while a fetch was under way that was due anyhow
	default:
	}
	if j.awaiting != nil {
		close(j.awaiting)
		j.awaiting = nil
	}
}

// Reload fetches the set now and puts it in the place of the one before. On error the keys before stay.
func (j *JWKS) Reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	select {
	case <-j.turn:
		defer func() { j.turn <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("auth: key set %s: %w", j.where, context.Cause(ctx))
	}
	j.mu.Lock()
	j.fetched = time.Now()
	j.mu.Unlock()
	body, err := j.load(ctx)
	if err != nil {
		return fmt.Errorf("auth: key set %s: %w", j.where, err)
	}
	keys, skipped, err := parseSet(body, j.algorithms)
	if err != nil {
		return fmt.Errorf("auth: key set %s: %w", j.where, err)
	}
	j.replace(ctx, sha256.Sum256(body), keys, skipped)
	return nil
}

// replace puts keys in force unless the document is the one they came from.
func (j *JWKS) replace(ctx context.Context, digest [sha256.Size]byte, keys []jwk, skipped []string) {
	j.mu.Lock()
	changed := digest != j.digest || j.version == 0
	if changed {
		j.keys, j.skipped, j.digest = keys, skipped, digest
		j.version++
	}
	j.mu.Unlock()
	if changed {
		j.log.InfoContext(ctx, "key set in force", "url", j.where, "keys", len(keys), "skipped", skipped)
	}
}

// jittered spreads the fetches of many hubs by a tenth.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1)) //nolint:gosec // jitter, not a secret
}

// orElse is d unless it is zero.
func orElse(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}
