package topic

import (
	"hash/maphash"
	"net/url"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// The components of a URL in the order of its key: what many patterns fix comes first.
const (
	urlScheme = iota
	urlHostname
	urlPort
	urlPath
	urlQuery
	urlFragment
	urlUsername
	urlPassword
	urlComponents

	urlKeyed = urlUsername // these and what follows are not in the key
)

// KeySeparator stands between the components in the key of a URL; no component contains it.
const KeySeparator = "\x00"

// URL is a topic as URL patterns see it: resolved against the hub's URL and in canonical form. It is immutable and
// safe for concurrent use.
type URL struct {
	parts [urlComponents]string
	key   string
}

// Key returns scheme, hostname, port, path, query and fragment, joined by KeySeparator: what the prefix of a
// URLMatcher is compared with. The port is empty if it is the scheme's own; there is no user information.
func (u *URL) Key() string { return u.key }

// URLMatcher is a Matcher that decides on the resolved topic, so that a topic that meets many of them is parsed once.
type URLMatcher interface {
	Matcher
	// Resolve returns topic resolved against the base of this matcher, nil if it cannot be parsed (MAT-11). Matchers
	// with the same base resolve alike.
	Resolve(topic string) *URL
	// MatchURL is Match for what Resolve returned; nil is no match.
	MatchURL(u *URL) bool
	// URLPrefix returns a string with which the key of every URL that is selected begins.
	URLPrefix() string
}

// maxAts bounds the at signs in a topic: the parser's time grows with the square of those in an authority, 18 ms
// for 2 KB of them. A topic with more of them matches no URL pattern (MAT-12).
const maxAts = 8

// maxForeign bounds the characters of a host that are not plain ASCII: the time to encode a name, in Punycode, grows
// with the square of their number, 9 ms for 2 KB of different ones. No name that can be resolved has as many.
const maxForeign = 256

// ForeignHost reports whether ref, a URL or a relative reference, may have a host with so many characters beyond ASCII
// that parsing it would take long. Such a topic matches no URL pattern (MAT-12).
func ForeignHost(ref string) bool {
	if len(ref) <= maxForeign {
		return false
	}
	rest := strings.TrimLeft(ref, " ")
	if i := strings.IndexAny(rest, `:/\?#`); i >= 0 && rest[i] == ':' { // what stands before it may be a scheme
		rest = rest[i+1:]
	}
	rest = strings.TrimLeft(rest, `/\`)
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		rest = rest[:end]
	}
	return foreign(rest) > maxForeign
}

// foreign counts the characters of s that a host has in another form.
func foreign(s string) (n int) {
	for i := range len(s) {
		if c := s[i]; c == '%' || c >= utf8.RuneSelf && utf8.RuneStart(c) {
			n++
		}
	}
	return n
}

// recentTopics is how many resolved topics a resolver keeps: those of the updates that are being handed out.
const recentTopics = 64

// resolver parses topics for one base. Safe for concurrent use.
type resolver struct {
	base     *whatwg.Url // nil = relative topics cannot be parsed
	baseText string
	seed     maphash.Seed
	recent   [recentTopics]atomic.Pointer[resolved] // by the topic's hash (MAT-20)
}

type resolved struct {
	topic string
	url   *URL // nil = cannot be parsed
}

func newResolver(base *url.URL) *resolver {
	r := &resolver{seed: maphash.MakeSeed()}
	if base != nil {
		if u, err := parseURL(base.String(), nil); err == nil {
			_ = u.SearchParams() // made here, or resolving would make them in a URL that many read
			r.base, r.baseText = u, u.Href(false)
		}
	}
	return r
}

// resolve is Resolve of a URLMatcher.
func (r *resolver) resolve(topic string) *URL {
	place := &r.recent[maphash.String(r.seed, topic)%recentTopics]
	if known := place.Load(); known != nil && known.topic == topic {
		return known.url
	}
	u := r.parse(topic)
	place.Store(&resolved{topic: strings.Clone(topic), url: u})
	return u
}

func (r *resolver) parse(topic string) *URL {
	if strings.Count(topic, "@") > maxAts || ForeignHost(topic) {
		return nil
	}
	u, err := parseURL(topic, r.base)
	if err != nil {
		return nil
	}
	return newURL([urlComponents]string{
		urlScheme: u.Scheme(), urlHostname: u.Hostname(), urlPort: u.Port(), urlPath: u.Pathname(),
		urlQuery: u.Query(), urlFragment: u.Fragment(), urlUsername: u.Username(), urlPassword: u.Password(),
	})
}

func newURL(parts [urlComponents]string) *URL {
	return &URL{parts: parts, key: strings.Join(parts[:urlKeyed], KeySeparator)}
}

// parseURL parses ref against base, which may be nil. A panic of the parser is an error (MAT-14).
func parseURL(ref string, base *whatwg.Url) (u *whatwg.Url, err error) {
	defer recoverTo(&err)
	return urlParser.BasicParser(ref, base, nil, whatwg.NoState)
}

// urlParser has no state of its own.
var urlParser = whatwg.NewParser()

// recoverTo turns a panic into ErrInvalid.
func recoverTo(err *error) {
	if recover() != nil {
		*err = ErrInvalid
	}
}
