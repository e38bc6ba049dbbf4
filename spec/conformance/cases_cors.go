package conformance

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func corsCases() []Case {
	return []Case{
		{"cors/origins", []string{"CORS-01"}, "A listed origin is echoed with credentials; another is not.", corsOrigins, OfEach},
		{"cors/preflight", []string{"CORS-03"}, "A preflight allows the protocol's methods and headers.", corsPreflight, OfEach},
		{"cors/exposed", []string{"CORS-04", "REC-20", "X-08"}, "Scripts may read the reconciliation headers and what refusals say.", corsExposed, OfEach},
		{"cors/on-errors", []string{"CORS-05"}, "Refusals are readable too.", corsErrors, OfEach},
		{"cors/hardening", []string{"CORS-11"}, "Answers forbid framing, sniffing and foreign content.", corsHardening, OfEach},
	}
}

func (p *Probe) needOrigin() string {
	if p.AllowOrigin == "" {
		p.Skipf("needs a hub with a known cors-origin")
	}
	return p.AllowOrigin
}

const evilOrigin = "https://evil.example"

func corsOrigins(ctx context.Context, p *Probe) {
	origin := p.needOrigin()
	u, _ := url.Parse(origin)
	for o, allowed := range map[string]bool{
		origin: true, evilOrigin: false, "null": false, origin + ".evil.example": false, u.Scheme + "://evil" + u.Host: false, origin + ":81": false,
	} {
		for what, h := range map[string]http.Header{
			"stream":  p.open(ctx, p.topics(p.topic("a")), merged(bearer(p.subscriber()), head("Origin", o))).header,
			"publish": p.post(ctx, merged(bearer(p.publisher("*")), head("Origin", o)), "topic", p.topic("a")).header,
		} {
			got, credentials := h.Get("Access-Control-Allow-Origin"), h.Get("Access-Control-Allow-Credentials")
			if allowed && (got != o || credentials != "true") {
				p.Errorf("%s from %s: Allow-Origin %q, Allow-Credentials %q, want it echoed with credentials", what, o, got, credentials)
			}
			if !allowed && got != "" {
				p.Errorf("%s from %s: Allow-Origin %q, want none", what, o, got)
			}
			if !strings.Contains(strings.Join(h.Values("Vary"), ","), "Origin") {
				p.Errorf("%s from %s: Vary: %q, want Origin in it", what, o, h.Values("Vary"))
			}
		}
	}
}

func corsPreflight(ctx context.Context, p *Probe) {
	origin := p.needOrigin()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		a := p.do(ctx, http.MethodOptions, "", head("Origin", origin, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", "authorization,cache-control,content-type,last-event-id"), "")
		p.wantStatus(a, http.StatusNoContent, "preflight for %s", method)
		if got := a.header.Get("Access-Control-Allow-Origin"); got != origin {
			p.Errorf("preflight for %s: Allow-Origin %q", method, got)
		}
		if got := strings.Join(a.header.Values("Access-Control-Allow-Methods"), ","); !strings.Contains(got, method) {
			p.Errorf("preflight for %s: Allow-Methods %q", method, got)
		}
		got := strings.ToLower(strings.Join(a.header.Values("Access-Control-Allow-Headers"), ","))
		for _, name := range []string{"authorization", "cache-control", "content-type", "last-event-id"} {
			if !strings.Contains(got, name) {
				p.Errorf("preflight for %s: Allow-Headers %q lacks %s", method, got, name)
			}
		}
	}
	a := p.do(ctx, http.MethodOptions, "", head("Origin", evilOrigin, "Access-Control-Request-Method", "POST"), "")
	if got := a.header.Get("Access-Control-Allow-Origin"); got != "" || a.status >= 500 {
		p.Errorf("preflight from a stranger: status %d, Allow-Origin %q", a.status, got)
	}
}

func corsExposed(ctx context.Context, p *Probe) {
	from := head("Origin", p.needOrigin())
	for what, h := range map[string]http.Header{
		"stream":  p.open(ctx, p.topics(p.topic("a"))+"&"+p.gen.cursor+"=earliest", merged(bearer(p.subscriber()), from)).header,
		"refusal": p.post(ctx, from, "topic", p.topic("a")).header,
	} {
		exposed := strings.ToLower(strings.Join(h.Values("Access-Control-Expose-Headers"), ","))
		for _, name := range []string{"Link", p.reconciled(), "Mercure-Last-Event-ID", "ETag", "WWW-Authenticate", "Retry-After"} {
			if !containsToken(exposed, strings.ToLower(name)) {
				p.Errorf("%s: Access-Control-Expose-Headers %q lacks %s", what, exposed, name)
			}
		}
	}
}

func containsToken(list, name string) bool {
	for t := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(t) == name {
			return true
		}
	}
	return false
}

func corsErrors(ctx context.Context, p *Probe) {
	origin := p.needOrigin()
	for _, r := range p.refusals() {
		if r.status == http.StatusNotFound {
			continue
		}
		a := r.ask(ctx, p, head("Origin", origin))
		if got := a.header.Get("Access-Control-Allow-Origin"); got != origin {
			p.Errorf("%s: status %d, Allow-Origin %q, want %q", r.what, a.status, got, origin)
		}
	}
}

func corsHardening(ctx context.Context, p *Probe) {
	want := map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'self'"}
	for what, h := range map[string]http.Header{
		"stream":  p.listen(ctx, p.topic("a")).header,
		"publish": p.post(ctx, bearer(p.publisher("*")), "topic", p.topic("a")).header,
		"refusal": p.post(ctx, nil, "topic", p.topic("a")).header,
	} {
		for name, value := range want {
			if got := h.Get(name); got != value {
				p.Errorf("%s: %s: %q, want %q", what, name, got, value)
			}
		}
	}
}

func csrfCases() []Case {
	return []Case{
		{"csrf/publish-by-cookie", []string{"CORS-06", "CORS-07", "CLA-08"}, "A publication by cookie must come from the hub's own origin or a listed one.", csrfCookie, OfEach},
		{"csrf/listed-origin", []string{"CORS-07"}, "A listed publish origin may publish by cookie.", csrfListed, OfEach},
		{"csrf/not-for-tokens", []string{"CORS-06"}, "A token in the header needs no origin.", csrfToken, OfEach},
		{"csrf/safe-methods", []string{"CORS-08", "CLA-08"}, "Reading by cookie needs no origin.", csrfSafe, OfEach},
	}
}

func csrfCookie(ctx context.Context, p *Probe) {
	own, _ := url.Parse(p.Origin)
	jar := p.cookie(p.publisher("*"))
	otherScheme := map[string]string{"http": "https", "https": "http"}[own.Scheme]
	for what, c := range map[string]struct {
		from   http.Header
		status int
	}{
		"neither header":                {nil, 400},
		"own origin":                    {head("Origin", p.Origin), 200},
		"own origin in capitals":        {head("Origin", own.Scheme+"://"+strings.ToUpper(own.Host)), 200},
		"own referer":                   {head("Referer", p.Origin+"/page?x=1"), 200},
		"own origin, strange referer":   {head("Origin", p.Origin, "Referer", evilOrigin+"/"), 200},
		"strange origin":                {head("Origin", evilOrigin), 400},
		"strange origin, own referer":   {head("Origin", evilOrigin, "Referer", p.Origin+"/"), 400},
		"strange referer":               {head("Referer", evilOrigin+"/"+p.Origin), 400},
		"null":                          {head("Origin", "null"), 400},
		"another scheme":                {head("Origin", otherScheme+"://"+own.Host), 400},
		"another port":                  {head("Origin", own.Scheme+"://"+own.Hostname()+":1"), 400},
		"prefix":                        {head("Origin", p.Origin+".evil.example"), 400},
		"user info":                     {head("Origin", own.Scheme+"://"+own.Host+"@evil.example"), 400},
		"referer with user info":        {head("Referer", own.Scheme+"://"+own.Host+"@evil.example/"), 400},
		"two origins":                   {http.Header{"Origin": {p.Origin, evilOrigin}}, 400},
		"no URL":                        {head("Origin", "evil"), 400},
		"an empty origin, own referer ": {head("Origin", " "), 400},
	} {
		a := p.post(ctx, merged(jar, c.from), "topic", p.topic("a"), "data", what)
		if p.wantStatus(a, c.status, "%s", what) && c.status == 400 {
			p.wantChallenge(a, "invalid_request", what)
		}
	}
}

func csrfListed(ctx context.Context, p *Probe) {
	if p.PublishOrigin == "" {
		p.Skipf("needs a hub with a known publish-origin")
	}
	jar := p.cookie(p.publisher("*"))
	for _, from := range []http.Header{head("Origin", p.PublishOrigin), head("Referer", p.PublishOrigin+"/a/b?c")} {
		p.wantStatus(p.post(ctx, merged(jar, from), "topic", p.topic("a")), http.StatusOK, "%v", from)
	}
	p.wantStatus(p.post(ctx, merged(jar, head("Origin", p.PublishOrigin+".evil.example")), "topic", p.topic("a")), http.StatusBadRequest, "prefix")
}

func csrfToken(ctx context.Context, p *Probe) {
	s := p.listen(ctx, p.topic("a"))
	for _, from := range []http.Header{nil, head("Origin", evilOrigin), head("Origin", "null"), head("Referer", evilOrigin+"/")} {
		if p.wantStatus(p.post(ctx, merged(bearer(p.publisher("*")), from), "topic", p.topic("a"), "data", "x"), http.StatusOK, "%v", from) {
			s.want("x")
		}
	}
}

func csrfSafe(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	for _, from := range []http.Header{nil, head("Origin", evilOrigin), head("Referer", evilOrigin+"/")} {
		s := p.subscribe(ctx, p.topics(topic), merged(p.cookie(p.subscriber(topic)), from))
		p.publish(ctx, "topic", topic, "data", "x", "private", "on")
		s.want("x")
		s.Close()
	}
}

// reconciled is the name of a header that must be readable, with or without the classic generation.
func (p *Probe) reconciled() string {
	if p.NoClassic {
		return spec.HeaderMercureLastEventID
	}
	return spec.HeaderLastEventID
}
