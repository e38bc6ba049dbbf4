package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

const (
	countsDefault = 1000      // selectors in one answer
	countsMost    = 100_000   // that may be asked for
	banDefault    = "5m"      // for how long somebody is kept away who does not say
	banBytes      = 256 << 10 // of a request: a subject is as long as a token at most
)

// Counts is how many subscriptions there are on all nodes together, by selector.
type Counts struct {
	Topic         string          `json:"topic,omitempty"` // only selectors that match it were counted
	Subscribers   int             `json:"subscribers"`     // connections with at least one of the subscriptions
	Subscriptions int             `json:"subscriptions"`
	Selectors     []SelectorCount `json:"selectors"`      // those with most subscriptions first
	More          int             `json:"more,omitempty"` // selectors that are not in the list; their subscriptions are counted
}

// SelectorCount is how many subscriptions with one selector there are.
type SelectorCount struct {
	MatchType     string `json:"match_type,omitempty"` // draft-08's name of its kind, empty = a classic topic selector
	Selector      string `json:"selector"`
	Subscriptions int    `json:"subscriptions"`
}

// Disconnected is what an order to disconnect has brought about.
type Disconnected struct {
	transport.Banned
	Subject string `json:"subject,omitempty"` // that is kept away; empty = nobody is
	For     string `json:"for"`               // how long, as Go writes durations
}

// subscribers answers for who is subscribed.
type subscribers struct {
	base       *url.URL
	directory  func() transport.Directory
	disconnect func(context.Context, transport.Ban) (transport.Banned, error)
}

// get returns the directory, or answers the request when there is none.
func (s subscribers) get(w http.ResponseWriter) transport.Directory {
	if s.directory == nil {
		answer(w, http.StatusNotFound, "this hub does not keep a list of its subscribers: start it with --subscriptions")
		return nil
	}
	if found := s.directory(); found != nil {
		return found
	}
	answer(w, http.StatusServiceUnavailable, "starting")
	return nil
}

// counts takes a topic in `topic`, and in `limit` how many selectors to list.
func (s subscribers) counts(w http.ResponseWriter, r *http.Request) {
	limit := countsDefault
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > countsMost {
			answer(w, http.StatusBadRequest, "limit: want a number up to "+strconv.Itoa(countsMost))
			return
		}
		limit = n
	}
	directory := s.get(w)
	if directory == nil {
		return
	}
	all, err := directory.List(r.Context())
	if err != nil {
		answer(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeJSON(w, s.count(all, r.URL.Query().Get("topic"), limit))
}

// count counts subscriptions whose selectors match about, or all if that is empty.
func (s subscribers) count(all []transport.Presence, about string, limit int) Counts {
	c := Counts{Topic: about, Selectors: []SelectorCount{}}
	wanted := map[topic.Selector]bool{}
	bySelector := map[topic.Selector]int{}
	for _, p := range all {
		before := c.Subscriptions
		for _, sel := range p.Selectors {
			matches, known := wanted[sel]
			if !known {
				matches = about == "" || s.concerns(sel, about)
				wanted[sel] = matches
			}
			if matches {
				bySelector[sel]++
				c.Subscriptions++
			}
		}
		if c.Subscriptions > before {
			c.Subscribers++
		}
	}
	for sel, n := range bySelector {
		c.Selectors = append(c.Selectors, SelectorCount{MatchType: sel.Kind.MatchType(), Selector: sel.Pattern, Subscriptions: n})
	}
	slices.SortFunc(c.Selectors, func(a, b SelectorCount) int {
		return cmp.Or(cmp.Compare(b.Subscriptions, a.Subscriptions), cmp.Compare(a.Selector, b.Selector), cmp.Compare(a.MatchType, b.MatchType))
	})
	if c.More = max(len(c.Selectors)-limit, 0); c.More > 0 {
		c.Selectors = c.Selectors[:limit]
	}
	return c
}

// concerns reports whether a selector is about, or matches it.
func (s subscribers) concerns(sel topic.Selector, about string) bool {
	if sel.Pattern == about {
		return true
	}
	m, err := topic.Compile(sel, s.base, topic.Limits{})
	return err == nil && m.Match(about)
}

// order ends the streams of a subscriber, or of a subject, on all nodes. The body is JSON: `subscriber` or `subject`,
// and `for`, a duration such as 5m, 0s for who may come back at once.
func (s subscribers) order(w http.ResponseWriter, r *http.Request) {
	var order struct{ Subscriber, Subject, For string }
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, banBytes))
	d.DisallowUnknownFields()
	if err := d.Decode(&order); err != nil {
		answer(w, http.StatusBadRequest, "want JSON such as {\"subject\": \"ann\", \"for\": \"5m\"}: "+err.Error())
		return
	}
	if (order.Subscriber == "") == (order.Subject == "") {
		answer(w, http.StatusBadRequest, "name either a subscriber or a subject")
		return
	}
	b := transport.Ban{Subscriber: order.Subscriber, Subject: order.Subject}
	var err error
	if b.For, err = time.ParseDuration(cmp.Or(order.For, banDefault)); err != nil {
		answer(w, http.StatusBadRequest, "for: "+err.Error())
		return
	}
	if b.Subscriber != "" && !s.find(w, r, &b) {
		return
	}
	done, err := s.disconnect(r.Context(), b)
	switch {
	case errors.Is(err, transport.ErrBan):
		answer(w, http.StatusBadRequest, err.Error())
	case err != nil:
		answer(w, statusOf(err), err.Error())
	default:
		kept := Disconnected{Banned: done, For: b.For.String()}
		if b.For > 0 {
			kept.Subject = b.Subject
		}
		writeJSON(w, kept)
	}
}

// find looks up the subject of the subscriber that b is about, which is how whoever it is will be known again.
func (s subscribers) find(w http.ResponseWriter, r *http.Request, b *transport.Ban) bool {
	directory := s.get(w)
	if directory == nil {
		return false
	}
	all, err := directory.List(r.Context())
	if err != nil {
		answer(w, http.StatusServiceUnavailable, err.Error())
		return false
	}
	i := slices.IndexFunc(all, func(p transport.Presence) bool { return p.Subscriber == b.Subscriber })
	if i < 0 {
		answer(w, http.StatusNotFound, "no subscriber has this id now")
		return false
	}
	b.Subject = all[i].Subject
	return true
}
