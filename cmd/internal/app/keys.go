package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"sync"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/hub"
	"github.com/cinnabar-hub/cinnabar/hub/metrics"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// role is one of the two sets of keys as it was configured.
type role struct {
	name  string // publisher, subscriber
	key   Secret
	alg   string
	jwks  string
	short bool

	internal bool // jwks may be at an internal address

	text string     // of key as it was read for the start; empty = not yet
	set  *auth.JWKS // of jwks once it was opened; it follows its URL by itself
}

func (c *Config) roles() (publisher, subscriber role) {
	return role{name: "publisher", key: c.PublisherKey, alg: c.PublisherAlg, jwks: c.PublisherJWKS, short: c.AllowShortKeys, internal: c.JWKSAllowPrivate},
		role{name: "subscriber", key: c.SubscriberKey, alg: c.SubscriberAlg, jwks: c.SubscriberJWKS, short: c.AllowShortKeys, internal: c.JWKSAllowPrivate}
}

// open fetches the role's JWK Set, if it has one, and starts following it until close.
func (r *role) open(ctx context.Context, log *slog.Logger) error {
	if r.jwks == "" {
		return nil
	}
	o := auth.JWKSOptions{AllowPrivate: r.internal, Logger: log}
	if r.alg != auth.DefaultAlgorithm { // a set names the algorithms of its keys; the default is for secrets
		o.Algorithms = []string{r.alg}
	}
	set, err := auth.NewJWKS(ctx, r.jwks, o)
	if err != nil {
		return fmt.Errorf("--%s-jwks-url: %w", r.name, err)
	}
	r.set = set
	return nil
}

// reload fetches the role's JWK Set now.
func (r *role) reload(ctx context.Context) error {
	if r.set == nil {
		return nil
	}
	if err := r.set.Reload(ctx); err != nil {
		return fmt.Errorf("--%s-jwks-url: %w", r.name, err)
	}
	return nil
}

func (r *role) close() {
	if r.set != nil {
		r.set.Close()
	}
}

// remember reads the secret for the whole start, of which New and Start are parts: a pipe gives it only once.
func (r *role) remember() error {
	if r.key.IsZero() || r.text != "" {
		return nil
	}
	text, err := r.key.Read()
	if err != nil {
		return fmt.Errorf("--%s-jwt-key: %w", r.name, err)
	}
	r.text = text
	return nil
}

// secret returns what was remembered, or, again, what a file that can be read again holds now.
func (r *role) secret(again bool) (string, error) {
	if !again || !r.key.rereadable() {
		return r.text, nil
	}
	return r.key.Read()
}

// keys gives the role's keys, read again or as remembered; nil when it has none, and is refused.
func (r *role) keys(again bool) (auth.Keys, error) {
	if r.set != nil {
		return r.set, nil
	}
	if r.key.IsZero() {
		return nil, nil
	}
	secret, err := r.secret(again)
	if err != nil {
		return nil, fmt.Errorf("--%s-jwt-key: %w", r.name, err)
	}
	k, err := auth.ParseKey(r.name, secret, r.alg, r.short)
	if err != nil {
		return nil, fmt.Errorf("--%s-jwt-key: %w", r.name, err)
	}
	return k, nil
}

// ofBoth does for both roles at the same time what may take a while for each, and joins the errors.
func ofBoth(publisher, subscriber *role, do func(*role) error) error {
	var other error
	var wg sync.WaitGroup
	wg.Go(func() { other = do(subscriber) })
	err := do(publisher)
	wg.Wait()
	return errors.Join(err, other)
}

// startKeys makes the keys of both roles of their secrets, which it reads once, so that every fault is told.
func startKeys(publisher, subscriber *role) (p, s auth.Keys, err error) {
	errP := publisher.remember()
	if errP == nil && subscriber.key == publisher.key {
		subscriber.text = publisher.text // the same file, or the same text
	}
	errS := subscriber.remember()
	if errP == nil {
		p, errP = publisher.keys(false)
	}
	if errS == nil {
		s, errS = subscriber.keys(false)
	}
	return p, s, errors.Join(errP, errS)
}

// newKeys makes the keys of both roles of what their files hold now.
func newKeys(publisher, subscriber *role) (p, s auth.Keys, err error) {
	p, errP := publisher.keys(true)
	s, errS := subscriber.keys(true)
	return p, s, errors.Join(errP, errS)
}

// authOptions is the configuration of the authorizer but for its keys.
func (c *Config) authOptions() auth.Options {
	query := map[string]auth.QueryToken{
		"off": auth.QueryTokenOff, "subscribe": auth.QueryTokenSubscribe, "all": auth.QueryTokenAll,
	}
	return auth.Options{
		Anonymous: c.Anonymous, PublishOrigins: c.PublishOrigins, PublicURL: c.PublicURL, CookieName: c.CookieName,
		QueryToken: query[c.ClassicQueryToken], RequireExp: c.ClassicRequireExp, Limits: c.Limits(),
		NoClassic: !c.Classic, Draft08Cookie: c.AccessTokenCookie, Base: c.base(),
	}
}

// base is the URL of the hub, by which it reads what is relative (MAT-09).
func (c *Config) base() *url.URL {
	if c.PublicURL != nil {
		return c.PublicURL
	}
	return &url.URL{Scheme: "http", Host: "localhost", Path: c.HubPath}
}

// hubOptions is the configuration of the hub.
func (c *Config) hubOptions(log transport.Transport, a auth.Authorizer, logger *slog.Logger, m *metrics.Metrics) hub.Options {
	return hub.Options{
		Transport: log, Authorizer: a, Logger: logger, Metrics: m,

		Path: c.HubPath, PublicURL: c.PublicURL, CORSOrigins: c.CORSOrigins, LocalhostCORS: c.Dev,
		TrustedProxies: c.TrustedProxies, PublicOrigins: c.PublicOrigins,

		NoClassic: !c.Classic, DefaultGeneration: c.DefaultGeneration, BothEvents: c.SubscriptionEvents == "both",

		Limits: c.Limits(), MaxConnections: c.MaxConnections, MaxConnectionsPerIP: c.MaxConnectionsPerIP,
		MaxConnectionsPerSubject: c.MaxConnectionsPerSubject, SoftRefusal: c.SoftRefusal,
		ReplayOnUnknownCursor: c.ReplayOnUnknownCursor == "all", LegacyCursorParams: c.LegacyCursorParams,

		Heartbeat: c.Heartbeat, Retry: c.Retry, MaxLifetime: c.MaxConnectionLifetime, WriteTimeout: c.WriteTimeout,
		SubscriberBuffer: int(min(c.SubscriberBuffer, math.MaxInt)),
	}
}
