package spec

import (
	"encoding/json"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// Claims is what one generation's token says about Mercure, before anything is compiled.
type Claims struct {
	Publish   []topic.Selector
	Subscribe []topic.Selector
	Payload   json.RawMessage // of every subscription; nil for none; CLA-05
	Details   []Detail        // draft-08: the subscribe details with their payloads, in the token's order (D08-19)
}

// Detail is what one entry of authorization_details says of subscriptions.
type Detail struct {
	Topics  []topic.Selector
	Payload json.RawMessage // a JSON object, nil for none (D08-11)
}

// Dialect is one protocol generation as data: what it calls things and how it reads them.
// Everything else is common to both generations.
type Dialect struct {
	Name       string   // "classic", "draft-08"
	ResumeKeys []string // query parameters that may carry the cursor, in order of precedence; the header comes first
	Reconciled string   // response header in which the cursor is echoed
	Cookie     string   // default cookie name
	// Selectors reads this generation's parameters of a subscription request: none is not an error, see ReadSelectors.
	// It returns a *Problem (400).
	Selectors func(Form, Limits) ([]topic.Selector, error)
	// Claims reads the Mercure part of a verified token's payload. It returns a *Problem (401) when a
	// claim has the wrong shape (CLA-06, CLA-07) and empty Claims when there is none.
	Claims func(payload json.RawMessage, l Limits) (Claims, error)
	// Describe is how subscriptions that were made in this generation are told of.
	Describe *Description
}
