package auth

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Report is what there is to say about one token. It holds the token's claims but never the token; its JSON
// form is an object with the members below.
type Report struct {
	Header  json.RawMessage `json:"header"`
	Claims  json.RawMessage `json:"claims"`
	Dialect string          `json:"dialect"` // "classic", "draft-08": whose rules a hub applies
	Why     string          `json:"why"`     // what made it that one (G-01)

	Checked  bool `json:"checked"`  // a key was given
	Verified bool `json:"verified"` // the signature is that key's
	Accepted bool `json:"accepted"` // a hub with that key would take it now; without a key: but for the signature

	Problems  []string   `json:"problems,omitempty"` // why it is not accepted, in plain words
	Issuer    string     `json:"issuer,omitempty"`   // draft-08, as are the next two
	Audience  []string   `json:"audience,omitempty"`
	Client    string     `json:"client,omitempty"`
	Subject   string     `json:"subject,omitempty"`
	IssuedAt  *time.Time `json:"issued_at,omitempty"`
	NotBefore *time.Time `json:"not_before,omitempty"`
	Expires   *time.Time `json:"expires,omitempty"` // nil = never

	Publish   []string        `json:"publish"`            // selectors, those of URL patterns begin with "urlpattern:"
	Subscribe []string        `json:"subscribe"`          // the same
	Payload   json.RawMessage `json:"payload,omitempty"`  // classic
	Payloads  []PayloadReport `json:"payloads,omitempty"` // draft-08: in order, the first that selects counts
	Topics    []TopicReport   `json:"topics,omitempty"`   // one for each topic asked about, in order
}

// PayloadReport says what one detail of a draft-08 token attaches to subscriptions.
type PayloadReport struct {
	Topics  []string        `json:"topics"`            // as in Report.Subscribe
	Payload json.RawMessage `json:"payload,omitempty"` // nil for none
}

// TopicReport says what a token grants for one topic.
type TopicReport struct {
	Topic     string  `json:"topic"`
	Publish   Verdict `json:"publish"`
	Subscribe Verdict `json:"subscribe"`
}

// Verdict is one answer and its reason.
type Verdict struct {
	Granted  bool   `json:"granted"`
	Selector string `json:"selector,omitempty"` // the first one that selects the topic
	Reason   string `json:"reason"`
}

// String is the report for a terminal, several lines long. What could steer a terminal is written as escapes.
func (r Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, visible(fmt.Sprintf(format, args...)))
	}
	line("header", "%s", oneLine(r.Header))
	line("claims", "%s", oneLine(r.Claims))
	line("dialect", "%s: %s", r.Dialect, r.Why)
	if r.Issuer != "" {
		line("issuer", "%s", r.Issuer)
	}
	if r.Audience != nil {
		line("audience", "%s", listed(r.Audience))
	}
	switch {
	case !r.Checked:
		line("signature", "not checked (no key given)")
	case r.Verified:
		line("signature", "verified")
	default:
		line("signature", "NOT verified")
	}
	if r.NotBefore != nil {
		line("not before", "%s", r.NotBefore.Format(time.RFC3339))
	}
	if r.Expires != nil {
		line("expires", "%s", r.Expires.Format(time.RFC3339))
	} else {
		line("expires", "never")
	}
	line("publish", "%s", listed(r.Publish))
	line("subscribe", "%s", listed(r.Subscribe))
	if r.Payload != nil {
		line("payload", "%s", oneLine(r.Payload))
	}
	for _, p := range r.Payloads {
		line("payload", "%s of %s", cmp.Or(string(oneLine(p.Payload)), "none"), listed(p.Topics))
	}
	for _, t := range r.Topics {
		line("topic", "%s", t.Topic)
		line("", "publish:   %s", t.Publish)
		line("", "subscribe: %s", t.Subscribe)
	}
	if r.Accepted {
		line("accepted", "yes")
	} else {
		line("accepted", "NO")
	}
	for _, p := range r.Problems {
		line("", "- %s", p)
	}
	return b.String()
}

// String is the verdict in words.
func (v Verdict) String() string {
	if v.Granted {
		return "yes, " + v.Reason
	}
	return "no, " + v.Reason
}

// listed prints selectors so that blanks and control characters are seen.
func listed(selectors []string) string {
	if len(selectors) == 0 {
		return "nothing"
	}
	quoted := make([]string, len(selectors))
	for i, s := range selectors {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(quoted, ", ")
}
