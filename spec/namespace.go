package spec

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	whatwg "github.com/nlnwa/whatwg-url/url"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Namespace is the part of the topic space that belongs to the hub itself: its path and everything
// below, on whatever scheme and host (PUB-07). It is immutable and safe for concurrent use.
type Namespace struct {
	parser whatwg.Parser
	base   *whatwg.Url
	path   string // of the hub, normalized
	last   string // its last segment, empty when it cannot serve as a cheap test
	scheme string // of the hub, with its colon
}

// NewNamespace makes the namespace of the hub at hubURL, an absolute http or https URL whose path is not
// the root: below the root everything would be reserved.
func NewNamespace(hubURL *url.URL) (*Namespace, error) {
	if hubURL == nil {
		return nil, errors.New("spec: namespace of no URL")
	}
	if s := strings.ToLower(hubURL.Scheme); s != "http" && s != "https" || hubURL.Host == "" {
		return nil, fmt.Errorf("spec: namespace of %q: not an absolute http or https URL", hubURL.Redacted())
	}
	n := &Namespace{parser: whatwg.NewParser()}
	base, err := n.resolve(hubURL.String())
	if err != nil {
		return nil, fmt.Errorf("spec: namespace of %q: %w", hubURL.Redacted(), err)
	}
	_ = base.SearchParams() // made here, or resolving would make them in a URL that many read
	n.base, n.scheme = base, base.Scheme()+":"
	n.path = strings.TrimSuffix(normalizePath(base.Pathname()), "/")
	if n.path == "" {
		return nil, fmt.Errorf("spec: namespace of %q: the path must not be the root", hubURL.Redacted())
	}
	if last := n.path[strings.LastIndexByte(n.path, '/')+1:]; last != "" && strings.Trim(last, unreserved) == "" {
		n.last = last
	}
	return n, nil
}

// Reserved reports whether ref, a topic, addresses the namespace: it is resolved against the hub's URL as a
// browser would, percent-encoded unreserved characters are decoded, and the path is compared. A topic
// that cannot be resolved is not reserved (PUB-09). strict is the rule for at+jwt publishers; without it
// a topic that is only `?…`, only `#…` or a bare word may resolve to the hub path itself (PUB-08, G-11).
func (n *Namespace) Reserved(ref string, strict bool) bool {
	switch {
	case n.cannotBe(ref):
		return false
	case strings.Count(ref[:strings.IndexAny(ref+"?", "?#")], "@") > maxAt, topic.ForeignHost(ref):
		return true // undecided: keep it out
	default:
		return n.reserved(ref, strict)
	}
}

// maxAt bounds the at signs before a query: the parser's work grows with their square, 18 ms for 2 KB of
// them, and nobody names a topic so.
const maxAt = 8

func (n *Namespace) reserved(topic string, strict bool) bool {
	u, err := n.resolve(topic)
	if errors.Is(err, errPanic) {
		return true // undecided: keep it out
	}
	if err != nil || u.OpaquePath() {
		return false
	}
	rest, below := strings.CutPrefix(normalizePath(u.Pathname()), n.path)
	switch {
	case !below || rest != "" && rest[0] != '/':
		return false
	case rest != "" || strict:
		return true
	default:
		return !casual(topic)
	}
}

// casual reports whether topic is one that a person would write without thinking of URLs: `#general`,
// `?x=1`, `mercure`.
func casual(topic string) bool {
	topic = strings.Trim(topic, " ")
	return topic != "" && (topic[0] == '#' || topic[0] == '?' || !strings.ContainsAny(topic, `/\:?#`))
}

// cannotBe is a test that needs no parser: the last segment of the hub path must come from the topic
// itself, because resolution takes one segment less from the base, unless the topic has no path at all.
// It may only answer true when reserved would answer false.
func (n *Namespace) cannotBe(topic string) bool {
	if n.last == "" || topic == "" || topic[0] == '?' || topic[0] == '#' {
		return false
	}
	for i := range len(topic) {
		if c := topic[i]; c <= ' ' || c == 0x7F {
			return false // the parser drops some blanks and controls
		}
	}
	if strings.Contains(normalizePath(topic), n.last) {
		return false
	}
	if len(topic) >= len(n.scheme) && strings.EqualFold(topic[:len(n.scheme)], n.scheme) {
		// `https:?x` and the like take the whole path of the base.
		rest := topic[len(n.scheme):]
		return rest != "" && (rest[0] == '/' || rest[0] == '\\')
	}
	return true
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

// normalizePath decodes the triplets of unreserved characters and writes the others in capitals.
func normalizePath(path string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]) {
			b = append(b, path[i])
			continue
		}
		if c := unhex(path[i+1])<<4 | unhex(path[i+2]); strings.IndexByte(unreserved, c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, strings.ToUpper(path[i:i+3])...)
		}
		i += 2
	}
	return string(b)
}

var errPanic = errors.New("spec: the URL parser failed")

// resolve parses ref against the base. A panic of the parser is errPanic.
func (n *Namespace) resolve(ref string) (u *whatwg.Url, err error) {
	defer func() {
		if p := recover(); p != nil {
			u, err = nil, fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return n.parser.BasicParser(ref, n.base, nil, whatwg.NoState)
}
