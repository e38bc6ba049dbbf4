package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// defaultSetBytes bounds a key set's document.
const defaultSetBytes = 256 << 10

// maxRedirects is how many a fetch follows, all on the host it began with.
const maxRedirects = 3

// loader returns the function that reads the document at u.
func loader(u *url.URL, o JWKSOptions) (func(context.Context) ([]byte, error), error) {
	limit := documentLimit(o)
	switch {
	case u.Scheme == "https" && u.Host != "":
		client := guardedClient(o)
		return func(ctx context.Context) ([]byte, error) { return fetch(ctx, client, u.String(), limit) }, nil
	case u.Scheme == "file":
		name, err := fileName(u)
		if err != nil {
			return nil, err
		}
		return func(context.Context) ([]byte, error) {
			return readFile(name, limit)
		}, nil
	}
	return nil, errors.New("want an https:// or file:// URL")
}

// documentLimit is how many bytes a document may have.
func documentLimit(o JWKSOptions) int64 {
	if o.MaxBytes <= 0 {
		return defaultSetBytes
	}
	return o.MaxBytes
}

// whereabouts is u for logs and errors: without user, password, query and fragment, any of which may be a credential.
func whereabouts(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// readFile reads a regular file. Opening anything else may block for ever, as a FIFO that nobody writes to does,
// and holds no set that could be read again.
func readFile(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(name) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readAll(f, limit)
}

// fileName is the path of a file URL.
func fileName(u *url.URL) (string, error) {
	if (u.Host != "" && u.Host != "localhost") || u.Path == "" {
		return "", errors.New("a file URL is written file:///path/to/set.json")
	}
	p := u.Path
	if runtime.GOOS == "windows" {
		p = strings.TrimPrefix(p, "/") // as in file:///C:/set
	}
	return filepath.FromSlash(p), nil
}

// fetch gets the document with GET.
func fetch(ctx context.Context, client *http.Client, rawURL string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok { // it repeats the URL, which the caller names
			err = u.Err
		}
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError{resp.StatusCode}
	}
	return readAll(resp.Body, limit)
}

// statusError is an answer other than 200.
type statusError struct{ code int }

func (e statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the answer is %d %s", e.code, http.StatusText(e.code)))
}

// readAll reads at most limit bytes; more is an error.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	return body, nil
}

// guardedClient fetches over HTTPS without a proxy and checks every address it connects to, after the name has
// been resolved, so that a name which resolves differently the second time gains nothing (SEC-08).
func guardedClient(o JWKSOptions) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if !o.AllowPrivate {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return publicAddress(address) }
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			DisableKeepAlives:      true, // minutes pass between two fetches
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch first := via[0].URL; {
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirects", maxRedirects)
			case req.URL.Scheme != "https" || !strings.EqualFold(req.URL.Host, first.Host):
				return errors.New("it redirects to another host or away from https, which is refused")
			}
			return nil
		},
	}
}

// internal are the ranges that no key set of the public Internet lives in, beyond those netip names.
var internal = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // shared address space, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarking
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast
	netip.MustParsePrefix("::/96"),           // IPv4-compatible, deprecated: an IPv4 address in disguise
	netip.MustParsePrefix("::ffff:0:0:0/96"), // IPv4-translated, RFC 7915: likewise
	netip.MustParsePrefix("64:ff9b::/96"),    // NAT64: an IPv4 address in disguise
	netip.MustParsePrefix("64:ff9b:1::/48"),  // local NAT64
	netip.MustParsePrefix("2002::/16"),       // 6to4
	netip.MustParsePrefix("2001::/32"),       // Teredo
	netip.MustParsePrefix("fec0::/10"),       // site-local, deprecated
}

// publicAddress refuses to connect inside the network.
func publicAddress(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.New("the address to connect to cannot be read")
	}
	ip := ap.Addr().Unmap().WithZone("")
	refused := !ip.IsGlobalUnicast() || ip.IsPrivate() // the former also excludes loopback, link-local, multicast, unspecified
	for _, p := range internal {
		refused = refused || p.Contains(ip)
	}
	if refused {
		return fmt.Errorf("its address %s is inside the network, which is refused unless private addresses are allowed", ip)
	}
	return nil
}
