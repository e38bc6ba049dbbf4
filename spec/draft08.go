package spec

import "github.com/cinnabar-hub/cinnabar/spec/topic"

// Draft08 is the rewritten protocol. It is read only.
var Draft08 = Dialect{
	Name:       "draft-08",
	ResumeKeys: []string{"last_event_id"},
	Reconciled: HeaderMercureLastEventID,
	Cookie:     CookieDraft08,
	Selectors:  draft08Selectors,
	Claims:     draft08Claims,
	Describe:   &describeDraft08,
}

// draft08Selectors reads the parameters match, match_exact and match_urlpattern.
// Source: draft-08 §Subscription; SUB-08, SUB-09, SUB-13 … SUB-15, SUB-18 … SUB-20.
func draft08Selectors(f Form, l Limits) ([]topic.Selector, error) {
	var s selectorReader
	for i := range f {
		if kind := matcherKind(f[i].Name); kind != 0 {
			if err := s.read(f[i], kind, l); err != nil {
				return nil, err
			}
		}
	}
	return s.list, nil
}
