package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Report is what there is to say about one token. It holds the token's claims but never the token; its JSON
// form is an object with the members below.
type Report struct {
	Header  json.RawMessage `json:"header"`
	Claims  json.RawMessage `json:"claims"`
	Dialect string          `json:"dialect"` // "classic", "draft-08"

	Checked  bool `json:"checked"`  // a key was given
	Verified bool `json:"verified"` // the signature is that key's
	Accepted bool `json:"accepted"` // a hub with that key would take it now; without a key: but for the signature

	Problems  []string   `json:"problems,omitempty"` // why it is not accepted, in plain words
	Subject   string     `json:"subject,omitempty"`
	IssuedAt  *time.Time `json:"issued_at,omitempty"`
	NotBefore *time.Time `json:"not_before,omitempty"`
	Expires   *time.Time `json:"expires,omitempty"` // nil = never

	Publish   []string        `json:"publish"`   // selectors
	Subscribe []string        `json:"subscribe"` // selectors
	Payload   json.RawMessage `json:"payload,omitempty"`
	Topics    []TopicReport   `json:"topics,omitempty"` // one for each topic asked about, in order
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

// Inspect explains a token with the default limits. With keys, it also says whether the signature is theirs; nil
// leaves the signature unchecked, and then nothing in the report can be trusted. It returns an error only if
// token is not a JSON Web Signature whose header and claims can be read.
func Inspect(token string, keys Keys, topics []string) (Report, error) {
	r, err := dissect(token)
	if err != nil {
		return Report{}, err
	}
	r.Checked = keys != nil
	limits := spec.DefaultLimits()
	if len(token) > limits.TokenBytes {
		r.problem(fmt.Errorf("it has %d bytes, hubs take %d unless configured otherwise", len(token), limits.TokenBytes))
	}
	var header map[string]any
	_ = json.Unmarshal(r.Header, &header) // dissect has read it before
	r.Dialect = spec.Classic.Name
	if accessTokenType(header["typ"]) {
		r.Dialect = "draft-08"
		r.problem(errGeneration)
	}
	if keys != nil && r.Dialect == spec.Classic.Name { // a classic key never verifies a draft-08 token
		r.verify(token, keys)
	}
	if _, critical := header["crit"]; critical {
		r.problem(errors.New("its crit header names extensions that this hub does not know"))
	}
	r.dates()
	if r.Dialect == spec.Classic.Name {
		r.grants(limits, topics)
	}
	r.Accepted = len(r.Problems) == 0
	return r.Report, nil
}

// inspection is a report in the making.
type inspection struct{ Report }

// dissect splits token and decodes what can be decoded without a key.
func dissect(token string) (*inspection, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("inspect: a token has three parts separated by dots, this has %d", len(parts))
	}
	r := &inspection{}
	for i, to := range []*json.RawMessage{&r.Header, &r.Claims} {
		name := [...]string{"header", "claims"}[i]
		raw, err := decodeSegment(parts[i])
		if err != nil {
			return nil, fmt.Errorf("inspect: the %s part is not base64url", name)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil || object == nil {
			return nil, fmt.Errorf("inspect: the %s part is not a JSON object", name)
		}
		*to = raw
	}
	return r, nil
}

func (r *inspection) problem(err error) {
	if p, ok := errors.AsType[*spec.Problem](err); ok {
		r.Problems = append(r.Problems, p.Detail)
		return
	}
	r.Problems = append(r.Problems, err.Error())
}

// verify checks the signature; unlike a hub's answer it may tell why it does not hold.
func (r *inspection) verify(token string, keys Keys) {
	_, _, err := verify(context.Background(), newValidator(keys, nil), strings.TrimSpace(token)) //nolint:forbidigo // waits at most for one fetch of a key set
	if err == nil {
		r.Verified = true
		return
	}
	if p, ok := errors.AsType[*spec.Problem](err); ok && p.Cause != nil {
		err = p.Cause
	}
	r.problem(fmt.Errorf("not verified: %w; the key is for %s", err, strings.Join(keys.Algorithms(), ", ")))
}

// dates reads the registered claims.
func (r *inspection) dates() {
	reg, err := readRegistered(r.Claims)
	if err == nil {
		err = reg.check(time.Now(), false)
	}
	if err != nil {
		r.problem(err)
	}
	r.Subject = reg.subject
	r.IssuedAt, r.NotBefore, r.Expires = given(reg.issued), given(reg.notBefore), given(reg.expires)
}

// given is nil for the zero time.
func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// grants reads the mercure claim and asks it about topics.
func (r *inspection) grants(limits spec.Limits, topics []string) {
	claims, err := spec.Classic.Claims(r.Claims, limits)
	if err != nil {
		r.problem(err)
		return
	}
	r.Payload = claims.Payload
	rules := newRules(false, "", nil, limits)
	publish := r.compile(rules, spec.ActionPublish, claims.Publish, &r.Publish)
	subscribe := r.compile(rules, spec.ActionSubscribe, claims.Subscribe, &r.Subscribe)
	for _, t := range topics {
		r.Topics = append(r.Topics, TopicReport{
			Topic:     t,
			Publish:   verdict(spec.ActionPublish, t, claims.Publish, publish),
			Subscribe: verdict(spec.ActionSubscribe, t, claims.Subscribe, subscribe),
		})
	}
}

// compile lists the selectors of one action; a selector over the limits refuses the token and is left out.
func (r *inspection) compile(rules rules, act spec.Action, selectors []topic.Selector, names *[]string) []topic.Matcher {
	matchers := make([]topic.Matcher, len(selectors))
	for i, s := range selectors {
		*names = append(*names, s.Pattern)
		m, err := rules.patterns.Compile(s)
		if err != nil {
			r.problem(fmt.Errorf("mercure.%s: selector %q: %w", act, s.Pattern, err))
			continue
		}
		matchers[i] = m
	}
	return matchers
}

// verdict finds the first selector that selects t.
func verdict(act spec.Action, t string, selectors []topic.Selector, matchers []topic.Matcher) Verdict {
	if len(selectors) == 0 {
		return Verdict{Reason: fmt.Sprintf("the token has no mercure.%s selector", act)}
	}
	i := slices.IndexFunc(matchers, func(m topic.Matcher) bool { return m != nil && m.Match(t) })
	if i < 0 {
		return Verdict{Reason: fmt.Sprintf("none of the %d mercure.%s selectors selects it", len(selectors), act)}
	}
	s := selectors[i].Pattern
	v := Verdict{Granted: true, Selector: s}
	switch s {
	case spec.Wildcard:
		v.Reason = "* selects every topic"
	case t:
		v.Reason = "the selector equals the topic"
	default:
		v.Reason = fmt.Sprintf("the URI template %s can expand to it", s)
	}
	return v
}

// String is the report for a terminal, several lines long. What could steer a terminal is written as escapes.
func (r Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, visible(fmt.Sprintf(format, args...)))
	}
	line("header", "%s", oneLine(r.Header))
	line("claims", "%s", oneLine(r.Claims))
	line("dialect", "%s", r.Dialect)
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
