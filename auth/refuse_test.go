package auth_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

func TestChallenge(t *testing.T) {
	t.Parallel()
	const metadata = "https://hub.example.com/.well-known/oauth-protected-resource"
	for name, c := range map[string]struct {
		p        *spec.Problem
		metadata string
		want     string
	}{
		"no challenge":            {spec.BadRequest("x", "x"), metadata, ""},
		"no token":                {&spec.Problem{Challenge: true}, "", "Bearer"},
		"no token, with metadata": {&spec.Problem{Challenge: true}, metadata, `Bearer resource_metadata="` + metadata + `"`},
		"code":                    {&spec.Problem{Challenge: true, Code: "invalid_token", Detail: "d"}, "", `Bearer error="invalid_token"`},
		"both":                    {auth.Forbidden(spec.ActionPublish, "a"), metadata, `Bearer error="insufficient_scope", resource_metadata="` + metadata + `"`},
		"quotes and controls":     {&spec.Problem{Challenge: true}, "a\"b\\c\r\nX: y\x00é", `Bearer resource_metadata="a\"b\\cX: y"`},
	} {
		if got := auth.Challenge(c.p, c.metadata); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if p := auth.Forbidden(spec.ActionPublish, "a"); p.Status != 403 || !strings.Contains(p.Detail, `publish on topic "a"`) {
		t.Errorf("got %+v", p)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/hub?topic=a;b&authorization=abc.def.ghi&x=%zz": "/hub?topic=a;b&authorization=redacted&x=%zz",
		"/hub?%61uthorization=abc":                       "/hub?%61uthorization=redacted",
		"/hub?Authorization=abc&ACCESS_TOKEN=abc":        "/hub?Authorization=redacted&ACCESS_TOKEN=redacted",
		"/hub?access+token=abc&authorizations=abc":       "/hub?access+token=abc&authorizations=abc",
		"/hub?authorization=a&authorization=b":           "/hub?authorization=redacted&authorization=redacted",
		"/hub?authorization":                             "/hub?authorization=redacted",
		"https://u:secret@h/hub?":                        "https://u:xxxxx@h/hub?",
		"/hub":                                           "/hub",
		"/hub?" + strings.Repeat("a&", 1000) + "b&c":     "/hub?" + strings.Repeat("a&", 1000) + "redacted",
		"/hub?" + strings.Repeat("a&", 999) + "b":        "/hub?" + strings.Repeat("a&", 999) + "b",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := auth.Redact(u); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if u.String() != in {
			t.Errorf("%s was changed to %s", in, u)
		}
	}
}
