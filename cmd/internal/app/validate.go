package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// jetstreamMaxBody is the largest update that fits into a message of the broker, escaped.
const jetstreamMaxBody = 30 << 20

// Validate returns every reason for which a hub with this configuration refuses to start, joined; keys
// are judged when they are read. Warnings are sentences for the log.
func (c *Config) Validate() (warnings []string, err error) {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }

	c.validateListening(refuse)
	c.validateRoles(refuse, warn)
	c.validateIssuers(refuse, warn)
	c.validateBrowsers(refuse, warn)
	c.validateMany(refuse, warn)
	if c.RejoinGrace > 0 && !c.Subscriptions {
		warn("--rejoin-grace is of no use without --subscriptions: nobody is told who has left")
	}
	if c.WriteTimeout == 0 {
		refuse("--write-timeout: must be above 0, or clients that read nothing would never be cut")
	}
	if c.PublishTimeout == 0 {
		refuse("--publish-timeout: must be above 0")
	}
	if c.ShutdownTimeout == 0 {
		refuse("--shutdown-timeout: must be above 0")
	}
	if c.Transport == "jetstream" && c.MaxBody > jetstreamMaxBody {
		refuse("--max-body: %s, but --transport jetstream stores updates of at most %s", formatBytes(c.MaxBody), formatBytes(jetstreamMaxBody))
	}
	if c.HistoryMaxAge > 0 && c.HistoryMaxAge < time.Second {
		refuse("--history-max-age: must be 0 or at least 1s")
	}
	if c.DataDir == "" && (c.Dev || c.Transport == "jetstream" && len(c.NATSURLs) == 0) {
		refuse("--data-dir: must not be empty")
	}
	if c.HistoryMaxBytes == 0 && c.Transport == "memory" {
		warn("--history-max-bytes 0 with --transport memory: the history grows until memory is full")
	}
	return warnings, errors.Join(errs...)
}

type report func(format string, args ...any)

// validateListening judges the addresses as they are written; App.judge, which sees the sockets, has the warnings.
func (c *Config) validateListening(refuse report) {
	local, err := loopback(c.Listen)
	if err != nil {
		refuse("--listen: %q: %w", c.Listen, err)
	}
	if c.AdminListen != "" {
		adminLocal, err := loopback(c.AdminListen)
		switch {
		case c.AdminListen == kindSystemd:
			refuse("--admin-listen systemd: not a form of its own: name the socket with FileDescriptorName=%s in its unit and leave --admin-listen at its default", adminSocket)
		case err != nil:
			refuse("--admin-listen: %q: %w", c.AdminListen, err)
		case c.Dev && !adminLocal:
			refuse("--dev: --admin-listen %s is not a loopback address; --dev stays on this machine", c.AdminListen)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		refuse("--tls-cert and --tls-key go together, only one is given")
	}
	if err == nil && c.Dev && !local {
		refuse("--dev: --listen %s is not a loopback address; --dev lets everybody who can connect read along, so it stays on this machine", c.Listen)
	}
}

// loopback reports whether only this machine can connect to address. Sockets handed over by another
// process count as such here: they are judged once they are taken.
func loopback(address string) (bool, error) {
	kind, rest, err := splitAddress(address)
	if err != nil || kind != kindTCP {
		return true, err
	}
	host, _, err := net.SplitHostPort(rest)
	if err != nil {
		return false, errors.New("must be host:port, :port, unix:PATH, fd:N or systemd")
	}
	if host == "localhost" {
		return true, nil
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback(), nil
}

func (c *Config) validateRoles(refuse, warn report) {
	missing := func(key Secret, jwks string) bool { return key.IsZero() && jwks == "" }
	noPub, noSub := missing(c.PublisherKey, c.PublisherJWKS), missing(c.SubscriberKey, c.SubscriberJWKS)
	for _, r := range []struct {
		name string
		key  Secret
		jwks string
	}{{"publisher", c.PublisherKey, c.PublisherJWKS}, {"subscriber", c.SubscriberKey, c.SubscriberJWKS}} {
		if !r.key.IsZero() && r.jwks != "" {
			refuse("--%s-jwt-key and --%s-jwks-url are both given: choose one", r.name, r.name)
		}
		if u, err := url.Parse(r.jwks); r.jwks != "" && (err != nil || !slices.Contains([]string{"https", "file"}, u.Scheme)) {
			refuse("--%s-jwks-url: %q: must begin with https:// or file://", r.name, redactURL(r.jwks))
		}
	}
	switch {
	case c.Dev || !c.Classic: // --classic=false has its own word about keys
	case noPub && noSub && len(c.allIssuers()) > 0:
		warn("no publisher and no subscriber key: classic tokens will be refused, only those of the issuers are taken")
	case noPub && noSub:
		refuse("no keys: give --publisher-jwt-key and --subscriber-jwt-key (or their JWK Sets), or --issuer for draft-08 tokens, or try the hub with --dev")
	case len(c.allIssuers()) > 0 && noPub:
		warn("no publisher key: publications with classic tokens will be refused")
	case len(c.allIssuers()) > 0 && noSub:
		warn("no subscriber key: subscribers' classic tokens will be refused")
	case noPub:
		warn("no publisher key: every publication will be refused")
	case noSub && !c.Anonymous:
		warn("no subscriber key and no --anonymous: every subscriber will be refused")
	case noSub:
		warn("no subscriber key: subscribers' tokens will be refused, only anonymous ones are served")
	}
}

func (c *Config) validateBrowsers(refuse, warn report) {
	if slices.Contains(c.CORSOrigins, "*") {
		if len(c.CORSOrigins) > 1 {
			refuse("--cors-origin: * stands for every origin, so no other may be given with it")
		}
		// Browsers never send cookies where the answer allows any origin, so whoever asks for both
		// would find out page by page.
		switch {
		case len(c.PublishOrigins) > 0:
			refuse("--cors-origin * cannot be used with --publish-origin: browsers send no cookies to a hub that allows any origin; list the origins in --cors-origin")
		case c.AccessTokenCookie != "":
			refuse("--cors-origin * cannot be used with --access-token-cookie: browsers send no cookies to a hub that allows any origin; list the origins in --cors-origin")
		case c.CookieName != "":
			refuse("--cors-origin * cannot be used with --cookie-name: browsers send no cookies to a hub that allows any origin; list the origins in --cors-origin")
		}
	}
	// Any page can take the origin null, with a sandboxed frame.
	for _, o := range []string{"*", "null"} {
		if slices.Contains(c.PublishOrigins, o) {
			warn("--publish-origin %s: any page can publish in the name of a user whose browser holds the cookie", o)
		}
	}
	if slices.Contains(c.CORSOrigins, "null") {
		warn("--cors-origin null: any page can read what a user may whose browser holds the cookie")
	}
	for _, name := range []struct{ flag, value string }{{"--cookie-name", c.CookieName}, {"--access-token-cookie", c.AccessTokenCookie}} {
		if strings.ContainsAny(name.value, "=;, \t\r\n\"") {
			refuse("%s: %q is not a name a cookie can have", name.flag, name.value)
		}
	}
}
