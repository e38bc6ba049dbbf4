package auth_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

// bubble is when the clock of a synctest bubble starts.
const bubble = 946684800

func TestVerifiedTokensAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	manyVariables := strings.Repeat("{a}", 33)
	for name, c := range map[string]struct {
		claims string
		reason string // "" = accepted
		text   string // part of what the client is told
	}{
		"nothing but an object":       {`{}`, "", ""},
		"exp one second ago":          {fmt.Sprintf(`{"exp":%d}`, bubble-1), auth.ReasonExpired, "expired since 1999-12-31T23:59:59Z"},
		"exp now":                     {fmt.Sprintf(`{"exp":%d}`, bubble), auth.ReasonExpired, "expired since 2000-01-01T00:00:00Z"},
		"exp a fraction ahead":        {fmt.Sprintf(`{"exp":%d.25}`, bubble), "", ""},
		"exp in a second":             {fmt.Sprintf(`{"exp":%d}`, bubble+1), "", ""},
		"exp with an exponent":        {`{"exp":9.5e8}`, "", ""},
		"exp beyond every calendar":   {`{"exp":1e300}`, "", ""},
		"exp beyond every float":      {`{"exp":1e999}`, "", ""},
		"exp before every calendar":   {`{"exp":-1e300}`, auth.ReasonExpired, "expired since"},
		"exp 0 is a date":             {`{"exp":0}`, auth.ReasonExpired, "expired since 1970-01-01"},
		"exp a string":                {`{"exp":"946684801"}`, auth.ReasonClaims, "exp is not a number"},
		"exp null":                    {`{"exp":null}`, auth.ReasonClaims, "exp is not a number"},
		"exp true":                    {`{"exp":true}`, auth.ReasonClaims, "exp is not a number"},
		"exp an array":                {`{"exp":[1]}`, auth.ReasonClaims, "exp is not a number"},
		"EXP is another claim":        {`{"EXP":1}`, "", ""},
		"the last exp counts":         {fmt.Sprintf(`{"exp":%d,"exp":1}`, bubble+9), auth.ReasonExpired, ""},
		"nbf now":                     {fmt.Sprintf(`{"nbf":%d}`, bubble), "", ""},
		"nbf in a second":             {fmt.Sprintf(`{"nbf":%d}`, bubble+1), auth.ReasonNotYetValid, "not valid before 2000-01-01T00:00:01Z"},
		"nbf a fraction ahead":        {fmt.Sprintf(`{"nbf":%d.5}`, bubble), auth.ReasonNotYetValid, ""},
		"nbf a string":                {`{"nbf":"1"}`, auth.ReasonClaims, "nbf is not a number"},
		"iat in the future":           {fmt.Sprintf(`{"iat":%d}`, bubble+99), "", ""},
		"iat a string":                {`{"iat":"1"}`, auth.ReasonClaims, "iat is not a number"},
		"sub a number":                {`{"sub":7}`, auth.ReasonClaims, "sub is not a string"},
		"sub null":                    {`{"sub":null}`, "", ""},
		"claims an array":             {`[]`, auth.ReasonClaims, "not a JSON object"},
		"claims a string":             {`"x"`, auth.ReasonClaims, "not a JSON object"},
		"claims null":                 {`null`, auth.ReasonUnverified, "token not verified"},
		"claims not UTF-8":            {"{\"sub\":\"\xff\"}", auth.ReasonClaims, "UTF-8"},
		"claims with a tail":          {`{} {}`, auth.ReasonUnverified, "token not verified"},
		"subscribe a string":          {`{"mercure":{"subscribe":"*"}}`, auth.ReasonClaims, "not an array"},
		"a template over the limits":  {`{"mercure":{"subscribe":["` + manyVariables + `"]}}`, auth.ReasonClaims, "33 template variables, at most 32"},
		"the other action's template": {`{"mercure":{"publish":["` + manyVariables + `"]}}`, "", ""},
		"no template at all":          {`{"mercure":{"subscribe":["{"]}}`, "", ""},
		"details of a Mercure hub":    {`{"authorization_details":[{"type":"https://mercure.rocks/authorization-detail"}]}`, auth.ReasonGeneration, "at+jwt"},
		"details of something else":   {`{"authorization_details":[{"type":"payment"},7,null]}`, "", ""},
		"details that are not a list": {`{"authorization_details":"x"}`, "", ""},
		"details in another case":     {`{"Authorization_Details":[{"type":"https://mercure.rocks/authorization-detail"}]}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				token := hs256(t, subscriberSecret, c.claims)
				_, err := newAuth(t, anonymous).Authorize(get("/hub", "Authorization: Bearer "+token), spec.ActionSubscribe)
				if c.reason == "" {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				p := problemOf(t, err)
				if p.Reason != c.reason || p.Status != 401 || p.Code != "invalid_token" || !p.Challenge {
					t.Errorf("got %+v, want 401 invalid_token for %s", p, c.reason)
				}
				if !strings.Contains(p.Detail, c.text) {
					t.Errorf("the client is told %q, want %q in it", p.Detail, c.text)
				}
			})
		})
	}
}

func TestUnverifiedTokensAreToldNothing(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	const claims = `{"exp":1,"mercure":{"subscribe":"secret-claim"}}`
	for name, c := range map[string]struct{ token, reason, text string }{
		"another key":        {hs256(t, evilSecret, claims), auth.ReasonUnverified, "token not verified with the key for this role"},
		"the other role":     {hs256(t, publisherSecret, claims), auth.ReasonUnverified, "token not verified with the key for this role"},
		"another algorithm":  {sign(t, `{"alg":"HS512"}`, claims, "HS512", []byte(subscriberSecret)), auth.ReasonAlgorithm, "algorithm not accepted"},
		"asymmetric":         {sign(t, `{"alg":"ES256"}`, claims, "ES256", s.es256), auth.ReasonAlgorithm, "algorithm not accepted"},
		"none":               {segment(`{"alg":"none"}`) + "." + segment(claims) + ".", auth.ReasonAlgorithm, "algorithm not accepted"},
		"unknown algorithm":  {segment(`{"alg":"X"}`) + "." + segment(claims) + ".", auth.ReasonAlgorithm, "algorithm not accepted"},
		"algorithm a number": {segment(`{"alg":7}`) + "." + segment(claims) + ".", auth.ReasonAlgorithm, "algorithm not accepted"},
		"no algorithm":       {segment(`{}`) + "." + segment(claims) + ".", auth.ReasonAlgorithm, "algorithm not accepted"},
		"header null":        {segment(`null`) + "." + segment(claims) + ".", auth.ReasonAlgorithm, "algorithm not accepted"},
		"ALG":                {sign(t, `{"ALG":"HS256"}`, claims, "HS256", []byte(subscriberSecret)), auth.ReasonAlgorithm, "algorithm not accepted"},
		"header an array":    {segment(`[]`) + "." + segment(claims) + ".", auth.ReasonUnverified, "token not verified with the key for this role"},
		"draft-08":           {sign(t, `{"alg":"HS256","typ":"at+jwt"}`, claims, "HS256", []byte(subscriberSecret)), auth.ReasonGeneration, "token not verified with the key for this role"},
		"dots":               {"..", auth.ReasonUnverified, "token not verified with the key for this role"},
		"changed claims":     {swapClaims(hs256(t, subscriberSecret, `{}`), claims), auth.ReasonUnverified, "token not verified with the key for this role"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newAuth(t, anonymous).Authorize(get("/hub", "Authorization: Bearer "+c.token), spec.ActionSubscribe)
			p := problemOf(t, err)
			if p.Reason != c.reason || p.Detail != c.text || p.Code != "invalid_token" {
				t.Errorf("got %+v, want exactly %q", p, c.text)
			}
			if text := err.Error(); strings.Contains(text, "secret-claim") || (len(c.token) > 9 && strings.Contains(text, c.token[:9])) {
				t.Errorf("the error repeats the token: %s", text)
			}
			if p.Cause == nil {
				t.Error("the log is not told why")
			}
		})
	}
}

func swapClaims(token, claims string) string {
	parts := strings.Split(token, ".")
	return parts[0] + "." + segment(claims) + "." + parts[2]
}

func TestKeysInTheTokensHeaderAreNotUsed(t *testing.T) {
	t.Parallel()
	j := newAuth(t, nil)
	for _, header := range []string{
		`{"alg":"HS256","jku":"https://127.0.0.1:1/set"}`, `{"alg":"HS256","x5u":"https://127.0.0.1:1/c"}`,
		`{"alg":"HS256","jwk":{"kty":"oct","k":"` + segment(evilSecret) + `"}}`, `{"alg":"HS256","x5c":["AAAA"]}`,
		`{"alg":"HS256","kid":"../../etc/passwd"}`, `{"alg":"HS256","kid":7}`,
	} {
		evil := sign(t, header, `{}`, "HS256", []byte(evilSecret))
		if _, err := j.Authorize(get("/hub", "Authorization: Bearer "+evil), spec.ActionSubscribe); err == nil {
			t.Errorf("%s signed with a foreign key was accepted", header)
		}
		good := sign(t, header, `{}`, "HS256", []byte(subscriberSecret))
		if _, err := j.Authorize(get("/hub", "Authorization: Bearer "+good), spec.ActionSubscribe); err != nil {
			t.Errorf("%s signed with the configured key: %v", header, err)
		}
	}
}

func TestCriticalHeadersAreRefused(t *testing.T) {
	t.Parallel()
	for _, crit := range []string{`["exp"]`, `["b64"]`, `[]`, `null`, `"x"`} {
		token := sign(t, `{"alg":"HS256","crit":`+crit+`,"b64":true}`, `{}`, "HS256", []byte(subscriberSecret))
		_, err := newAuth(t, nil).Authorize(get("/hub", "Authorization: Bearer "+token), spec.ActionSubscribe)
		if p := problemOf(t, err); p.Reason != auth.ReasonCritical || p.Status != 401 {
			t.Errorf("crit %s: got %+v", crit, p)
		}
	}
}

func TestLimitsOfTokensCanBeChanged(t *testing.T) {
	t.Parallel()
	authorize := func(l spec.Limits, claims string) error {
		j := newAuth(t, func(o *auth.Options) { o.Limits = l })
		_, err := j.Authorize(get("/hub", "Authorization: Bearer "+hs256(t, subscriberSecret, claims)), spec.ActionSubscribe)
		return err
	}
	const two = `{"mercure":{"subscribe":["{a}{b}","cc"]}}`
	for name, c := range map[string]struct {
		limits spec.Limits
		claims string
		ok     bool
	}{
		"defaults":          {spec.Limits{}, two, true},
		"selectors, enough": {spec.Limits{GrantSelectors: 2}, two, true},
		"selectors":         {spec.Limits{GrantSelectors: 1}, two, false},
		"variables":         {spec.Limits{Variables: 1}, two, false},
		"selector bytes":    {spec.Limits{SelectorBytes: 5}, two, false},
		"token bytes":       {spec.Limits{TokenBytes: 50}, two, false},
		"a larger token":    {spec.Limits{TokenBytes: 64 << 10}, `{"pad":"` + strings.Repeat("x", 20<<10) + `"}`, true},
		"too large a token": {spec.Limits{}, `{"pad":"` + strings.Repeat("x", 20<<10) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := authorize(c.limits, c.claims); (err == nil) != c.ok {
				t.Errorf("got %v, want accepted %v", err, c.ok)
			}
		})
	}
}

func TestRequireExp(t *testing.T) {
	t.Parallel()
	j := newAuth(t, func(o *auth.Options) { o.RequireExp = true })
	_, err := j.Authorize(get("/hub", "Authorization: Bearer "+hs256(t, subscriberSecret, `{}`)), spec.ActionSubscribe)
	if p := problemOf(t, err); p.Reason != auth.ReasonNoExpiry {
		t.Errorf("got %+v", p)
	}
	claims := fmt.Sprintf(`{"exp":%d}`, time.Now().Add(time.Hour).Unix())
	if _, err := j.Authorize(get("/hub", "Authorization: Bearer "+hs256(t, subscriberSecret, claims)), spec.ActionSubscribe); err != nil {
		t.Error(err)
	}
}
