package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// Inspect explains a token as a hub with this configuration takes it: by the keys of its roles, or by those of the issuer
// that the token names. JWK Sets are fetched. The error is that of a configuration that serve would refuse, of a set
// that cannot be fetched, or of auth.Inspect.
func Inspect(ctx context.Context, cfg Config, token string, topics []string) (auth.Report, error) {
	if err := Check(cfg); err != nil {
		return auth.Report{}, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if cfg.Dev {
		return auth.Report{}, fmt.Errorf("%w: a hub of --dev makes its keys when it starts: they are in %s in its data directory", ErrUsage, devKeysFile)
	}
	o := auth.InspectOptions{Resource: cfg.resource(), Base: cfg.base(), Topics: topics}
	r, err := auth.Inspect(token, o) //nolint:contextcheck // waits for nothing without keys
	if err != nil {
		return r, err
	}
	if r.Dialect == spec.Draft08.Name {
		return cfg.inspectDraft08(ctx, r, token, o)
	}
	return cfg.inspectClassic(ctx, r, token, o)
}

// notTaken makes r that of a token which no key of the hub is for.
func notTaken(r auth.Report, why string) auth.Report {
	r.Checked, r.Accepted = true, false
	r.Problems = append([]string{why}, r.Problems...)
	return r
}

func (c *Config) inspectDraft08(ctx context.Context, r auth.Report, token string, o auth.InspectOptions) (auth.Report, error) {
	all := c.issuerKeys()
	at := slices.IndexFunc(all, func(i *issuerKeys) bool { return i.URL == r.Issuer })
	if at < 0 {
		return notTaken(r, "its issuer is none of those that the hub knows"), nil
	}
	i := all[at]
	defer i.close()
	if err := i.open(ctx, slog.New(slog.DiscardHandler)); err != nil {
		return r, err
	}
	trusted, err := i.trusted(false)
	if err != nil {
		return r, err
	}
	o.Keys, o.Issuer = trusted.Keys, i.URL
	if r, err = auth.Inspect(token, o); err != nil { //nolint:contextcheck // the set has just been fetched
		return r, err
	}
	if !trusted.Publish {
		denyPublish(&r, "the hub takes no tokens to publish of this issuer")
	}
	if !trusted.Subscribe {
		denySubscribe(&r, "the hub takes no tokens to subscribe of this issuer")
	}
	return r, nil
}

// inspectClassic tries the keys of both roles: a hub takes for an action what the key of its role verifies.
func (c *Config) inspectClassic(ctx context.Context, r auth.Report, token string, o auth.InspectOptions) (auth.Report, error) {
	if !c.Classic {
		return notTaken(r, "the hub takes no classic tokens (--classic=false)"), nil
	}
	publisher, subscriber := c.roles()
	defer publisher.close()
	defer subscriber.close()
	if err := ofBoth(&publisher, &subscriber, func(r *role) error { return r.open(ctx, slog.New(slog.DiscardHandler)) }); err != nil {
		return r, err
	}
	p, s, err := startKeys(&publisher, &subscriber)
	if err != nil {
		return r, err
	}
	var verified [2]bool
	for n, keys := range []auth.Keys{s, p} { // the publisher's report stays if both verify it, or neither
		if keys == nil {
			continue
		}
		o.Keys = keys
		one, err := auth.Inspect(token, o) //nolint:contextcheck // the set has just been fetched
		if err != nil {
			return r, err
		}
		if verified[n] = one.Verified; one.Verified || !r.Verified {
			r = one
		}
	}
	switch {
	case p == nil && s == nil:
		r = notTaken(r, "the hub has no keys for classic tokens")
	case c.ClassicRequireExp && r.Expires == nil:
		r = notTaken(r, "it never expires, which the hub does not take (--classic-require-exp)")
	}
	if r.Verified && !verified[1] {
		denyPublish(&r, "the key that the hub has for publishers does not verify it")
	}
	if r.Verified && !verified[0] {
		denySubscribe(&r, "the key that the hub has for subscribers does not verify it")
	}
	return r, nil
}

func denyPublish(r *auth.Report, why string) {
	for i := range r.Topics {
		r.Topics[i].Publish = auth.Verdict{Reason: why}
	}
}

func denySubscribe(r *auth.Report, why string) {
	for i := range r.Topics {
		r.Topics[i].Subscribe = auth.Verdict{Reason: why}
	}
}
