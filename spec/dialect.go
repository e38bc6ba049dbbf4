package spec

import (
	"encoding/json"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Claims is what one generation's token says about Mercure, before anything is compiled.
type Claims struct {
	Publish   []topic.Selector
	Subscribe []topic.Selector
	Payload   json.RawMessage // nil for none; CLA-05
}

// Dialect is one protocol generation as data: what it calls things and how it reads them.
// Everything else is common to both generations.
type Dialect struct {
	Name       string   // "classic", "draft-08"
	ResumeKeys []string // query parameters that may carry the cursor, in order of precedence; the header comes first
	Reconciled string   // response header in which the cursor is echoed
	Cookie     string   // default cookie name
	// Selectors reads a subscription request's query. It returns a *Problem (400).
	Selectors func(Form, Limits) ([]topic.Selector, error)
	// Claims reads the Mercure part of a verified token's payload. It returns a *Problem (401) when a
	// claim has the wrong shape (CLA-06, CLA-07) and empty Claims when there is none.
	Claims func(payload json.RawMessage, l Limits) (Claims, error)
	// Describe is how subscriptions that were made in this generation are told of.
	Describe *Description
}
