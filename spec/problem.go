package spec

import (
	"fmt"
	"net/http"
	"time"
)

// OAuth 2.0 error codes carried by a challenge. Source: RFC 6750 §3.1; ERR-01 … ERR-04.
const (
	CodeInvalidRequest    = "invalid_request"
	CodeInvalidToken      = "invalid_token"
	CodeInsufficientScope = "insufficient_scope"
)

// Problem is an error that may be shown to a client. It is a value to read after construction.
type Problem struct {
	Status     int           // HTTP status, 400 … 599
	Reason     string        // snake_case label for metrics and logs, from a closed set; never client input
	Code       string        // OAuth error code, empty when the challenge has none or there is no challenge
	Challenge  bool          // whether the answer carries WWW-Authenticate
	Detail     string        // public text: which field or limit, or why a verified token was refused
	RetryAfter time.Duration // 0 = no Retry-After
	Cause      error         // private: for the log only, never rendered
}

// Error returns the public text followed by the private cause; it is meant for logs.
func (p *Problem) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%s: %v", p.Detail, p.Cause)
	}
	return p.Detail
}

// Unwrap returns the private cause.
func (p *Problem) Unwrap() error { return p.Cause }

// BadRequest is a 400 with a formatted public text (ERR-05).
func BadRequest(reason, format string, args ...any) *Problem {
	return &Problem{Status: http.StatusBadRequest, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// TooLarge is a 413 with a formatted public text that names the limit (LIM-01 … LIM-04).
func TooLarge(reason, format string, args ...any) *Problem {
	return &Problem{Status: http.StatusRequestEntityTooLarge, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
