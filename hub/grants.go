package hub

import "github.com/cinnabar-hub/cinnabar/auth"

// grantMemo remembers, during one private update, what was decided for a grant: subscribers with the
// same token share it. The zero value is ready.
type grantMemo struct {
	last    *auth.Grant
	verdict bool
	rest    map[*auth.Grant]bool
}

func (m *grantMemo) allows(g *auth.Grant, topics []string) bool {
	if g == m.last {
		return m.verdict
	}
	verdict, ok := m.rest[g]
	if !ok {
		verdict = g.Allows(topics)
		if m.rest == nil {
			m.rest = map[*auth.Grant]bool{}
		}
		m.rest[g] = verdict
	}
	m.last, m.verdict = g, verdict
	return verdict
}
