package hub

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

// sharedLog is one log under several nodes.
type sharedLog struct {
	transport.Transport
	views []*view

	mu     sync.Mutex
	grown  sync.Cond
	placed []transport.Entry // by position, from 1 on
	byData map[string]transport.Position
}

func newSharedLog(t testing.TB, views ...*view) *sharedLog {
	t.Helper()
	log, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(context.WithoutCancel(t.Context())) })
	for _, v := range views {
		v.Transport, v.wants, v.late = log, map[topic.Selector]*want{}, map[transport.Position]bool{}
		v.moved.L = &v.mu
	}
	l := &sharedLog{Transport: log, views: views, byData: map[string]transport.Position{}}
	l.grown.L = &l.mu
	if _, err := log.Follow(context.WithoutCancel(t.Context()), func(e transport.Entry) {
		l.mu.Lock()
		l.placed = append(l.placed, e)
		l.byData[e.Update.Data] = e.Pos
		l.grown.Broadcast()
		l.mu.Unlock()
		for _, v := range views {
			v.push(e)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

// missing returns the positions after `after` up to upto that are for somebody and that he has not got.
func (l *sharedLog) missing(after, upto transport.Position, isFor func(*spec.Update) bool, got map[transport.Position]bool) []transport.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []transport.Position
	for _, e := range l.placed {
		if e.Pos > after && e.Pos <= upto && isFor(e.Update) && !got[e.Pos] {
			list = append(list, e.Pos)
		}
	}
	return list
}

// place returns where the update with these data stands. A reader may have it before the one who notes this.
func (l *sharedLog) place(data string) transport.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.byData[data] == 0 {
		l.grown.Wait()
	}
	return l.byData[data]
}

// flush lets every node catch up and keep nothing back from now on.
func (l *sharedLog) flush() {
	for _, v := range l.views {
		v.mu.Lock()
		v.flushing = true
		v.moved.Broadcast()
		v.mu.Unlock()
	}
}

// view is a node's sight of a shared log, as unkind as the contract allows: the follower stands behind the log by
// up to lag entries; it brings what some selector was added for, and of the rest what chance will; `from`
// lies anywhere between what was followed and the end of the log; and some entries come late.
type view struct {
	transport.Transport
	lag      int // entries
	lateness int // of a hundred entries

	mu       sync.Mutex
	moved    sync.Cond
	rng      *rand.Rand
	backlog  []transport.Entry
	behind   int                // how long the backlog is left alone
	reached  transport.Position // looked at
	handed   transport.Position // the highest handed to the hub
	held     []heldEntry
	wants    map[topic.Selector]*want
	late     map[transport.Position]bool // handed out after a higher one
	flushing bool
}

type heldEntry struct {
	entry transport.Entry
	turns int // until it is handed out
}

// want is a selector that was added, and the position from which it is heard.
type want struct {
	matcher topic.Matcher
	count   int
	from    transport.Position
}

func (v *view) push(e transport.Entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.backlog = append(v.backlog, e)
	v.moved.Broadcast()
}

// Follow hands out what next chooses, until ctx ends.
func (v *view) Follow(ctx context.Context, fn func(transport.Entry)) (transport.Interest, error) {
	context.AfterFunc(ctx, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.moved.Broadcast()
	})
	go func() { // ends with ctx, which the hub ends with its run
		for {
			entries, ok := v.next(ctx)
			if !ok {
				return
			}
			for _, e := range entries {
				fn(e)
			}
		}
	}()
	return v, nil
}

// next waits for an entry and returns what is handed out now: it, if it is not kept back, and what was.
func (v *view) next(ctx context.Context) ([]transport.Entry, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for ctx.Err() == nil && len(v.backlog) <= v.behind && (!v.flushing || len(v.backlog) == 0 && len(v.held) == 0) {
		v.moved.Wait()
	}
	if ctx.Err() != nil {
		return nil, false
	}
	v.behind = v.rng.IntN(v.lag + 1)
	var out []transport.Entry
	if len(v.backlog) > 0 {
		e := v.backlog[0]
		v.backlog = v.backlog[1:]
		v.reached = e.Pos // an Add that comes later must not count on it
		switch due := v.due(e); {
		case due && !v.flushing && v.rng.IntN(100) < v.lateness:
			v.held = append(v.held, heldEntry{e, 1 + v.rng.IntN(6)})
		case due || v.rng.IntN(2) == 0:
			out = append(out, v.hand(e))
		}
	}
	var still []heldEntry
	for _, h := range v.held {
		if h.turns--; h.turns > 0 && (len(v.backlog) > 0 || !v.flushing) {
			still = append(still, h)
			continue
		}
		out = append(out, v.hand(h.entry))
	}
	v.held = still
	return out, true
}

func (v *view) hand(e transport.Entry) transport.Entry {
	e.Late = e.Pos < v.handed
	if e.Late {
		v.late[e.Pos] = true
	}
	v.handed = max(v.handed, e.Pos)
	return e
}

// due reports whether the contract demands that e be handed out.
func (v *view) due(e transport.Entry) bool {
	for _, w := range v.wants {
		if e.Pos > w.from && slices.ContainsFunc(e.Update.Topics, w.matcher.Match) {
			return true
		}
	}
	return false
}

func (v *view) Add(ctx context.Context, selectors ...topic.Selector) (transport.Position, error) {
	span, err := v.Span(ctx)
	if err != nil {
		return 0, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	var from transport.Position
	for _, s := range selectors {
		w := v.wants[s]
		if w == nil {
			m, err := topic.Compile(s, nil, topic.Limits{})
			if err != nil {
				return 0, err
			}
			w = &want{matcher: m, from: v.reached}
			v.wants[s] = w
		}
		w.count++
		from = max(from, w.from)
	}
	if span.Last > from {
		from += transport.Position(v.rng.Uint64N(uint64(span.Last-from) + 1))
	}
	for _, s := range selectors { // whoever is the first need not be brought more than what was promised
		if w := v.wants[s]; w.count == 1 {
			w.from = from
		}
	}
	return from, nil
}

func (v *view) Remove(selectors ...topic.Selector) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range selectors {
		if v.wants[s].count--; v.wants[s].count == 0 {
			delete(v.wants, s)
		}
	}
}

func (v *view) wasLate(pos transport.Position) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.late[pos]
}

// at returns the update at pos.
func (l *sharedLog) at(pos transport.Position) *spec.Update {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.placed[pos-1].Update
}

func (l *sharedLog) id(pos transport.Position) string { return l.at(pos).ID }

// placeOf returns where the update with this id stands.
func (l *sharedLog) placeOf(id string) transport.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.placed {
		if e.Update.ID == id {
			return e.Pos
		}
	}
	return 0
}
