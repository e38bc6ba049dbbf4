package auth_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// outcome is the status of a check, or the subject of the token that won.
func outcome(t *testing.T, g *auth.Grant, err error) string {
	t.Helper()
	if err != nil {
		return problemOf(t, err).Reason
	}
	if g.Anonymous {
		return "anonymous"
	}
	return g.Subject
}

func TestTokenPlacesAndTheirPrecedence(t *testing.T) {
	t.Parallel()
	const hub = "https://hub.example.com/.well-known/mercure?topic=a"
	inHeader := hs256(t, subscriberSecret, `{"sub":"header"}`)
	inQuery := hs256(t, subscriberSecret, `{"sub":"query"}`)
	inCookie := hs256(t, subscriberSecret, `{"sub":"cookie"}`)
	bad := hs256(t, evilSecret, `{"sub":"bad"}`)
	draft := sign(t, `{"alg":"HS256","typ":"AT+JWT"}`, `{"sub":"draft"}`, "HS256", []byte(subscriberSecret))
	application := sign(t, `{"alg":"HS256","typ":"application/at+jwt"}`, `{}`, "HS256", []byte(subscriberSecret))
	header := func(s string) string { return "Authorization: Bearer " + s }
	cookie := func(s string) string { return "Cookie: mercureAuthorization=" + s }
	query := func(s string) string { return hub + "&authorization=" + s }

	for name, c := range map[string]struct {
		target string
		lines  []string
		change func(*auth.Options)
		want   string
	}{
		"the header wins over query and cookie":  {target: query(inQuery), lines: []string{header(inHeader), cookie(inCookie)}, want: "header"},
		"the query wins over the cookie":         {target: query(inQuery), lines: []string{cookie(inCookie)}, want: "query"},
		"the cookie is used alone":               {target: hub, lines: []string{cookie(inCookie)}, want: "cookie"},
		"a bad header does not fall back":        {target: query(inQuery), lines: []string{header(bad), cookie(inCookie)}, want: auth.ReasonUnverified},
		"a bad query token does not fall back":   {target: query(bad), lines: []string{cookie(inCookie)}, want: auth.ReasonUnverified},
		"a bad cookie does not become anonymous": {target: hub, lines: []string{cookie(bad)}, change: anonymous, want: auth.ReasonUnverified},
		"a garbled cookie does not become anonymous": {
			target: hub, lines: []string{cookie(`a"b\c`)}, change: anonymous, want: auth.ReasonUnverified,
		},
		"no token is refused":                       {target: hub, want: auth.ReasonNoToken},
		"no token is anonymous when allowed":        {target: hub, change: anonymous, want: "anonymous"},
		"a draft-08 token in the header is refused": {target: hub, lines: []string{header(draft)}, change: anonymous, want: auth.ReasonGeneration},
		"a draft-08 token in the cookie is refused": {target: hub, lines: []string{cookie(application)}, change: anonymous, want: auth.ReasonGeneration},
		"a draft-08 token in the URL is no token":   {target: query(draft), lines: []string{cookie(inCookie)}, want: "cookie"},
		"application/at+jwt in the URL is no token": {target: query(application), change: anonymous, want: "anonymous"},
		"access_token is never read":                {target: hub + "&access_token=" + inQuery, want: auth.ReasonNoToken},
		"the parameter's name may be escaped":       {target: hub + "&%61uthorization=" + inQuery, want: "query"},
		"the parameter's name is case-sensitive":    {target: hub + "&Authorization=" + inQuery, want: auth.ReasonNoToken},
		"a semicolon separates nothing":             {target: hub + ";authorization=" + inQuery, want: auth.ReasonNoToken},
		"a stray percent sign hides nothing":        {target: hub + "&x=%zz&authorization=" + inQuery, want: "query"},
		"two query tokens are refused":              {target: query(inQuery) + "&authorization=" + inQuery, want: auth.ReasonPresentation},
		"an empty query token is refused":           {target: query(""), change: anonymous, want: auth.ReasonPresentation},
		"the query is off": {
			target: query(inQuery), lines: []string{cookie(inCookie)},
			change: func(o *auth.Options) { o.QueryToken = auth.QueryTokenOff }, want: "cookie",
		},
		"the first cookie of the name is final": {target: hub, lines: []string{cookie(inCookie) + "; mercureAuthorization=" + bad}, want: "cookie"},
		"the first cookie is final if it is bad": {
			target: hub, lines: []string{"Cookie: a=b; mercureAuthorization=" + bad, cookie(inCookie)}, want: auth.ReasonUnverified,
		},
		"an empty cookie is none":             {target: hub, lines: []string{cookie("")}, change: anonymous, want: "anonymous"},
		"a quoted cookie is unquoted":         {target: hub, lines: []string{cookie(`"` + inCookie + `"`)}, want: "cookie"},
		"a cookie's name is case-sensitive":   {target: hub, lines: []string{"Cookie: MercureAuthorization=" + inCookie}, want: auth.ReasonNoToken},
		"a longer name is another cookie":     {target: hub, lines: []string{"Cookie: xmercureAuthorization=" + inCookie}, want: auth.ReasonNoToken},
		"the cookie's name can be configured": {target: hub, lines: []string{"Cookie: hub=" + inCookie}, change: func(o *auth.Options) { o.CookieName = "hub" }, want: "cookie"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := newAuth(t, c.change).Authorize(get(c.target, c.lines...), spec.ActionSubscribe)
			if got := outcome(t, g, err); got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func anonymous(o *auth.Options) { o.Anonymous = true }

func TestAuthorizationHeaderSyntax(t *testing.T) {
	t.Parallel()
	token := hs256(t, subscriberSecret, `{"sub":"ok"}`)
	for name, c := range map[string]struct{ value, want string }{
		"exact":                         {"Bearer " + token, "ok"},
		"another case":                  {"bEARER " + token, "ok"},
		"several spaces":                {"Bearer   " + token, "ok"},
		"scheme alone":                  {"Bearer", auth.ReasonPresentation},
		"scheme and a space":            {"Bearer ", auth.ReasonPresentation},
		"empty":                         {"", auth.ReasonPresentation},
		"token without scheme":          {token, auth.ReasonPresentation},
		"other scheme":                  {"Basic dTpw", auth.ReasonPresentation},
		"scheme that begins like it":    {"BearerX " + token, auth.ReasonPresentation},
		"two tokens":                    {"Bearer " + token + " " + token, auth.ReasonPresentation},
		"two tokens joined by a comma":  {"Bearer " + token + ",Bearer", auth.ReasonPresentation},
		"two segments":                  {"Bearer a.b", auth.ReasonUnverified},
		"four segments":                 {"Bearer " + token + ".x", auth.ReasonUnverified},
		"padded signature":              {"Bearer " + token + "=", auth.ReasonUnverified},
		"standard alphabet":             {"Bearer " + strings.Replace(token, "e", "+", 1), auth.ReasonUnverified},
		"stray bits in the last symbol": {"Bearer " + strayBits(t, token), auth.ReasonUnverified},
		"over the cap":                  {"Bearer " + strings.Repeat("a", 16<<10+1), auth.ReasonTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := newAuth(t, anonymous).Authorize(get("/hub", "Authorization: "+c.value), spec.ActionSubscribe)
			if got := outcome(t, g, err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// strayBits spells the same signature bytes in another way: 32 bytes leave two unused bits in the last symbol.
func strayBits(t *testing.T, token string) string {
	t.Helper()
	head, last := token[:len(token)-1], token[len(token)-1]
	signature := token[strings.LastIndexByte(token, '.')+1:]
	want, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		t.Fatal(err)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	other := head + string(alphabet[strings.IndexByte(alphabet, last)^1])
	got, err := base64.RawURLEncoding.DecodeString(other[strings.LastIndexByte(other, '.')+1:])
	if err != nil || string(got) != string(want) {
		t.Fatalf("the changed token must decode to the same bytes: %v", err)
	}
	return other
}

func TestQueryTokenWhenPublishing(t *testing.T) {
	t.Parallel()
	token := hs256(t, publisherSecret, `{"sub":"query","mercure":{"publish":["*"]}}`)
	for name, c := range map[string]struct {
		mode auth.QueryToken
		want string
	}{
		"subscribe only is the default": {auth.QueryTokenSubscribe, auth.ReasonNoToken},
		"off":                           {auth.QueryTokenOff, auth.ReasonNoToken},
		"all":                           {auth.QueryTokenAll, "query"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newAuth(t, func(o *auth.Options) { o.QueryToken = c.mode })
			r := post()
			r.URL.RawQuery = "authorization=" + token
			g, err := j.Authorize(r, spec.ActionPublish)
			if got := outcome(t, g, err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAQueryOfTooManyFieldsIsRefused(t *testing.T) {
	t.Parallel()
	token := hs256(t, subscriberSecret, `{"sub":"query"}`)
	most := spec.Limits{}.FormFields()
	for fields, want := range map[int]string{most: "query", most + 1: "too_many_fields"} {
		r := get("/hub?authorization=" + token + strings.Repeat("&a", fields-1))
		g, err := newAuth(t, nil).Authorize(r, spec.ActionSubscribe)
		if got := outcome(t, g, err); got != want {
			t.Errorf("%d fields: got %q, want %q", fields, got, want)
		}
	}
}

func TestALineBreakIsNoPartOfAToken(t *testing.T) {
	t.Parallel()
	token := hs256(t, subscriberSecret, `{"sub":"ok"}`)
	draft := sign(t, `{"alg":"HS256","typ":"at+jwt"}`, `{}`, "HS256", []byte(subscriberSecret))
	for name, c := range map[string]struct{ token, want string }{
		"none":                            {token, "ok"},
		"at the end":                      {token + "%0A", auth.ReasonUnverified},
		"in the header":                   {token[:5] + "%0D%0A" + token[5:], auth.ReasonUnverified},
		"in the signature":                {token[:len(token)-5] + "%0D" + token[len(token)-5:], auth.ReasonUnverified},
		"in one of a type that is passed": {draft[:5] + "%0A" + draft[5:], auth.ReasonUnverified},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := newAuth(t, anonymous).Authorize(get("/hub?authorization="+c.token), spec.ActionSubscribe)
			if got := outcome(t, g, err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAPublisherTokenInTheURLOfAReadIsNotRead(t *testing.T) {
	t.Parallel()
	token := hs256(t, publisherSecret, `{}`)
	_, err := newAuth(t, nil).Authorize(get("/hub?authorization="+token), spec.ActionPublish)
	if p := problemOf(t, err); p.Reason != auth.ReasonNoToken {
		t.Errorf("got %+v", p)
	}
}

func TestARoleWithoutKeysIsRefused(t *testing.T) {
	t.Parallel()
	j := newAuth(t, func(o *auth.Options) { o.Publisher = nil; o.Anonymous = true })
	for name, lines := range map[string][]string{
		"without a token": nil,
		"with a token":    {"Authorization: Bearer " + hs256(t, publisherSecret, `{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := j.Authorize(post(lines...), spec.ActionPublish)
			p := problemOf(t, err)
			if p.Reason != auth.ReasonNotConfigured || p.Status != 401 || !strings.Contains(err.Error(), "no publisher key is configured") {
				t.Errorf("got %+v (%v)", p, err)
			}
			if hasCode := p.Code != ""; hasCode != (lines != nil) {
				t.Errorf("code %q: an error code belongs to a presented token only", p.Code)
			}
		})
	}
}
