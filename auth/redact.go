package auth

import (
	"net/url"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Redact returns u for a log: the values of the query parameters that may hold a token are replaced, whatever
// the case or escaping of their names, and so is a password; everything else stays as it was sent. u is not
// changed. Of a query with more than 1,000 parameters the rest is replaced too. Source: AUT-13.
func Redact(u *url.URL) string {
	c := *u
	if c.RawQuery != "" {
		c.RawQuery = redactQuery(c.RawQuery)
	}
	return c.Redacted()
}

// maxRedacted is how many parameters of a query are looked at; the rest of a longer one is left out.
const maxRedacted = 1000

func redactQuery(query string) string {
	var b strings.Builder
	b.Grow(len(query))
	for n := 0; ; n++ {
		pair, rest, more := strings.Cut(query, "&")
		if n == maxRedacted {
			b.WriteString("redacted")
			return b.String()
		}
		form := spec.ParseForm(pair)
		if len(form) == 1 && holdsToken(form[0].Name) {
			name, _, _ := strings.Cut(pair, "=")
			b.WriteString(name + "=redacted")
		} else {
			b.WriteString(pair)
		}
		if !more {
			return b.String()
		}
		b.WriteByte('&')
		query = rest
	}
}

// holdsToken reports whether a query parameter of this name may hold a token, ours or another generation's.
func holdsToken(name string) bool {
	return strings.EqualFold(name, spec.ParamAuthorization) || strings.EqualFold(name, "access_token")
}
