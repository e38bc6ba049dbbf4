// Package load puts load on any Mercure hub and tells what it saw: a swarm of subscribers, a few publishers, and
// histograms of what they waited for. It is what `cinnabar bench` runs.
//
// A hub is a black box behind its URL. Everything goes over HTTP/1.1, one connection a subscription and one a
// publisher; a proxy of the environment is not used. Subscribers and publishers share one process and one clock,
// so that a delivery can be timed from the moment its publication begins to be written.
//
// Every update carries a mark (see mark) that says which publisher sent it, to which of the topics, and as which
// of that publisher's updates to it. That is how each subscriber notices what is lost, repeated, out of order or
// not meant for it, in memory that does not grow with the number of updates.
package load

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// OptionError says which option makes no sense, and why. Nothing has been sent.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

func badOption(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }

// Target is the hub under load.
type Target struct {
	URL            string // of the hub
	PublishURL     string // of the node that is published to; empty = URL
	PublishToken   string // empty = none is sent
	SubscribeToken string // empty = none is sent
	Draft08        bool   // subscribe with match and match_urlpattern instead of topic
	TLS            *tls.Config
	// Sources are the local addresses to connect from, in turn. Empty = the system's choice, but several of
	// 127.0.0.0/8 when the hub is on the loopback and the ports of one would not do.
	Sources []netip.Addr
	Connect int          // subscriptions being opened at a time; 0 = 128
	Meter   Meter        // of the hub's process or processes
	Notify  func(string) // told what begins, for the impatient; nil = nobody
	// Patience is how long missing updates are waited for while none arrives; 0 = 5 seconds.
	Patience time.Duration
}

const (
	maxSubscribers = 1_000_000
	maxPublishers  = 1_000
	maxTopics      = 1_000_000
	maxRate        = 10_000_000
	maxSequences   = 20_000_000 // publishers × (topics + subscribers), 8 to 56 bytes each
	minSize        = 64
	maxSize        = 1 << 20
	defaultConnect = 128
	// answerPatience bounds the wait for one connection, one head, one acknowledgement.
	answerPatience  = 30 * time.Second
	defaultPatience = 5 * time.Second
	// settlePause lies between opening and publishing: a hub may answer a subscription before it is in effect.
	settlePause = 250 * time.Millisecond
)

// Publishing says how updates are sent.
type Publishing struct {
	Publishers int           // connections; each waits for an answer before it sends again
	Rate       float64       // updates a second of all together; 0 = as fast as answers, and Window, allow
	Window     int           // with Rate 0: updates that may be on their way to subscribers; 0 = no limit
	Size       int           // bytes of data in an update
	Private    bool          // updates are private
	Warmup     time.Duration // published before anything is measured
	Duration   time.Duration // measured
}

func (p *Publishing) check() error {
	switch {
	case p.Publishers < 1 || p.Publishers > maxPublishers:
		return badOption("--publishers %d: 1 to %d", p.Publishers, maxPublishers)
	case !(p.Rate >= 0 && p.Rate <= maxRate): // which NaN is not either
		return badOption("--rate %v: 0 (flat out) to %d updates a second", p.Rate, maxRate)
	case p.Window < 0:
		return badOption("--window %d: 0 (no limit) or more", p.Window)
	case p.Size < minSize || p.Size > maxSize:
		return badOption("--size %d: %d to %d bytes; an update carries its sender, number and time", p.Size, minSize, maxSize)
	case p.Warmup < 0:
		return badOption("--warmup %v: 0 or more", p.Warmup)
	case p.Duration <= 0:
		return badOption("--duration %v: more than 0", p.Duration)
	}
	return nil
}

func checkSubscribers(n int) error {
	if n < 1 || n > maxSubscribers {
		return badOption("--subscribers %d: 1 to %d", n, maxSubscribers)
	}
	return nil
}

// endpoint is a URL taken apart for the wire.
type endpoint struct {
	url     *url.URL
	host    string // for the Host field
	address string // host:port
	tls     *tls.Config
}

func newEndpoint(raw string, config *tls.Config) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return endpoint{}, badOption("the hub's URL must be like http://127.0.0.1:3000/.well-known/mercure")
	}
	port := u.Port()
	e := endpoint{url: u, host: u.Host}
	if u.Scheme == "https" {
		if port == "" {
			port = "443"
		}
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		e.tls = config.Clone()
		e.tls.NextProtos = []string{"http/1.1"}
		if e.tls.ServerName == "" {
			e.tls.ServerName = u.Hostname()
		}
	} else if port == "" {
		port = "80"
	}
	e.address = u.Hostname() + ":" + port
	if strings.Contains(u.Hostname(), ":") {
		e.address = "[" + u.Hostname() + "]:" + port
	}
	return e, nil
}

// run is one measurement: what all its parts share.
type run struct {
	target    Target
	subscribe endpoint
	publish   endpoint
	tally     *tally
	topics    []string // what is published to; see places for templates
	result    *Result
}

func newRun(mode string, t Target) (*run, error) {
	if t.PublishURL == "" {
		t.PublishURL = t.URL
	}
	if t.Connect == 0 {
		t.Connect = defaultConnect
	}
	if t.Patience == 0 {
		t.Patience = defaultPatience
	}
	if t.Patience < 0 {
		return nil, badOption("--patience %v: more than 0", t.Patience)
	}
	if t.Connect < 1 || t.Connect > 10_000 {
		return nil, badOption("--connect %d: 1 to 10000 subscriptions at a time", t.Connect)
	}
	for what, token := range map[string]string{"subscriber": t.SubscribeToken, "publisher": t.PublishToken} {
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, badOption("the %s's token has characters that no token has", what)
		}
	}
	if err := t.Meter.check(); err != nil {
		return nil, err
	}
	r := &run{target: t, tally: newTally(rand.Uint32()|1<<31, time.Now())} //nolint:gosec // tells runs apart, no secret
	var err error
	if r.subscribe, err = newEndpoint(t.URL, t.TLS); err != nil {
		return nil, err
	}
	if r.publish, err = newEndpoint(t.PublishURL, t.TLS); err != nil {
		return nil, err
	}
	r.result = &Result{Schema: Schema, Mode: mode, Hub: bare(r.subscribe.url), Start: time.Now().UTC()}
	if r.publish.url.String() != r.subscribe.url.String() {
		r.result.PublishHub = bare(r.publish.url)
	}
	return r, nil
}

// bare is u without what may be secret.
func bare(u *url.URL) string {
	c := *u
	c.User, c.RawQuery, c.Fragment = nil, "", ""
	return c.String()
}

func (r *run) notify(format string, args ...any) {
	if r.target.Notify != nil {
		r.target.Notify(fmt.Sprintf(format, args...))
	}
}

// named is topic n below base, which no other run has.
func (r *run) named(base string, n int) string {
	return base + strconv.FormatUint(uint64(r.tally.run), 36) + "/" + strconv.Itoa(n)
}
