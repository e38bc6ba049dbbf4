package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/cinnabar-hub/cinnabar/auth"
)

// issuerKeys is one issuer as it runs.
type issuerKeys struct {
	Issuer

	short    bool // HMAC secrets under 32 bytes are taken
	internal bool // the JWK Set may be at an internal address

	texts []string // of its keys as they were read for the start; nil = not yet
	set   followed // of its JWK Set once it was opened
}

// followed are keys that are fetched from where they are published, and fetched again by themselves.
type followed interface {
	auth.Keys
	Reload(ctx context.Context) error
	Close()
}

func (c *Config) issuerKeys() []*issuerKeys {
	var all []*issuerKeys
	for _, i := range c.allIssuers() {
		all = append(all, &issuerKeys{Issuer: i, short: c.AllowShortKeys, internal: c.JWKSAllowPrivate})
	}
	return all
}

// open fetches the issuer's JWK Set, unless its keys are in the configuration, and starts following it until close.
func (i *issuerKeys) open(ctx context.Context, log *slog.Logger) error {
	if len(i.Keys) > 0 {
		return nil
	}
	o := auth.JWKSOptions{Algorithms: i.Algorithms, AllowPrivate: i.internal, Logger: log}
	if o.Algorithms == nil {
		o.Algorithms = auth.IssuerAlgorithms()
	}
	var set followed
	var err error
	if i.discovers() {
		set, err = auth.NewIssuerKeys(ctx, i.URL, o)
	} else {
		set, err = auth.NewJWKS(ctx, i.JWKS, o)
	}
	if err != nil {
		return fmt.Errorf("issuer %s: %w", i.URL, err)
	}
	i.set = set
	return nil
}

// reload fetches the issuer's JWK Set now.
func (i *issuerKeys) reload(ctx context.Context) error {
	if i.set == nil {
		return nil
	}
	if err := i.set.Reload(ctx); err != nil {
		return fmt.Errorf("issuer %s: %w", i.URL, err)
	}
	return nil
}

func (i *issuerKeys) close() {
	if i.set != nil {
		i.set.Close()
	}
}

// read gives the texts of the issuer's keys: as they were read for the start, or, again, what files that can be read
// again hold now. A pipe gives its key only once.
func (i *issuerKeys) read(again bool) ([]string, error) {
	texts := slices.Clone(i.texts)
	if texts == nil {
		texts = make([]string, len(i.Keys))
	}
	for n, k := range i.Keys {
		if i.texts != nil && (!again || !k.Key.rereadable()) {
			continue
		}
		text, err := k.Key.Read()
		if err != nil {
			return nil, fmt.Errorf("issuer %s: %w", i.URL, err)
		}
		texts[n] = text
	}
	if i.texts == nil {
		i.texts = texts
	}
	return texts, nil
}

// trusted gives the issuer as the authorizer knows it; its Keys are nil as long as its set is not open.
func (i *issuerKeys) trusted(again bool) (auth.Issuer, error) {
	t := auth.Issuer{ID: i.URL, Publish: i.serves("publish"), Subscribe: i.serves("subscribe")}
	if len(i.Keys) == 0 {
		if i.set != nil {
			t.Keys = i.set
		}
		return t, nil
	}
	texts, err := i.read(again)
	if err != nil {
		return t, err
	}
	specs := make([]auth.KeySpec, len(i.Keys))
	for n, k := range i.Keys {
		specs[n] = auth.KeySpec{ID: k.ID, Key: texts[n], Algorithm: k.Alg}
	}
	t.Keys, err = auth.ParseKeySet("issuer "+i.URL, specs, nil, i.short)
	return t, err
}

// trustedIssuers gives those issuers whose keys are there, and every fault of the others.
func trustedIssuers(all []*issuerKeys, again bool) ([]auth.Issuer, error) {
	var trusted []auth.Issuer
	var errs []error
	for _, i := range all {
		t, err := i.trusted(again)
		errs = append(errs, err)
		if err == nil && t.Keys != nil {
			trusted = append(trusted, t)
		}
	}
	return trusted, errors.Join(errs...)
}

// ofEach does for all issuers at the same time what may take a while for each, and joins the errors.
func ofEach(all []*issuerKeys, do func(*issuerKeys) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for n, i := range all {
		wg.Go(func() { errs[n] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// authorizationServers are the issuers at which clients may find out where tokens are given. One whose key stands in the
// configuration is the application itself: it publishes no metadata. Source: DIS-05; RFC 9728 §2.
func authorizationServers(all []*issuerKeys) []string {
	var servers []string
	for _, i := range all {
		if len(i.Keys) == 0 {
			servers = append(servers, i.URL)
		}
	}
	return servers
}
