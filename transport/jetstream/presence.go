package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// Who is subscribed stands in a stream of its own, one message for each connection. A node keeps what is its own
// under a term, a random name that it holds for as long as it refreshes its lease:
//
//	<prefix>.presence.c.<term>.<connection>   a connection: its presence; dying; gone (for a while)
//	<prefix>.presence.n.<term>                a term: alive (the lease); sweep (the claim); swept or left (for a while)
//	<prefix>.presence.f.<process>             a fence
//
// Every change of a subject names the message that it replaces, but for a node's own entering, so that the leader of
// the stream decides who was first. Lease and claim share a subject: a term is alive or being swept, never both.
//
//	alive ── not refreshed: expires ──► absent ── claimed by one of the others ──► sweep ── all cleared ──► swept
//	  ▲ └───────── closed ──► left         │                                         └── sweeper dies: expires ──► absent
//	  └────── refreshed again ─────────────┘
//
// The one with the claim replaces each connection of the term by itself, dying, which takes it off the lists; then it
// appends the events; then it replaces it by gone. So a connection is taken out by its own node, which sees to
// the events, or by the sweeper, which does, and not by both. The events' nonces are made of term, connection and number:
// a sweep that is begun again by another does not store them twice, unless it comes later than the log remembers
// nonces (30 s, or twice the publish timeout): then a connection that the first one has died over gets its
// events a second time.
//
// Every node reads the whole stream into a mirror (mirror.go). A list is the mirror's once that has come to a
// fence, a message that the node has stored when it was asked. lease.go holds this node's term,
// sweep.go clears those of the dead, tidy.go corrects what has gone wrong.
type directory struct {
	// static after construction
	log     *Log
	times   leaseTimes
	base    string // <prefix>.presence.
	process string // random: names this process in fences and in what it takes out of others' terms
	gone    func(transport.Presence) []*spec.Update
	lost    func()
	mirror  *mirror
	end     context.CancelCauseFunc // ends what runs
	ending  <-chan struct{}         // closed by end
	work    sync.WaitGroup
	calls   gate // Attend, Enter, Leave and List under way
	fences  fences
	losses  chan struct{} // a value when lost is to be called
	ready   chan struct{} // closed when Attend has succeeded

	mu        sync.Mutex // guards below
	term      *term      // nil while there is none
	changed   chan struct{}
	records   map[string]*record // by connection
	confirmed time.Time          // when the leader was last known to take what this node writes
	steady    time.Time          // since when it does
}

// record is a presence that was entered here.
type record struct {
	// static after construction
	presence transport.Presence
	subject  string
	term     string
	done     chan struct{} // closed when its Enter has ended

	// guarded by directory.mu
	seq     uint64 // of its message; 0 while it is being entered
	failed  bool   // Enter has failed, and may have been carried out all the same
	leaving bool
}

// attendance is the directory of a log, if it has one.
type attendance struct {
	mu        sync.Mutex // guards below
	directory *directory
	ended     bool
}

var (
	_ transport.Directory = (*Log)(nil)

	errSecondAttend = errors.New("jetstream: attend: the directory is attended already")
	errNotAttended  = errors.New("the directory is not attended")
)

const (
	listPatience  = 2 * time.Second        // for a fence to come back
	stillPatience = 700 * time.Millisecond // of these, for a mirror that reads nothing
	leavePatience = 2 * time.Second        // for what Close takes out
)

// Attend begins to keep the directory; see transport.Directory.
func (l *Log) Attend(ctx context.Context, gone func(transport.Presence) []*spec.Update, lost func()) error {
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	d := &directory{
		log: l, times: l.opts.lease, base: l.opts.Prefix + ".presence.", process: newTermName(), gone: gone, lost: lost,
		mirror: newMirror(), end: end, ending: life.Done(), fences: newFences(), losses: make(chan struct{}, 1),
		ready: make(chan struct{}), changed: make(chan struct{}), records: map[string]*record{},
	}
	if err := l.attendance.begin(d); err != nil {
		end(err)
		return err
	}
	defer d.calls.leave()
	unhook := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	err := d.attend(life)
	if !unhook() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		close(d.ready)
		return nil
	}
	end(transport.ErrClosed)
	d.work.Wait()
	l.attendance.abandon(d)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("jetstream: attend: %w", l.orClosed(err))
}

// begin notes the directory, and that its Attend is under way.
func (a *attendance) begin(d *directory) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return fmt.Errorf("jetstream: attend: %w", transport.ErrClosed)
	case a.directory != nil:
		return errSecondAttend
	}
	a.directory = d
	d.calls.enter()
	return nil
}

// abandon forgets a directory that could not be attended.
func (a *attendance) abandon(d *directory) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.directory == d {
		a.directory = nil
	}
}

// finish lets nobody attend any more.
func (a *attendance) finish() *directory {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return a.directory
}

// attend does what Attend promises, until ctx ends.
func (d *directory) attend(ctx context.Context) error {
	if _, _, err := d.log.openStream(ctx, presenceConfig(d.log.opts)); err != nil {
		return err
	}
	d.work.Go(func() { d.follow(ctx) })
	d.work.Go(func() { d.fence(ctx) })
	if err := d.begin(ctx); err != nil {
		return err
	}
	for {
		err := d.settle(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d.log.opts.Logger.Debug("the directory is not read yet", slog.Any("error", err))
	}
	d.work.Go(func() { d.hold(ctx) })
	d.work.Go(func() { d.watch(ctx) })
	d.work.Go(func() { d.herald(ctx) })
	return nil
}

// attended returns the directory, and how to say that a call of it has ended.
func (l *Log) attended() (*directory, func(), error) {
	l.attendance.mu.Lock()
	d, ended := l.attendance.directory, l.attendance.ended
	l.attendance.mu.Unlock()
	switch {
	case ended:
		return nil, nil, transport.ErrClosed
	case d == nil:
		return nil, nil, errNotAttended
	}
	select {
	case <-d.ready:
	default:
		return nil, nil, errNotAttended
	}
	if !d.calls.enter() {
		return nil, nil, transport.ErrClosed
	}
	return d, d.calls.leave, nil
}

// endDirectory ends what runs for the directory, and takes this node's presences out. Called by Close, maybe twice.
func (l *Log) endDirectory(ctx context.Context) {
	d := l.attendance.finish()
	if d == nil {
		return
	}
	d.end(transport.ErrClosed)
	pending := d.calls.close(ctx)
	d.work.Wait()
	if pending == nil { // else they go on writing, and the term's lease runs out
		d.quit(ctx)
	}
}

// Enter lists p; see transport.Directory. Any number of calls may be under way, each waits for its own
// acknowledgement.
func (l *Log) Enter(ctx context.Context, p transport.Presence) error {
	d, done, err := l.attended()
	if err == nil {
		defer done()
		err = d.enter(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("jetstream: enter: %w", l.orClosed(err))
	}
	return nil
}

func (d *directory) enter(ctx context.Context, p transport.Presence) error {
	body, err := encodePresence(p)
	if err != nil {
		return err
	}
	t, err := d.current(ctx)
	if err != nil {
		return err
	}
	defer t.writes.leave()
	key := hash(p.Subscriber)
	m := d.message(d.connection(t.name, key), body)
	if !d.log.opts.clustered() {
		if err := d.log.space.take(int64(m.Size())); err != nil {
			return err
		}
	}
	r := &record{presence: p, subject: m.Subject, term: t.name, done: make(chan struct{})}
	d.mu.Lock()
	d.records[key] = r
	d.mu.Unlock()
	defer close(r.done)
	a, err := d.log.publish(ctx, m)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil { // Leave, or tidy, takes out what is stored all the same
		r.failed = true
		return err
	}
	r.seq = a.Sequence
	return nil
}

// current returns this node's term, entered for writing. It waits while there is none.
func (d *directory) current(ctx context.Context) (*term, error) {
	t, changed := d.enterTerm()
	if t != nil {
		return t, nil
	}
	patience := time.NewTimer(d.log.opts.PublishTimeout)
	defer patience.Stop()
	for t == nil {
		select {
		case <-changed:
			t, changed = d.enterTerm()
		case <-patience.C:
			return nil, fmt.Errorf("%w: this node was taken for dead, and what it had entered is not cleared yet", transport.ErrUnavailable)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-d.ending:
			return nil, transport.ErrClosed
		}
	}
	return t, nil
}

// enterTerm returns this node's term, entered for writing, or what tells that there may be one.
func (d *directory) enterTerm() (*term, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.term == nil || !d.term.writes.enter() {
		return nil, d.changed
	}
	return d.term, nil
}

// Leave takes a presence out; see transport.Directory.
func (l *Log) Leave(ctx context.Context, subscriber string) (bool, error) {
	d, done, err := l.attended()
	there := false
	if err == nil {
		defer done()
		there, err = d.leave(ctx, hash(subscriber))
	}
	if err != nil {
		return false, fmt.Errorf("jetstream: leave: %w", l.orClosed(err))
	}
	return there, nil
}

func (d *directory) leave(ctx context.Context, key string) (bool, error) {
	d.mu.Lock()
	r := d.records[key]
	d.mu.Unlock()
	if r == nil {
		return false, nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	d.mu.Lock()
	seq, current := r.seq, d.term != nil && d.term.name == r.term
	r.leaving = true // until it is known to be out: what this node has taken out counts as having been there
	d.mu.Unlock()
	outcome, err := d.takeOut(ctx, r.subject, seq, r.term)
	if err != nil {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.records[key] != r {
		return false, nil // another Leave has
	}
	delete(d.records, key)
	// absent from a term that goes on: the stream was made anew, and nobody else knew of it
	there := outcome == takenOut || outcome == wasAbsent && current
	return there && !r.failed, nil
}

// List returns everybody; see transport.Directory.
func (l *Log) List(ctx context.Context) ([]transport.Presence, error) {
	d, done, err := l.attended()
	var list []transport.Presence
	if err == nil {
		defer done()
		if err = d.settle(ctx); err == nil {
			list = d.mirror.list()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("jetstream: list: %w", l.orClosed(err))
	}
	return list, nil
}
