package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// token returns the one token that r presents, "" if it presents none. The order of places is header, query,
// cookie; the first place that holds something is the only one looked at (AUT-01, AUT-04, CLA-09, G-06).
func (j *JWT) token(r *http.Request, act spec.Action) (string, error) {
	if fields := r.Header.Values("Authorization"); len(fields) > 0 {
		return bearer(fields)
	}
	if j.readsQuery(r, act) {
		if token, err := queryToken(r.URL.RawQuery, j.limits.FormFields()); token != "" || err != nil {
			return token, err
		}
	}
	token := ""
	for _, name := range j.cookies {
		if token = cookieToken(r, name); token != "" {
			break
		}
	}
	if token == "" || safe(r.Method) {
		return token, nil
	}
	if why, ok := j.origins.allow(r); !ok {
		p := malformed(ReasonOrigin, why)
		p.Cause = j.origins.seen(r)
		return "", p
	}
	return token, nil
}

// bearer reads the Authorization header (AUT-02, AUT-03; RFC 6750 §2.1).
func bearer(fields []string) (string, error) {
	if len(fields) > 1 {
		return "", malformed(ReasonPresentation, "more than one Authorization header")
	}
	scheme, token, _ := strings.Cut(fields[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", malformed(ReasonPresentation, "the Authorization header must use the Bearer scheme")
	}
	token = strings.Trim(token, " \t")
	switch {
	case token == "":
		return "", malformed(ReasonPresentation, "the Authorization header has no token")
	case strings.ContainsAny(token, " \t,"):
		return "", malformed(ReasonPresentation, "the Authorization header has more than one token")
	}
	return token, nil
}

// readsQuery reports whether the query parameter counts for this request (G-05). Draft-08's access_token is
// never read.
func (j *JWT) readsQuery(r *http.Request, act spec.Action) bool {
	switch j.query {
	case QueryTokenAll:
		return true
	case QueryTokenSubscribe:
		return act == spec.ActionSubscribe && (r.Method == http.MethodGet || r.Method == http.MethodHead)
	default:
		return false
	}
}

// queryToken returns the token of the query, "" if there is none. A token typed at+jwt counts as none: such a
// token is never accepted from a URL (D08-17, G-05). A parameter that is there but empty is a mistake of the
// client and not an anonymous request. A query of more than maxFields fields is refused, as the hub does.
func queryToken(rawQuery string, maxFields int) (string, error) {
	form, err := spec.ParseFormLimit(rawQuery, maxFields)
	if err != nil {
		return "", err
	}
	found := ""
	count := 0
	for _, v := range form.All(spec.ParamAuthorization) {
		if accessTokenType(peekType(v)) {
			continue
		}
		found = v
		count++
	}
	switch {
	case count > 1:
		return "", malformed(ReasonPresentation, "more than one authorization parameter")
	case count == 1 && found == "":
		return "", malformed(ReasonPresentation, "the authorization parameter has no token")
	}
	return found, nil
}

// cookieToken returns the value of the first cookie called name, "" if there is none: the first one is final,
// whatever follows it (G-06). net/http's reader would skip a value it finds malformed, and with it turn a
// present token into an absent one (AUT-04). An empty value is what a log-out leaves behind and counts as no
// cookie.
func cookieToken(r *http.Request, name string) string {
	for _, line := range r.Header.Values("Cookie") {
		for pair := range strings.SplitSeq(line, ";") {
			n, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
			if n != name {
				continue
			}
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			return value
		}
	}
	return ""
}

// safe reports whether method changes nothing, so that a foreign page gains nothing by sending it with the
// cookie (CORS-08, CORS-09).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "QUERY":
		return true
	}
	return false
}

// decodeSegment decodes a part of a token as strictly as its signature is read: one value has one spelling.
func decodeSegment(s string) ([]byte, error) {
	if broken(s) {
		return nil, errors.New("a line break is not base64url")
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// broken reports whether s holds a line break, which encoding/base64 skips even when it is strict.
func broken(s string) bool { return strings.ContainsAny(s, "\r\n") }

// peekType returns the typ that a token claims, unverified; "" if it cannot be read.
func peekType(token string) any {
	segment, _, _ := strings.Cut(token, ".")
	raw, err := decodeSegment(segment)
	if err != nil {
		return nil
	}
	var header map[string]any
	if json.Unmarshal(raw, &header) != nil {
		return nil
	}
	return header["typ"]
}

// peekIssuer returns the iss that a token claims, unverified and only to choose whose keys are tried; "" if it cannot
// be read. The claims are those bytes that the signature is over, so that nobody reads another iss from them later.
func peekIssuer(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	segment, _, _ := strings.Cut(rest, ".")
	raw, err := decodeSegment(segment)
	if err != nil {
		return ""
	}
	return issuerOf(raw)
}

// issuerOf returns the iss of a claims set, "" if it has none.
func issuerOf(claims json.RawMessage) string {
	var members map[string]json.RawMessage
	var iss string
	if json.Unmarshal(claims, &members) != nil || json.Unmarshal(members["iss"], &iss) != nil {
		return ""
	}
	return iss
}

// accessTokenType reports whether typ marks a draft-08 token. Source: D08-01; RFC 9068 §2.1.
func accessTokenType(typ any) bool {
	s, ok := typ.(string)
	return ok && (strings.EqualFold(s, spec.TokenTypeDraft08) || strings.EqualFold(s, "application/"+spec.TokenTypeDraft08))
}
