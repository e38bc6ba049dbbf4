package app

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// value is a pflag.Value over a field of Config. Its parse function gives the error that the user reads,
// so it says what was expected; the caller adds the key, the source and the value.
type value[T any] struct {
	p      *T
	kind   string
	parse  func(string) (T, error)
	format func(T) string
}

func (v value[T]) Set(s string) error {
	x, err := v.parse(s)
	if err != nil {
		return err
	}
	*v.p = x
	return nil
}

func (v value[T]) String() string {
	if v.p == nil { // pflag calls it on a zero value to find out whether a default is worth printing
		return ""
	}
	return v.format(*v.p)
}

func (v value[T]) Type() string { return v.kind }

// list is a repeatable pflag.Value. The first Set replaces the default, later ones append.
type list[T any] struct {
	p      *[]T
	kind   string
	parse  func(string) (T, error)
	format func(T) string
	given  bool
}

func (l *list[T]) Set(s string) error {
	x, err := l.parse(s)
	if err != nil {
		return err
	}
	if !l.given {
		*l.p, l.given = nil, true
	}
	*l.p = append(*l.p, x)
	return nil
}

// Replace implements pflag.SliceValue; it is how the environment and the file set a list as a whole.
func (l *list[T]) Replace(values []string) error {
	var xs []T
	for _, s := range values {
		x, err := l.parse(s)
		if err != nil {
			return fmt.Errorf("%q: %w", s, err)
		}
		xs = append(xs, x)
	}
	*l.p, l.given = xs, true
	return nil
}

// Append implements pflag.SliceValue.
func (l *list[T]) Append(s string) error { return l.Set(s) }

// GetSlice implements pflag.SliceValue.
func (l *list[T]) GetSlice() []string {
	s := make([]string, 0, len(*l.p))
	for _, x := range *l.p {
		s = append(s, l.format(x))
	}
	return s
}

func (l *list[T]) String() string {
	if l.p == nil {
		return ""
	}
	return strings.Join(l.GetSlice(), ",")
}

func (l *list[T]) Type() string { return l.kind }

func parseText(s string) (string, error) { return s, nil }
func formatText(s string) string         { return s }

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, errors.New("must be true or false")
	}
	return b, nil
}

func oneOf(names ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if slices.Contains(names, s) {
			return s, nil
		}
		return "", fmt.Errorf("must be one of %s", strings.Join(names, ", "))
	}
}

// countFrom parses a whole number that is at least least.
func countFrom(least int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least {
			return 0, fmt.Errorf("must be a whole number, at least %d", least)
		}
		return n, nil
	}
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("must be a duration such as 15s, 10m or 168h")
	}
	return d, nil
}

// formatDuration leaves out the units that are zero: 10m, not 10m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// bytesFrom parses a size that is at least least bytes.
func bytesFrom(least int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		n, err := humanize.ParseBytes(s)
		if err != nil || n > math.MaxInt64 {
			return 0, errors.New("must be a size such as 512KiB, 1MiB or 1GiB")
		}
		if int64(n) < least {
			return 0, fmt.Errorf("must be at least %s", formatBytes(least))
		}
		return int64(n), nil
	}
}

// formatBytes writes n exactly, in the largest binary unit that divides it.
func formatBytes(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, errors.New("must be an address or a CIDR such as 10.0.0.0/8")
	}
	return p.Masked(), nil
}

// parseOrigin takes *, null, or scheme://host[:port] and gives it in the form in which browsers send it.
func parseOrigin(s string) (string, error) {
	if s == "*" || s == "null" {
		return s, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || (u.Path != "" && u.Path != "/") ||
		u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must be an origin such as https://app.example.com, without a path")
	}
	host, err := originHost(u)
	if err != nil {
		return "", err
	}
	return strings.ToLower(u.Scheme) + "://" + host, nil
}

// parsePublicOrigin takes an origin that a hub can have.
func parsePublicOrigin(s string) (string, error) {
	o, err := parseOrigin(s)
	if err == nil && !strings.HasPrefix(o, "http://") && !strings.HasPrefix(o, "https://") {
		err = errors.New("must be an origin such as https://hub.example.com")
	}
	return o, err
}

// originHost is the host of u and its port unless that is the scheme's own, as browsers write them.
func originHost(u *url.URL) (string, error) {
	host := strings.ToLower(u.Hostname())
	switch {
	case host == "":
		return "", errors.New("must have a host")
	case strings.Contains(host, "*"):
		return "", errors.New("must be one origin: there are no patterns, list each host")
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("must have its host in ASCII form, as browsers send it (xn--…)")
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		host = "[" + a.String() + "]"
	}
	if u.Port() == "" {
		return host, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return "", errors.New("must have a port of at most 65535")
	}
	if scheme := strings.ToLower(u.Scheme); scheme == "https" && port == 443 || scheme == "http" && port == 80 {
		return host, nil
	}
	return host + ":" + strconv.FormatUint(port, 10), nil
}

// redactURL gives a URL without what may be a credential: user, password, query and fragment. What is no URL
// with a host may hold them anywhere.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || u.Host == "" && strings.ContainsAny(s, "@?#") {
		return redacted
	}
	var b strings.Builder
	if u.Scheme != "" {
		b.WriteString(u.Scheme + ":")
	}
	switch {
	case u.User != nil:
		b.WriteString("//" + redacted + "@" + u.Host)
	case strings.Contains(s, "//"):
		b.WriteString("//" + u.Host)
	}
	b.WriteString(u.EscapedPath())
	if strings.ContainsAny(s, "?#") {
		b.WriteString("?" + redacted)
	}
	return b.String()
}

// parseHubURL takes the whole public URL of the hub; empty is none.
func parseHubURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil ||
		strings.ContainsAny(s, "?#") || len(u.Path) < 2 {
		return nil, errors.New("must be the whole URL of the hub, such as https://example.com/.well-known/mercure")
	}
	return u, nil
}

func formatHubURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.String()
}

func parseHubPath(s string) (string, error) {
	if len(s) < 2 || s[0] != '/' || s[len(s)-1] == '/' || strings.Contains(s, "//") || strings.ContainsAny(s, "?#{}* ") {
		return "", errors.New("must be a path such as /.well-known/mercure, without a slash at its end")
	}
	return s, nil
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// parseName takes what NATS allows as one piece of a subject and as the name of a server.
func parseName(s string) (string, error) {
	if !validName.MatchString(s) {
		return "", errors.New("must be 1 to 64 letters, digits, _ or -")
	}
	return s, nil
}

func parseOptionalName(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return parseName(s)
}

// Sync says when the log is written through to the disk.
type Sync struct {
	Always bool          // before each publication is acknowledged
	Every  time.Duration // otherwise at this interval
}

func parseSync(s string) (Sync, error) {
	if s == "always" {
		return Sync{Always: true}, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return Sync{}, errors.New("must be always, or an interval such as 1s")
	}
	return Sync{Every: d}, nil
}

func formatSync(s Sync) string {
	if s.Always {
		return "always"
	}
	return formatDuration(s.Every)
}
