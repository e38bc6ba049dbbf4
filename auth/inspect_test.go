package auth_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
)

func TestInspectExplainsAToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		token, err := auth.Mint(auth.MintOptions{
			Key: publisherSecret, Publish: []string{"https://example.com/{id}", "news"}, Subscribe: []string{"*"},
			Payload: json.RawMessage(`{"a":1}`), Subject: "me", TTL: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := auth.Inspect(" "+token+"\n", auth.InspectOptions{
			Keys: mustKeys(t, publisherSecret, ""), Topics: []string{"https://example.com/1", "news", "other"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Checked || !r.Verified || !r.Accepted || r.Problems != nil || r.Dialect != "classic" || r.Subject != "me" {
			t.Errorf("report %+v", r)
		}
		if r.Expires == nil || !r.Expires.Equal(time.Now().Add(time.Hour)) || !r.IssuedAt.Equal(time.Now()) || r.NotBefore != nil {
			t.Errorf("dates %v %v %v", r.IssuedAt, r.NotBefore, r.Expires)
		}
		wildcard := auth.Verdict{Granted: true, Selector: "*", Reason: "* selects every topic"}
		want := []auth.TopicReport{
			{"https://example.com/1", auth.Verdict{true, "https://example.com/{id}", "the URI template https://example.com/{id} can expand to it"}, wildcard},
			{"news", auth.Verdict{true, "news", "the selector equals the topic"}, wildcard},
			{"other", auth.Verdict{Reason: "none of the 2 mercure.publish selectors selects it"}, wildcard},
		}
		if !slices.Equal(r.Topics, want) {
			t.Errorf("topics %+v, want %+v", r.Topics, want)
		}
		text := r.String()
		for _, part := range []string{
			`{"alg":"HS256","typ":"JWT"}`, "signature  verified", "expires    2000-01-01T01:00:00Z", `publish    "https://example.com/{id}", "news"`,
			`payload    {"a":1}`, "publish:   no, none of the 2", "subscribe: yes, *", "accepted   yes",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in\n%s", part, text)
			}
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(toJSON(t, r)), &members); err != nil || string(members["accepted"]) != "true" || string(members["payload"]) != `{"a":1}` {
			t.Errorf("JSON form %s (%v)", toJSON(t, r), err)
		}
		if strings.Contains(text+toJSON(t, r), token) {
			t.Error("the report contains the token")
		}
	})
}

func TestInspectSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	keys := mustKeys(t, publisherSecret, "")
	for name, c := range map[string]struct {
		token    string
		keys     auth.Keys
		verified bool
		problem  string // "" = accepted
	}{
		"without a key":     {hs256(t, evilSecret, `{}`), nil, false, ""},
		"another key":       {hs256(t, evilSecret, `{}`), keys, false, "its signature does not match the key; the key is for HS256"},
		"another algorithm": {sign(t, `{"alg":"ES256"}`, `{}`, "ES256", s.es256), keys, false, "its algorithm is not the one configured"},
		"expired":           {hs256(t, publisherSecret, `{"exp":1}`), keys, true, "expired since 1970-01-01T00:00:01Z"},
		"early":             {hs256(t, publisherSecret, `{"nbf":99999999999}`), keys, true, "not valid before"},
		"shape":             {hs256(t, publisherSecret, `{"mercure":{"publish":"*"}}`), keys, true, "mercure.publish is not an array"},
		"over a limit":      {hs256(t, publisherSecret, `{"mercure":{"publish":["`+strings.Repeat("{a}", 33)+`"]}}`), keys, true, "33 template variables"},
		"critical":          {sign(t, `{"alg":"HS256","crit":["x"]}`, `{}`, "HS256", []byte(publisherSecret)), keys, true, "crit header"},
		"draft-08":          {sign(t, `{"alg":"HS256","typ":"at+jwt"}`, `{"iss":"i","aud":"h","exp":1}`, "HS256", []byte(publisherSecret)), keys, true, "expired since"},
		"draft-08 for ever": {sign(t, `{"alg":"HS256","typ":"at+jwt"}`, `{"iss":"i","aud":"h"}`, "HS256", []byte(publisherSecret)), keys, true, "no exp"},
		"neither":           {hs256(t, publisherSecret, `{"authorization_details":[{"type":"https://mercure.rocks/authorization-detail"}]}`), keys, true, "not of type at+jwt"},
		"too long":          {hs256(t, publisherSecret, `{"pad":"`+strings.Repeat("x", 16<<10)+`"}`), keys, true, "hubs take 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := auth.Inspect(c.token, auth.InspectOptions{Keys: c.keys, Topics: []string{"a"}})
			if err != nil {
				t.Fatal(err)
			}
			if r.Verified != c.verified || r.Checked != (c.keys != nil) || r.Accepted != (c.problem == "") {
				t.Errorf("checked %v, verified %v, accepted %v", r.Checked, r.Verified, r.Accepted)
			}
			if c.problem != "" && (len(r.Problems) != 1 || !strings.Contains(r.Problems[0], c.problem) || !strings.Contains(r.String(), c.problem)) {
				t.Errorf("problems %q, want one with %q", r.Problems, c.problem)
			}
		})
	}
}

func TestInspectDoesNotSteerATerminal(t *testing.T) {
	t.Parallel()
	token := sign(t, "{\"alg\":\"HS256\",\r\n \"kid\":\"\u009b2J\x9b\"}", "{\"mercure\":{\n\"subscribe\":[\"\u202e{a}\"],\"payload\":\t\"\U000e0041 é\"}}",
		"HS256", []byte(subscriberSecret))
	r, err := auth.Inspect(token, auth.InspectOptions{Topics: []string{"\u202ex", "\x1b]0;owned\a\n"}})
	if err != nil {
		t.Fatal(err)
	}
	text := r.String()
	for _, c := range text {
		if c != '\n' && !strconv.IsPrint(c) {
			t.Errorf("%U in\n%q", c, text)
		}
	}
	for _, line := range []string{
		`header     {"alg":"HS256","kid":"\u009b2J` + "\uFFFD" + `"}`, `payload    "\udb40\udc41 é"`, `topic      \u001b]0;owned\u0007\u000a`,
		`           subscribe: yes, the URI template \u202e{a} can expand to it`,
	} {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func TestInspectNeedsAToken(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		"":                              "three parts",
		"a.b":                           "three parts",
		"?.b.c":                         "header part is not base64url",
		"e3\n0.e30.c":                   "header part is not base64url",
		segment("{}") + ".?.c":          "claims part is not base64url",
		segment("7") + ".e30.c":         "header part is not a JSON object",
		"e30." + segment("null") + ".c": "claims part is not a JSON object",
	} {
		if _, err := auth.Inspect(token, auth.InspectOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", token, err, want)
		}
	}
}
