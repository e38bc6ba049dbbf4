package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// mirror is what stands in the directory's stream, as this node has read it so far. It is read through one consumer,
// whose deliveries are numbered; whatever goes wrong with that, the mirror is emptied and read anew: what
// was deleted meanwhile is not told.
type mirror struct {
	mu      sync.Mutex // guards below
	terms   map[string]*termView
	fence   uint64        // the newest of this process that was read
	applied uint64        // messages, ever
	changed chan struct{} // closed and renewed with each message; nil when nobody waits
	reader  interface{ Stop() }
}

// termView is a term as the mirror has it.
type termView struct {
	held      map[string]*held // by connection
	state, by string           // of the term; empty when that is not known
	seen      time.Time        // when that was read
}

// held is a connection.
type held struct {
	seq   uint64
	dying bool
	value atomic.Pointer[presenceValue]
}

// presenceValue is a presence, as it is stored until somebody wants to know it: when many come at once nobody does.
type presenceValue struct {
	stored   []byte // nil once it is decoded
	presence transport.Presence
	err      error
}

func newHeld(seq uint64, dying bool, stored []byte) *held {
	h := &held{seq: seq, dying: dying}
	h.value.Store(&presenceValue{stored: stored})
	return h
}

func (h *held) get() (transport.Presence, error) {
	v := h.value.Load()
	if v.stored != nil {
		decoded := &presenceValue{}
		decoded.presence, decoded.err = decodePresence(v.stored)
		h.value.Store(decoded)
		v = decoded
	}
	return v.presence, v.err
}

func newMirror() *mirror { return &mirror{terms: map[string]*termView{}} }

// begin empties the mirror.
func (m *mirror) begin(reader interface{ Stop() }) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terms, m.fence, m.reader = map[string]*termView{}, 0, reader
}

// again makes the mirror be read anew.
func (m *mirror) again() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reader != nil {
		m.reader.Stop()
	}
}

// progress is how many messages were read, ever.
func (m *mirror) progress() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// apply takes a message. subject is without what all have in common.
func (m *mirror) apply(subject, process string, header nats.Header, data []byte, seq uint64) {
	kind, rest, _ := strings.Cut(subject, ".")
	name, key, _ := strings.Cut(rest, ".")
	m.mu.Lock()
	defer m.mu.Unlock()
	switch kind {
	case "c":
		m.connection(name, key, header, data, seq)
	case "n":
		v := m.term(name)
		v.state, v.by = stateOf(header)
		v.seen = time.Now()
	case "f":
		if n, err := strconv.ParseUint(string(data), 10, 64); err == nil && name == process {
			m.fence = max(m.fence, n)
		}
	}
	m.applied++
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// term returns the view of a term, and makes it if need be. Called with mu held.
func (m *mirror) term(name string) *termView {
	v := m.terms[name]
	if v == nil {
		v = &termView{held: map[string]*held{}}
		m.terms[strings.Clone(name)] = v
	}
	return v
}

func (m *mirror) connection(name, key string, header nats.Header, data []byte, seq uint64) {
	switch state, _ := stateOf(header); state {
	case "", stateDying:
		m.term(name).held[strings.Clone(key)] = newHeld(seq, state == stateDying, data)
	case stateGone:
		if v := m.terms[name]; v != nil {
			delete(v.held, key)
		}
	}
}

// list returns who is present.
func (m *mirror) list() []transport.Presence {
	m.mu.Lock()
	n := 0
	for _, v := range m.terms {
		n += len(v.held)
	}
	all := make([]*held, 0, n)
	for _, v := range m.terms {
		if v.state == stateLeft {
			continue
		}
		for _, h := range v.held {
			if !h.dying {
				all = append(all, h)
			}
		}
	}
	m.mu.Unlock()
	list := make([]transport.Presence, 0, len(all))
	for _, h := range all {
		if p, err := h.get(); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// count is how many connections a term has.
func (m *mirror) count(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.terms[name]; v != nil {
		return len(v.held)
	}
	return 0
}

// some returns up to n connections of a term.
func (m *mirror) some(name string, n int) map[string]*held {
	m.mu.Lock()
	defer m.mu.Unlock()
	some := map[string]*held{}
	if v := m.terms[name]; v != nil {
		for key, h := range v.held {
			if len(some) == n {
				break
			}
			some[key] = h
		}
	}
	return some
}

// suspects returns the terms with connections of which nothing was heard for quiet, or all, but for the one that is
// this node's. It forgets those without, of which nothing was heard for forgotten.
func (m *mirror) suspects(own string, all bool, quiet, forgotten time.Duration) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name, v := range m.terms {
		silent := v.state == "" || v.state == stateSwept || time.Since(v.seen) >= quiet
		switch {
		case name == own:
		case len(v.held) > 0 && (silent || all):
			names = append(names, name)
		case len(v.held) == 0 && time.Since(v.seen) > forgotten:
			delete(m.terms, name)
		}
	}
	return names
}

// own returns where the connections of this node's term stand, and whether it is alive.
func (m *mirror) own(name string) (seqs map[string]uint64, alive bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.terms[name]
	if v == nil || v.state != stateAlive {
		return nil, false
	}
	seqs = make(map[string]uint64, len(v.held))
	for key, h := range v.held {
		seqs[key] = h.seq
	}
	return seqs, true
}

// wait waits until ok, which is called with mu held.
func (m *mirror) wait(ctx context.Context, ok func() bool) error {
	for {
		m.mu.Lock()
		if ok() {
			m.mu.Unlock()
			return nil
		}
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// frozenFor is after how long without a message, where a lease is written every few seconds, this process has stood
// still: what it reads then may lack what was deleted since.
const frozenFor = goneFor / 4

// follow reads the mirror until ctx ends.
func (d *directory) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := d.read(ctx)
		if ctx.Err() != nil {
			return
		}
		d.log.opts.Logger.Debug("the directory is read anew", slog.Any("error", err))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if _, _, err := d.log.openStream(ctx, presenceConfig(d.log.opts)); err == nil {
				d.log.opts.Logger.Warn("the directory of subscribers was gone, and was made anew")
			}
		}
		if d.pause(ctx, followPause) != nil {
			return
		}
	}
}

// read reads through one consumer until it fails.
func (d *directory) read(ctx context.Context) error {
	l := d.log
	cons, err := l.js.CreateConsumer(ctx, presenceName(l.opts.Prefix), jetstream.ConsumerConfig{
		Description:       "who is subscribed, for a node of a Mercure hub",
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	defer l.forgetConsumer(ctx, presenceName(l.opts.Prefix), cons.CachedInfo().Name)
	reader, err := cons.Messages(jetstream.PullMaxBytes(l.pullBytes()), jetstream.PullExpiry(pullExpiry),
		jetstream.PullHeartbeat(pullHeartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return fmt.Errorf("read consumer: %w", err)
	}
	unhook := context.AfterFunc(ctx, reader.Stop)
	defer unhook()
	defer reader.Stop()
	d.mirror.begin(reader)
	last := time.Now()
	for delivery := uint64(1); ; delivery++ {
		m, err := reader.Next()
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != delivery {
			return fmt.Errorf("delivery %d came instead of %d", meta.Sequence.Consumer, delivery)
		}
		if quiet := elapsed(last); quiet > frozenFor {
			return fmt.Errorf("nothing was read for %v", quiet)
		}
		last = time.Now()
		d.mirror.apply(strings.TrimPrefix(m.Subject(), d.base), d.process, m.Headers(), m.Data(), meta.Sequence.Stream)
	}
}

// fences lets callers share a fence: one that is stored after all of them have asked.
type fences struct {
	poke chan struct{}

	mu   sync.Mutex // guards below
	next *fenceRound
}

// fenceRound is who waits for the same fence.
type fenceRound struct {
	done chan struct{}
	err  error // read after done
}

func newFences() fences { return fences{poke: make(chan struct{}, 1)} }

// join returns the round that is to begin next.
func (f *fences) join() *fenceRound {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &fenceRound{done: make(chan struct{})}
		select {
		case f.poke <- struct{}{}:
		default: // it is about to begin
		}
	}
	return f.next
}

// take begins the round.
func (f *fences) take() *fenceRound {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.next
	f.next = nil
	return r
}

// settle waits until the mirror has all that was stored when it was called. The leader's word for where the stream
// ends would be cheaper, and is not to be had of a leader that was replaced and does not know.
func (d *directory) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*listPatience) // a round may be under way
	defer cancel()
	r := d.fences.join()
	select {
	case <-r.done:
		return r.err
	case <-d.ending:
		return transport.ErrClosed
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("%w: the directory is not read", transport.ErrUnavailable)
		}
		return context.Cause(ctx)
	}
}

// fence stores fences until ctx ends.
func (d *directory) fence(ctx context.Context) {
	for n := uint64(1); ; n++ {
		select {
		case <-d.fences.poke:
		case <-ctx.Done():
			return
		}
		if r := d.fences.take(); r != nil {
			r.err = d.pass(ctx, n)
			close(r.done)
		}
	}
}

// pass stores a fence and waits until the mirror has come to it. A mirror that stands still reads from a server that
// is gone, perhaps, and is begun anew.
func (d *directory) pass(ctx context.Context, n uint64) error {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	m := d.message(d.base+"f."+d.process, strconv.AppendUint(nil, n, 10))
	m.Header = nats.Header{headerTTL: {overFor.String()}}
	if _, err := d.log.publish(ctx, m); err != nil {
		return fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
	}
	come := func() bool { return d.mirror.fence >= n }
	before := d.mirror.progress()
	first, cancelFirst := context.WithTimeout(ctx, stillPatience)
	err := d.mirror.wait(first, come)
	cancelFirst()
	if err == nil {
		return nil
	}
	if d.mirror.progress() == before {
		d.mirror.again()
	}
	if err := d.mirror.wait(ctx, come); err != nil {
		return fmt.Errorf("%w: what was stored is not read yet", transport.ErrUnavailable)
	}
	return nil
}
