package jetstream

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	whatwg "github.com/nlnwa/whatwg-url/url"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// How topics become subjects. A subject is a hint for filters that cover: whether a selector selects
// a topic is decided elsewhere, on the topic itself.
//
//	<prefix>.u.t.<scheme>.<host>.<segment 1> … <segment 8>.<hash>   one topic in canonical form
//	<prefix>.u.t.-.<hash>                                          one topic in any other form
//	<prefix>.u.m.<scheme>.<host>                                   several topics of one origin
//	<prefix>.u.m.-.-                                               several topics of several origins
//	<prefix>.u.s                                                   topics that begin with the hub's own path, without an origin
//
// The hash is of the raw topic and always there, so that a subject belongs to one topic. It also keeps what
// is not in the path: query and fragment. All is bounded, about 320 bytes: a subject longer than the
// server's control line would close the connection for good.
const (
	maxSegments = 8
	maxToken    = 24
	emptyToken  = "-"
	maxAts      = 8 // the parser's time grows with the square of the number of @ in an authority
)

// subjects makes subjects, and remembers those of single topics: topics come back, and parsing a URL costs as
// much as all else that is done for an update before it is sent. Safe for concurrent use.
type subjects struct {
	updates string // <prefix>.u.
	ids     string // <prefix>.ids.
	known   *lru.Cache[string, string]

	hub    *url.URL // nil = unknown
	below  string   // a topic that begins with it is the hub's own; empty = none is
	ownKey string   // the beginning of the keys of these topics' URLs; empty = unknown
}

const knownSubjects = 4096

// newSubjects takes the hub's URL, nil if it is unknown, and the path below which it publishes, empty for the URL's. Every
// node must write a topic to the same subject, and nodes may differ in the URL by which they are known, if only while
// it is being changed. So the URL has no part in subjects.
func newSubjects(prefix string, hub *url.URL, path string) subjects {
	known, err := lru.New[string, string](knownSubjects)
	if err != nil {
		panic(err) // only a size below one is refused
	}
	s := subjects{updates: prefix + ".u.", ids: prefix + ".ids.", known: known, hub: hub}
	if path == "" && hub != nil {
		path = hub.EscapedPath()
	}
	if path == "" {
		return s
	}
	s.below = strings.TrimSuffix(path, "/") + "/"
	if hub != nil {
		if u, err := whatwg.ParseRef(hub.String(), s.below); err == nil {
			s.ownKey = strings.Join([]string{u.Scheme(), u.Hostname(), u.Port(), u.Pathname()}, topic.KeySeparator)
		}
	}
	return s
}

// of returns the subject of an update with these topics.
func (s subjects) of(topics []string) string {
	if len(topics) == 1 {
		if subject, ok := s.known.Get(topics[0]); ok {
			return subject
		}
		subject := s.single(topics[0])
		s.known.Add(topics[0], subject)
		return subject
	}
	origin := ""
	for i, t := range topics {
		u, regular := canonical(t)
		if !regular {
			return s.updates + "m.-.-"
		}
		o := originTokens(u)
		if i > 0 && o != origin {
			return s.updates + "m.-.-"
		}
		origin = o
	}
	return s.updates + "m." + origin
}

func (s subjects) single(topic string) string {
	if s.own(topic) {
		return s.updates + ownOnes
	}
	u, regular := canonical(topic)
	return s.singleOf(topic, u, regular)
}

// singleOf is single for a topic that was parsed and is not the hub's own.
func (s subjects) singleOf(topic string, u *whatwg.Url, regular bool) string {
	if !regular {
		return s.updates + "t.-." + hash(topic)
	}
	var b strings.Builder
	b.WriteString(s.updates)
	b.WriteString("t.")
	b.WriteString(originTokens(u))
	if !u.OpaquePath() {
		for i, segment := range strings.Split(strings.TrimPrefix(u.Pathname(), "/"), "/") {
			if i == maxSegments {
				break
			}
			b.WriteByte('.')
			b.WriteString(token(segment))
		}
	}
	b.WriteByte('.')
	b.WriteString(hash(topic))
	return b.String()
}

// own reports whether topic lies below the hub's own path, where only the hub publishes, in the form in which
// it does. A topic that only resolves to that place, or that resolves to another one because it climbs out again, is
// somebody else's, and stands among all others.
func (s subjects) own(topic string) bool {
	rest, below := strings.CutPrefix(topic, s.below)
	return s.below != "" && below && !climbs(rest)
}

// climbs reports whether a part of path goes up. The parser drops blanks and takes backslashes for slashes, and
// two dots may be encoded.
func climbs(path string) bool {
	if strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' }) {
		return true // undecided
	}
	path = path[:strings.IndexAny(path+"?", "?#")]
	if !strings.Contains(path, ".") && !strings.Contains(path, "%2") {
		return false
	}
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") == ".." {
			return true
		}
	}
	return false
}

// id returns the subject of a publisher's event id in the id index.
func (s subjects) id(eventID string) string { return s.ids + hash(eventID) }

// canonical parses topic and reports whether the parser would write it as it stands. Templates match the
// raw string and URL patterns the canonical one: a topic for which these differ has no tokens.
func canonical(t string) (*whatwg.Url, bool) {
	if strings.Count(t, "@") > maxAts || topic.ForeignHost(t) { // it takes long
		return nil, false
	}
	u, err := whatwg.Parse(t)
	if err != nil || u.Href(false) != t {
		return nil, false
	}
	return u, true
}

// originTokens returns scheme and host, with the port unless it is the scheme's.
func originTokens(u *whatwg.Url) string { return token(u.Scheme()) + "." + token(u.Host()) }

// token writes s with A–Z a–z 0–9 _ and -, and every other byte as =XX. Longer than maxToken, it is hashed.
func token(s string) string {
	if s == "" {
		return emptyToken
	}
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, maxToken+3)
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
			b = append(b, c)
		default:
			b = append(b, '=', hex[c>>4], hex[c&15])
		}
		if len(b) > maxToken {
			return "~" + hash(s)
		}
	}
	return string(b)
}

// hash is 96 bits in 16 characters.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}
