package auth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// Reasons of the problems made here: labels for metrics and logs, a closed set.
const (
	ReasonNoToken       = "no_token"              // 401, nothing was presented
	ReasonNotConfigured = "role_not_configured"   // 401, the role has no keys
	ReasonPresentation  = "bad_authorization"     // 400, AUT-03
	ReasonOrigin        = "origin_refused"        // 400, CORS-06
	ReasonUnverified    = "token_unverified"      // 401, malformed or not signed with the role's key
	ReasonAlgorithm     = "token_algorithm"       // 401, AUT-07
	ReasonGeneration    = "wrong_token_type"      // 401, G-01, G-03, G-22: of a generation that is not taken, or one that meant to be
	ReasonTooLong       = "token_too_long"        // 401, LIM-09
	ReasonCritical      = "token_critical_header" // 401, AUT-09
	ReasonExpired       = "token_expired"         // 401, AUT-11
	ReasonNotYetValid   = "token_not_yet_valid"   // 401, AUT-11
	ReasonNoExpiry      = "token_without_exp"     // 401, CLA-12, D08-02
	ReasonAudience      = "wrong_audience"        // 401, D08-02
	ReasonIssuer        = "wrong_issuer"          // 401, D08-02; only of a verified token
	ReasonClaims        = "invalid_claims"        // 401, CLA-06, CLA-07, LIM-08; spec's Claims has more of its own
	ReasonNotGranted    = "not_granted"           // 403, PUB-27
)

// Texts of everything that is refused before a signature has been verified (ERR-08).
const (
	textUnverified = "token not verified with the key for this role"
	textAlgorithm  = "algorithm not accepted"
)

// missing is the challenge of a request without a token: no error code (ERR-01).
func missing(reason, detail string, cause error) *spec.Problem {
	return &spec.Problem{Status: http.StatusUnauthorized, Reason: reason, Challenge: true, Detail: detail, Cause: cause}
}

// malformed is a token that was presented in a way nobody may (ERR-04).
func malformed(reason, detail string) *spec.Problem {
	return &spec.Problem{
		Status: http.StatusBadRequest, Reason: reason, Code: spec.CodeInvalidRequest, Challenge: true, Detail: detail,
	}
}

// invalid is a token that was read and refused (ERR-02).
func invalid(reason, detail, cause string) *spec.Problem {
	p := &spec.Problem{
		Status: http.StatusUnauthorized, Reason: reason, Code: spec.CodeInvalidToken, Challenge: true, Detail: detail,
	}
	if cause != "" {
		p.Cause = errors.New(cause)
	}
	return p
}

// Forbidden is the refusal of a verified token that does not cover topic (ERR-03, PUB-27, G-14).
func Forbidden(act spec.Action, topic string) *spec.Problem {
	return &spec.Problem{
		Status: http.StatusForbidden, Reason: ReasonNotGranted, Code: spec.CodeInsufficientScope, Challenge: true,
		Detail: fmt.Sprintf("the token does not grant %s on topic %q", act, topic),
	}
}

// Challenge is the value of WWW-Authenticate for p, or "" if p has none. resourceMetadata is the absolute URL
// of the metadata document, empty as long as none is published (ERR-07). The reason stands in the body, not
// here: parameters are the ones clients act upon. Source: RFC 6750 §3; RFC 9728 §5.1; ERR-01 … ERR-06.
func Challenge(p *spec.Problem, resourceMetadata string) string {
	if !p.Challenge {
		return ""
	}
	var params []string
	if p.Code != "" {
		params = append(params, "error="+quoted(p.Code))
	}
	if resourceMetadata != "" {
		params = append(params, "resource_metadata="+quoted(resourceMetadata))
	}
	if len(params) == 0 {
		return "Bearer"
	}
	return "Bearer " + strings.Join(params, ", ")
}

// quoted is an HTTP quoted-string of the printable ASCII in s.
func quoted(s string) string {
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ' && c < 0x7f:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
