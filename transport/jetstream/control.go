package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// The control plane: every node is an instance of one NATS micro service, so that the tools for these find it, too.
//
//	<prefix>.ctl.status             every node answers
//	<prefix>.ctl.any.status         any one does (queue group)
//	<prefix>.ctl.disconnect         every node ends streams and keeps their clients away (ban.go)
//	<prefix>.ctl.bans               every node answers whom it keeps away
//	<prefix>.ctl.node.<name>.VERB   one: status, drain, undrain. An absent node has no responders: told at once
//	<prefix>.ctl.alive              no request: each node says every two seconds that it is there (peers.go)
//
// The answer to status, drain and undrain is the JSON of a transport.Node, about a kilobyte: what is free text in it is cut, so that it never
// comes near the largest message.
const (
	verbStatus  = "status"
	verbDrain   = "drain"
	verbUndrain = "undrain"

	verbDisconnect = "disconnect"
	verbBans       = "bans"

	controlGroup   = "hub"           // queue group of what any one node answers
	orderPatience  = 2 * time.Second // for a node to answer an order, or to work out an answer
	maxReasonBytes = 500
	codeRefused    = "409" // of the micro service's errors
)

// control is this node's part of the control plane.
type control struct {
	// static after construction
	log      *Log
	node     transport.NodeControl
	name     string
	instance string
	base     string // <prefix>.ctl.
	service  micro.Service
	alive    *nats.Subscription
	stopped  chan struct{} // closed when the micro service has ended
	poke     chan struct{} // makes the node say at once that it is there
	differ   chan struct{} // another node keeps other bans

	answering gate // requests
	peers     peers
	stream    lastStream
}

var (
	_ transport.Cluster = (*Log)(nil)

	errSecondServe = errors.New("jetstream: serve: the node is served already")
	semver         = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// Serve makes this node answer the others; see transport.Cluster. ctx is for its values only.
func (l *Log) Serve(ctx context.Context, node transport.NodeControl) error {
	l.closing.Lock() // Close does not wait for what begins after it
	defer l.closing.Unlock()
	if l.isClosed() {
		return fmt.Errorf("jetstream: serve: %w", transport.ErrClosed)
	}
	if l.control.Load() != nil {
		return errSecondServe
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &control{
		log: l, node: node, name: l.opts.Node, instance: nuid.Next(), base: l.opts.Prefix + ".ctl.",
		stopped: make(chan struct{}), poke: make(chan struct{}, 1), differ: make(chan struct{}, 1),
	}
	if err := c.open(life); err != nil {
		end(err)
		return fmt.Errorf("jetstream: serve: %w", err)
	}
	if l.opts.mode() != modeStandalone { // else there is nobody to ask
		c.learnBans(ctx)
	}
	l.control.Store(c)
	l.background.Go(func() { c.run(life, end) })
	return nil
}

// Node names this node; see transport.Cluster.
func (l *Log) Node() (name, mode string) { return l.opts.Node, l.opts.mode() }

// open subscribes what the node answers. ctx is that of the answers.
func (c *control) open(ctx context.Context) error {
	o := c.log.opts
	version := c.node.Report(ctx).Version
	semantic := strings.TrimPrefix(version, "v")
	if !semver.MatchString(semantic) { // a build from a work tree
		semantic = "0.0.0"
	}
	service, err := micro.AddService(c.log.nc, micro.Config{
		Name: o.Prefix, Version: semantic, Description: "a node of a Mercure hub", QueueGroupDisabled: true,
		Metadata: map[string]string{"node": c.name, "instance": c.instance, "version": version},
		ErrorHandler: func(_ micro.Service, err *micro.NATSError) {
			o.Logger.Warn("control plane", slog.String("subject", err.Subject), slog.Any("error", err))
		},
		DoneHandler: func(micro.Service) { close(c.stopped) },
	})
	if err != nil {
		return err
	}
	c.service = service
	add := func(endpoint, subject, verb string, opts ...micro.EndpointOpt) {
		if err == nil {
			opts = append(opts, micro.WithEndpointSubject(c.base+subject))
			err = service.AddEndpoint(endpoint, micro.HandlerFunc(func(r micro.Request) { c.answer(ctx, verb, r) }), opts...)
		}
	}
	add(verbStatus, verbStatus, verbStatus)
	add("any-"+verbStatus, "any."+verbStatus, verbStatus, micro.WithEndpointQueueGroup(controlGroup))
	add(verbDisconnect, verbDisconnect, verbDisconnect)
	add(verbBans, verbBans, verbBans)
	for _, verb := range []string{verbStatus, verbDrain, verbUndrain} {
		add("node-"+verb, "node."+c.name+"."+verb, verb)
	}
	if err == nil {
		c.alive, err = c.log.nc.Subscribe(c.base+"alive", c.hear)
	}
	if err != nil {
		return errors.Join(err, c.stop(ctx))
	}
	return nil
}

// run says that the node is there until the log closes, and then that it leaves.
func (c *control) run(ctx context.Context, end context.CancelCauseFunc) {
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	c.say(false)
	for {
		select {
		case <-ticker.C:
		case <-c.poke:
		case <-c.differ:
			c.learnBans(ctx)
		case <-c.log.closed:
			end(transport.ErrClosed)
			c.say(true)
			if err := c.stop(ctx); err != nil {
				c.log.opts.Logger.Debug("control plane not stopped", slog.Any("error", err)) // the connection ends it
			}
			return
		}
		c.say(false)
	}
}

// stop ends the micro service and waits for the answers under way.
func (c *control) stop(ctx context.Context) error {
	var err error
	if c.alive != nil {
		err = c.alive.Unsubscribe()
	}
	if e := c.service.Stop(); e != nil { // a connection that broke just now; its end stops the service
		err = errors.Join(err, e)
	} else {
		<-c.stopped
	}
	return errors.Join(err, c.answering.close(context.WithoutCancel(ctx)))
}

// answer does what a request asks and answers it.
func (c *control) answer(ctx context.Context, verb string, r micro.Request) {
	if !c.answering.enter() {
		return
	}
	defer c.answering.leave()
	ctx, cancel := context.WithTimeout(ctx, orderPatience)
	defer cancel()
	var err error
	switch verb {
	case verbDisconnect:
		err = c.carryOut(ctx, r)
	case verbBans:
		err = c.tellBans(r)
	default:
		if refusal := c.obey(ctx, verb); refusal != nil {
			err = r.Error(codeRefused, clip(refusal.Error()), nil)
		} else {
			err = r.RespondJSON(c.self(ctx))
		}
	}
	if err != nil {
		c.log.opts.Logger.Warn("control plane: answer not sent", slog.String("verb", verb), slog.Any("error", err))
	}
}

// obey does what verb asks of this node.
func (c *control) obey(ctx context.Context, verb string) error {
	switch verb {
	case verbDrain:
		return c.node.Drain(ctx)
	case verbUndrain:
		return c.node.Undrain(ctx)
	default:
		return nil
	}
}

// self is this node's state. It does no I/O beyond what the hub's report does.
func (c *control) self(ctx context.Context) transport.Node {
	s := c.log.Stats()
	pos, suspect := c.log.followed()
	n := transport.Node{
		Name: c.name, Instance: c.instance, Answers: true, Seen: time.Now(), NodeReport: c.node.Report(ctx),
		Mode: c.log.opts.mode(), Follower: s.Follower, Filters: s.Filters,
		Position: pos, SuspectSince: suspect,
		Counts: transport.Counts{
			Appends: s.Appends, AppendRetries: s.AppendRetries, AppendErrors: s.AppendErrors, Followed: s.Followed,
			BusMessages: s.BusMessages, Suspected: s.Suspected, Reread: s.Reread, Late: s.Late, Lost: s.Lost,
		},
	}
	n.Reason = clip(n.Reason)
	return n
}

// followed is up to where the follower has handed out everything that it follows, and since when it has not been
// sure of that, zero if it is.
func (l *Log) followed() (pos transport.Position, suspect time.Time) {
	if pos, suspect, ok := l.interesting(); ok {
		return pos, suspect
	}
	return transport.Position(l.follower.reached.Load()), time.Time{}
}

// DrainNode takes a node out of service; see transport.Cluster.
func (l *Log) DrainNode(ctx context.Context, name string) error { return l.order(ctx, name, verbDrain) }

// UndrainNode takes a node into service; see transport.Cluster.
func (l *Log) UndrainNode(ctx context.Context, name string) error {
	return l.order(ctx, name, verbUndrain)
}

// order has one node do something. This one needs no bus for it.
func (l *Log) order(ctx context.Context, name, verb string) error {
	c := l.control.Load()
	if c == nil || l.isClosed() {
		return fmt.Errorf("jetstream: %s %q: %w", verb, name, l.orClosed(errNotServed))
	}
	if !validPrefix.MatchString(name) { // it would be another subject
		return fmt.Errorf("jetstream: %s %q: %w", verb, name, transport.ErrNoNode)
	}
	if name == c.name {
		if err := c.obey(ctx, verb); err != nil {
			return fmt.Errorf("jetstream: %s %q: %w: %w", verb, name, transport.ErrRefused, err)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, orderPatience)
	defer cancel()
	m, err := l.nc.RequestWithContext(ctx, c.base+"node."+name+"."+verb, nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("jetstream: %s %q: %w", verb, name, transport.ErrNoNode)
	case err != nil:
		return fmt.Errorf("jetstream: %s %q: %w: no answer: %w", verb, name, transport.ErrUnavailable, err)
	case m.Header.Get(micro.ErrorCodeHeader) != "":
		return fmt.Errorf("jetstream: %s %q: %w: %s", verb, name, transport.ErrRefused, m.Header.Get(micro.ErrorHeader))
	}
	var n transport.Node
	if err := json.Unmarshal(m.Data, &n); err != nil || !n.Answers {
		return fmt.Errorf("jetstream: %s %q: %w: the answer is no node's", verb, name, transport.ErrUnavailable)
	}
	return nil
}

var errNotServed = fmt.Errorf("%w: the node is not served yet", transport.ErrUnavailable)

// clip cuts free text to a size that an answer can carry; a header takes no line breaks.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxReasonBytes {
		s = strings.ToValidUTF8(s[:maxReasonBytes], "") + "…"
	}
	return s
}
