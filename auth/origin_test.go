package auth_test

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

func TestPublishingWithACookieNeedsAnAllowedOrigin(t *testing.T) {
	t.Parallel()
	public, _ := url.Parse("https://hub.example.com/.well-known/mercure")
	token := hs256(t, publisherSecret, `{"mercure":{"publish":["*"]}}`)
	listed := []string{"https://app.example.com", "HTTPS://Other.Example.com:8443/", "http://plain.example.com:80", "https://[2001:db8::1]"}
	with := func(more ...string) []string { return append(append([]string{}, listed...), more...) }
	for name, c := range map[string]struct {
		lines   []string
		origins []string
		allowed bool
	}{
		"neither header":                  {nil, listed, false},
		"listed":                          {[]string{"Origin: https://app.example.com"}, listed, true},
		"listed, default port spelled":    {[]string{"Origin: https://app.example.com:443"}, listed, true},
		"listed, another case":            {[]string{"Origin: HTTPS://APP.example.COM"}, listed, true},
		"listed in another case":          {[]string{"Origin: https://other.example.com:8443"}, listed, true},
		"listed with its default port":    {[]string{"Origin: http://plain.example.com"}, listed, true},
		"listed IPv6":                     {[]string{"Origin: https://[2001:db8::1]:443"}, listed, true},
		"own":                             {[]string{"Origin: https://hub.example.com"}, listed, true},
		"own, another scheme":             {[]string{"Origin: http://hub.example.com"}, listed, false},
		"own, another port":               {[]string{"Origin: https://hub.example.com:444"}, listed, false},
		"another port":                    {[]string{"Origin: https://app.example.com:8443"}, listed, false},
		"another host":                    {[]string{"Origin: https://evil.example"}, listed, false},
		"longer host":                     {[]string{"Origin: https://app.example.com.evil.example"}, listed, false},
		"subdomain":                       {[]string{"Origin: https://x.app.example.com"}, listed, false},
		"trailing dot":                    {[]string{"Origin: https://app.example.com."}, listed, false},
		"user information":                {[]string{"Origin: https://app.example.com@evil.example"}, listed, false},
		"origin with a path":              {[]string{"Origin: https://app.example.com/"}, listed, false},
		"empty Origin":                    {[]string{"Origin: ", "Referer: https://app.example.com/"}, listed, false},
		"null":                            {[]string{"Origin: null"}, listed, false},
		"null when listed":                {[]string{"Origin: null"}, with("null"), true},
		"null is not covered by *":        {[]string{"Origin: null"}, with("*"), false},
		"any origin with *":               {[]string{"Origin: https://evil.example"}, with("*"), true},
		"neither header with *":           {nil, with("*"), false},
		"two Origins":                     {[]string{"Origin: https://app.example.com", "Origin: https://app.example.com", "Referer: https://app.example.com/"}, listed, false},
		"Referer":                         {[]string{"Referer: https://app.example.com/page?x=1"}, listed, true},
		"Referer of another host":         {[]string{"Referer: https://evil.example/https://app.example.com"}, listed, false},
		"Origin counts before Referer":    {[]string{"Origin: https://evil.example", "Referer: https://app.example.com/"}, listed, false},
		"Referer that is no absolute URL": {[]string{"Referer: /page"}, listed, false},
		"Referer about:blank":             {[]string{"Referer: about:blank"}, listed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newAuth(t, func(o *auth.Options) { o.PublicURL = public; o.PublishOrigins = c.origins })
			r := post(append([]string{"Cookie: mercureAuthorization=" + token}, c.lines...)...)
			_, err := j.Authorize(r, spec.ActionPublish)
			if (err == nil) != c.allowed {
				t.Fatalf("got %v, want allowed %v", err, c.allowed)
			}
			if err == nil {
				return
			}
			if p := problemOf(t, err); p.Status != 400 || p.Code != "invalid_request" || p.Reason != auth.ReasonOrigin {
				t.Errorf("got %+v, want 400 invalid_request", p)
			}
		})
	}
}

// The operator has to see which origin it was; what else stands in a Referer is nobody's business.
func TestARefusedOriginIsInTheLogAlone(t *testing.T) {
	t.Parallel()
	public, _ := url.Parse("https://hub.example.com/.well-known/mercure")
	token := hs256(t, publisherSecret, `{"mercure":{"publish":["*"]}}`)
	j := newAuth(t, func(o *auth.Options) { o.PublicURL = public })
	for line, want := range map[string]string{
		"Origin: https://evil.example":              `Origin "https://evil.example"; the hub's own origin is https://hub.example.com:443`,
		"Referer: https://u:p@evil.example/x?key=1": `Referer of "https://evil.example"; the hub's own`,
		"Referer: /x?key=1":                         "neither header; ",
		"X-Other: 1":                                "neither header; ",
	} {
		_, err := j.Authorize(post("Cookie: mercureAuthorization="+token, line), spec.ActionPublish)
		p := problemOf(t, err)
		if p.Cause == nil || !strings.Contains(p.Cause.Error(), want) || strings.Contains(p.Cause.Error(), "key=1") {
			t.Errorf("%s: the cause is %v, want %s", line, p.Cause, want)
		}
		if strings.Contains(p.Detail, "evil.example") {
			t.Errorf("%s: the client is told %q", line, p.Detail)
		}
	}
}

func TestOwnOriginWithoutPublicURL(t *testing.T) {
	t.Parallel()
	token := hs256(t, publisherSecret, `{"mercure":{"publish":["*"]}}`)
	j := newAuth(t, nil)
	for name, c := range map[string]struct {
		scheme, host, origin string
		tls                  bool
		allowed              bool
	}{
		"plain":                         {"", "hub.example.com:3000", "http://hub.example.com:3000", false, true},
		"plain, default port":           {"", "hub.example.com", "http://hub.example.com:80", false, true},
		"TLS":                           {"", "hub.example.com", "https://hub.example.com", true, true},
		"TLS, page on plain HTTP":       {"", "hub.example.com", "http://hub.example.com", true, false},
		"scheme known from a proxy":     {"https", "hub.example.com", "https://hub.example.com", false, true},
		"another port of the same host": {"", "hub.example.com:3000", "http://hub.example.com:4000", false, false},
		"another host":                  {"", "hub.example.com", "http://evil.example", false, false},
		"no Host":                       {"", "", "http://evil.example", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := post("Cookie: mercureAuthorization="+token, "Origin: "+c.origin)
			r.URL.Scheme, r.Host, r.TLS = c.scheme, c.host, nil
			if c.tls {
				r.TLS = &tls.ConnectionState{}
			}
			if _, err := j.Authorize(r, spec.ActionPublish); (err == nil) != c.allowed {
				t.Errorf("got %v, want allowed %v", err, c.allowed)
			}
		})
	}
}

func TestSafeMethodsAndOtherCarriersNeedNoOrigin(t *testing.T) {
	t.Parallel()
	j := newAuth(t, nil)
	reader := hs256(t, subscriberSecret, `{}`)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, "QUERY"} {
		r := request(method, "/hub?topic=a", []string{"Cookie: mercureAuthorization=" + reader, "Origin: https://evil.example"})
		if _, err := j.Authorize(r, spec.ActionSubscribe); err != nil {
			t.Errorf("%s with the cookie: %v", method, err)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "get"} {
		r := request(http.MethodPost, "/hub", []string{"Cookie: mercureAuthorization=" + reader, "Origin: https://evil.example"})
		r.Method = method
		if _, err := j.Authorize(r, spec.ActionSubscribe); err == nil {
			t.Errorf("%s with the cookie from a foreign page was allowed", method)
		}
	}
	writer := "Authorization: Bearer " + hs256(t, publisherSecret, `{}`)
	if _, err := j.Authorize(post(writer, "Origin: https://evil.example"), spec.ActionPublish); err != nil {
		t.Errorf("header token from a foreign page: %v", err)
	}
}

func TestPublishOriginsAreChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "app.example.com", "https://", "https://a.example/path", "https://a.example?x", "//a.example", "https://u@a.example", "https://a.example#", "NULL", "https://a b"} {
		if _, err := auth.New(auth.Options{PublishOrigins: []string{bad}}); err == nil {
			t.Errorf("publish origin %q was accepted", bad)
		}
	}
	if _, err := auth.New(auth.Options{PublicURL: &url.URL{Path: "/hub"}}); err == nil {
		t.Error("a public URL without an origin was accepted")
	}
}
