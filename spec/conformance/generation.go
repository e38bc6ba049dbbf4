package conformance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// The values of Target.Generation.
const (
	Classic = "classic"
	Draft08 = "draft-08"
	Both    = "both"
)

// Scope says how often a case is tried, and in whose parameters and tokens.
type Scope uint8

// The values of Scope.
const (
	OfClassic Scope = iota + 1 // once, in a run of the classic generation
	OfDraft08                  // once, in a run of draft-08
	OfEach                     // once for each generation of the run
	OfBoth                     // once, in a run of both
)

// generation is how a case speaks to the hub: the names that its parameters, its cookie and its claims have.
type generation struct {
	name     string
	selector string // parameter of a selector without a pattern
	pattern  string // parameter of a selector with one
	cursor   string
	cookie   string
	claim    string // of the grants
	any      string // what a pattern has for one path segment of any value
}

var (
	classic = &generation{Classic, spec.FieldTopic, spec.FieldTopic, "lastEventID", spec.CookieClassic, spec.ClaimMercure, "{any}"}
	draft08 = &generation{
		Draft08, spec.ParamMatch, spec.ParamMatchURLPattern, "last_event_id", spec.CookieDraft08, "authorization_details", ":any",
	}
)

// anyBelow returns a selector of every topic that is prefix and one more segment.
func (p *Probe) anyBelow(prefix string) string { return prefix + p.gen.any }

// isPattern reports whether a selector is one of anyBelow, which draft-08 has to be told.
func (g *generation) isPattern(selector string) bool { return strings.HasSuffix(selector, g.any) }

// topics encodes a subscription's selectors: strings, or what anyBelow returned.
func (p *Probe) topics(selectors ...string) string {
	kv := make([]string, 0, 2*len(selectors))
	for _, s := range selectors {
		name := p.gen.selector
		if p.gen.isPattern(s) {
			name = p.gen.pattern
		}
		kv = append(kv, name, s)
	}
	return form(kv...)
}

// speak makes the case go on in a generation.
func (p *Probe) speak(g *generation) { p.gen = g }

// runs returns the generations in which a case is tried, or why it is not; neither if it is none of the run's.
func (t Target) runs(s Scope) (gens []*generation, skip string) {
	inClassic, inDraft08 := t.Generation != Draft08, t.Generation != Classic
	switch s {
	case OfClassic:
		if inClassic {
			return []*generation{classic}, ""
		}
	case OfDraft08:
		if inDraft08 {
			return []*generation{draft08}, ""
		}
	case OfEach:
		if inClassic {
			gens = append(gens, classic)
		}
		if inDraft08 {
			gens = append(gens, draft08)
		}
		return gens, ""
	case OfBoth:
		if inClassic && inDraft08 {
			return []*generation{draft08}, ""
		}
	}
	switch {
	case t.chosen || s == OfClassic:
		return nil, "" // nobody asked for it
	case s == OfDraft08:
		return nil, "needs the key of an issuer"
	default:
		return nil, "needs the keys of both generations"
	}
}

// choose settles which generations are tried: those that Generation names, or those whose keys are there.
func choose(t *Target) error {
	hasClassic, hasDraft08 := t.PublisherKey != "" && t.SubscriberKey != "", t.Issuer != "" && t.IssuerKey != ""
	t.chosen = t.Generation != ""
	if !t.chosen {
		switch {
		case hasClassic && hasDraft08 && !t.NoClassic:
			t.Generation = Both
		case hasDraft08 || t.NoClassic:
			t.Generation = Draft08
		default:
			t.Generation = Classic
		}
	}
	switch t.Generation {
	case Classic, Draft08, Both:
	default:
		return fmt.Errorf("conformance: the generation is %q, want %s, %s or %s", t.Generation, Classic, Draft08, Both)
	}
	if t.Generation != Draft08 && !hasClassic {
		return errors.New("conformance: both the publisher's and the subscriber's key are needed for the classic generation")
	}
	if t.Generation != Classic && !hasDraft08 {
		return errors.New("conformance: an issuer and its key are needed for draft-08")
	}
	if t.NoClassic && t.Generation != Draft08 {
		return errors.New("conformance: a hub without the classic generation is tried in draft-08 alone")
	}
	return nil
}
