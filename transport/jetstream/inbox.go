package jetstream

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// inbox sends requests and collects their answers through one wildcard subscription. The client library
// makes a channel of 64 k places for each read of many messages; here a read costs what it brings.
type inbox struct {
	nc     *nats.Conn
	prefix string // of reply subjects, ends with a dot
	closed <-chan struct{}
	patience

	mu    sync.Mutex // guards below
	next  uint64
	calls map[string]*call
}

// call is a request under way.
type call struct {
	token string
	many  bool          // the answer is a series that an end marker closes
	done  chan struct{} // closed when the answer is complete, or cut
	cut   bool          // the connection broke: part of the answer may be lost; read after done

	mu    sync.Mutex // guards below; msgs is read freely after done
	msgs  []*nats.Msg
	moved time.Time // of the last message
}

// patience says how long a request waits for an answer.
type patience struct {
	quiet    time.Duration // without a message, until the request is sent again
	total    time.Duration // after which it is not sent again, unless
	attempts int           // there were fewer
}

var (
	// A server in this process answers, unless the disk keeps it waiting.
	alonePatience = patience{quiet: 5 * time.Second, total: time.Second, attempts: 3}
	// One of several may be gone, and another one answers.
	clusterPatience = patience{quiet: 500 * time.Millisecond, total: 5 * time.Second, attempts: 3}
	// The leader is the only one that can answer, and perhaps there is none.
	leaderPatience = patience{quiet: 500 * time.Millisecond, total: 400 * time.Millisecond, attempts: 1}
)

func (o Options) patience() patience {
	if o.clustered() {
		return clusterPatience
	}
	return alonePatience
}

func newInbox(closed <-chan struct{}, p patience) *inbox {
	return &inbox{prefix: nats.NewInbox() + ".", closed: closed, patience: p, calls: map[string]*call{}}
}

// open begins to receive answers. Called once, before the first request.
func (b *inbox) open(nc *nats.Conn) error {
	sub, err := nc.Subscribe(b.prefix+"*", b.receive)
	if err != nil {
		return fmt.Errorf("jetstream: subscribe inbox: %w", err)
	}
	// what is pending is bounded by the requests under way
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("jetstream: subscribe inbox: %w", err)
	}
	b.nc = nc
	return nil
}

// receive hands a message to its call. Called by the client library from one goroutine.
func (b *inbox) receive(m *nats.Msg) {
	token := strings.TrimPrefix(m.Subject, b.prefix)
	b.mu.Lock()
	c := b.calls[token]
	b.mu.Unlock()
	if c == nil {
		return // given up
	}
	// a series ends with a status: end of batch, nothing found, or a refusal
	last := !c.many || (len(m.Data) == 0 && m.Header.Get(headerStatus) != "")
	c.mu.Lock()
	c.msgs = append(c.msgs, m)
	c.moved = time.Now()
	c.mu.Unlock()
	if last && b.take(c) {
		close(c.done)
	}
}

// take forgets a call; it is true for one caller, who may end it.
func (b *inbox) take(c *call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.calls[c.token]
	delete(b.calls, c.token)
	return ok
}

// cutAll ends every call under way: the connection that was to bring the answers is gone, and what still comes
// over the next one lacks what was lost with it.
func (b *inbox) cutAll() {
	b.mu.Lock()
	calls := b.calls
	b.calls = map[string]*call{}
	b.mu.Unlock()
	for _, c := range calls {
		c.cut = true
		close(c.done)
	}
}

// send publishes a request and returns the call that collects the answer; drop it when giving up.
func (b *inbox) send(m *nats.Msg, many bool) (*call, error) {
	c := &call{many: many, done: make(chan struct{}), moved: time.Now()}
	b.mu.Lock()
	b.next++
	c.token = strconv.FormatUint(b.next, 36)
	b.calls[c.token] = c
	b.mu.Unlock()
	sent := *m
	sent.Reply = b.prefix + c.token
	if err := b.nc.PublishMsg(&sent); err != nil {
		b.drop(c)
		return nil, err
	}
	return c, nil
}

// drop forgets a call; answers that still come are ignored.
func (b *inbox) drop(c *call) {
	b.mu.Lock()
	delete(b.calls, c.token)
	b.mu.Unlock()
}

const (
	headerStatus     = "Status"
	statusEnd        = "204" // end of a batch
	statusNone       = "404" // no message found
	statusNoServer   = "503" // nobody answers on this subject
	directGetSubject = "$JS.API.DIRECT.GET."
	infoSubject      = "$JS.API.STREAM.INFO."
)

// request sends a read until it is answered: what a broken connection has cut is asked for again at once, and an
// answer that stops coming, too, since the answering server may be gone. Errors wrap ErrUnavailable, ErrClosed or the context's.
func (b *inbox) request(ctx context.Context, subject string, payload []byte, many bool) ([]*nats.Msg, error) {
	return b.ask(ctx, subject, payload, many, b.patience)
}

// ask is request with another patience.
func (b *inbox) ask(ctx context.Context, subject string, payload []byte, many bool, p patience) ([]*nats.Msg, error) {
	m := &nats.Msg{Subject: subject, Data: payload}
	began := time.Now()
	var last error
	for attempt := 0; attempt < p.attempts || time.Since(began) < p.total; attempt++ {
		c, err := b.send(m, many)
		if err == nil {
			if err = b.await(ctx, c, p.quiet); err == nil {
				if status := c.msgs[0].Header.Get(headerStatus); status != statusNoServer {
					return c.msgs, nil
				}
				err = nats.ErrNoResponders
			}
		}
		last = err
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-b.closed:
			return nil, transport.ErrClosed
		case <-time.After(reconnectWait):
		}
	}
	return nil, fmt.Errorf("%w: no answer on %s: %w", transport.ErrUnavailable, subject, last)
}

// await waits until c is complete.
func (b *inbox) await(ctx context.Context, c *call, patience time.Duration) error {
	defer b.drop(c)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			if c.cut {
				return nats.ErrDisconnected
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.closed:
			return transport.ErrClosed
		case <-timer.C:
			c.mu.Lock()
			quiet := time.Since(c.moved)
			c.mu.Unlock()
			if quiet >= patience {
				return nats.ErrTimeout
			}
			timer.Reset(patience - quiet)
		}
	}
}
