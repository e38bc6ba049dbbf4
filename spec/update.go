// Package spec holds the nouns of the Mercure protocol and the rules that need no server: what an
// update is and when it is valid, what the two protocol generations call things, and which errors
// exist. It is the leaf of the project: it imports only its own subpackage topic.
package spec

// Update is one publication. It is immutable once it has been validated.
type Update struct {
	Topics  []string // at least one; the first is canonical, the others are alternates
	ID      string   // UTF-8; empty until the transport has given one
	Type    string   // SSE event type, empty for none
	Data    string   // UTF-8, opaque
	Retry   uint64   // milliseconds, 0 for none
	Private bool
}

// Action is what a request wants to do.
type Action uint8

// The actions a token can be asked for.
const (
	ActionPublish Action = iota + 1
	ActionSubscribe
)

// String returns the name used in claims, logs and metrics.
func (a Action) String() string {
	switch a {
	case ActionPublish:
		return "publish"
	case ActionSubscribe:
		return "subscribe"
	default:
		return "unknown"
	}
}

// Limits bounds what a client may send; each is a flag of serve. The zero value of a field means its
// default (DefaultLimits). Source: REQUIREMENTS §13.
type Limits struct {
	BodyBytes      int64 // LIM-01, LIM-12
	Topics         int   // LIM-02, per publication
	TopicBytes     int   // LIM-03
	IDBytes        int   // LIM-04, id and type alike
	Selectors      int   // LIM-05, per subscription request
	SelectorBytes  int   // LIM-06
	Variables      int   // LIM-07, per template
	GrantSelectors int   // LIM-08, classic
	GrantMatchers  int   // LIM-08, draft-08: of all details together
	GrantDetails   int   // LIM-08, draft-08
	TokenBytes     int   // LIM-09
	HeadBytes      int   // LIM-13
}

// DefaultLimits are the defaults of REQUIREMENTS §13.
func DefaultLimits() Limits {
	return Limits{
		BodyBytes: 1 << 20, Topics: 100, TopicBytes: 2048, IDBytes: 1024, Selectors: 100, SelectorBytes: 4096,
		Variables: 32, GrantSelectors: 1000, GrantMatchers: 100, GrantDetails: 100,
		TokenBytes: 16 << 10, HeadBytes: 64 << 10,
	}
}

// WithDefaults returns l with every zero or negative field replaced by its default.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits()
	if l.BodyBytes > 0 {
		d.BodyBytes = l.BodyBytes
	}
	for _, f := range []struct{ to, from *int }{
		{&d.Topics, &l.Topics},
		{&d.TopicBytes, &l.TopicBytes},
		{&d.IDBytes, &l.IDBytes},
		{&d.Selectors, &l.Selectors},
		{&d.SelectorBytes, &l.SelectorBytes},
		{&d.Variables, &l.Variables},
		{&d.GrantSelectors, &l.GrantSelectors},
		{&d.GrantMatchers, &l.GrantMatchers},
		{&d.GrantDetails, &l.GrantDetails},
		{&d.TokenBytes, &l.TokenBytes},
		{&d.HeadBytes, &l.HeadBytes},
	} {
		if *f.from > 0 {
			*f.to = *f.from
		}
	}
	return d
}
