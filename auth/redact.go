package auth

import (
	"net/url"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Redact returns u for a log: the values of the query parameters that may hold a token are replaced, whatever
// the case or escaping of their names, and so is a password; everything else stays as it was sent. u is not
// changed. Source: AUT-13.
func Redact(u *url.URL) string {
	c := *u
	if c.RawQuery != "" {
		pairs := strings.Split(c.RawQuery, "&")
		for i, pair := range pairs {
			form := spec.ParseForm(pair)
			if len(form) == 1 && holdsToken(form[0].Name) {
				name, _, _ := strings.Cut(pair, "=")
				pairs[i] = name + "=redacted"
			}
		}
		c.RawQuery = strings.Join(pairs, "&")
	}
	return c.Redacted()
}

// holdsToken reports whether a query parameter of this name may hold a token, ours or another generation's.
func holdsToken(name string) bool {
	return strings.EqualFold(name, spec.ParamAuthorization) || strings.EqualFold(name, "access_token")
}
