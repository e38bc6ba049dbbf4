package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	account       = "$G"      // the account of clients without credentials
	maxStore      = 1 << 60   // bounded by the stream's limits and by Options.MinFree, not here
	maxMemory     = 256 << 20 // consumers in memory need little
	healthy       = 200       // what the server reports
	reconnectWait = 20 * time.Millisecond
	stopPatience  = 20 * time.Second // a polite end, which hands leaderships over, takes a second or two
)

// embedded is a nats-server in this process. Only the goroutine that opened the log and, later, the
// monitor start and stop it; connections may be made by anyone.
type embedded struct {
	opts    server.Options
	logger  serverLog
	current atomic.Pointer[server.Server]
}

func newEmbedded(o Options, onError func()) (*embedded, error) {
	e := &embedded{
		opts: server.Options{
			ServerName: o.Prefix, DontListen: true, NoSigs: true, DisableJetStreamBanner: true,
			JetStream: true, StoreDir: o.Dir, JetStreamMaxStore: maxStore, JetStreamMaxMemory: maxMemory,
			SyncAlways: o.SyncAlways, SyncInterval: o.SyncInterval, MaxPayload: o.maxPayload(),
			MaxPending: maxPending(o),
		},
		logger: serverLog{log: o.Logger, onError: onError},
	}
	if o.Cluster != nil {
		if err := joinCluster(&e.opts, o); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// maxPending is how much may wait for our connection before the server cuts it for slowness: what all reads and
// the follower's pull can bring at once, and acknowledgements.
func maxPending(o Options) int64 {
	payload := int64(o.maxPayload())
	return maxReads*(readBytes+payload) + max(pullBytes, 2*payload) + 64<<20
}

// start runs a server until it takes connections with JetStream enabled.
func (e *embedded) start(ctx context.Context) error {
	e.logger.fatal.Store(nil)
	opts := e.opts // the server writes to its options
	s, err := server.NewServer(&opts)
	if err != nil {
		return fmt.Errorf("jetstream: make server: %w", err)
	}
	s.SetLoggerV2(&e.logger, false, false, false)
	started := make(chan struct{})
	go func() { // without a listener Start returns when the store is recovered, or when that has failed
		defer close(started)
		s.Start()
	}()
	select {
	case <-started:
	case <-ctx.Done():
		s.Shutdown()
		<-started
		s.WaitForShutdown()
		return fmt.Errorf("jetstream: start server: %w", context.Cause(ctx))
	}
	if !s.Running() || !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return fmt.Errorf("jetstream: start server: %s", e.logger.last())
	}
	e.current.Store(s)
	return nil
}

// stop ends the server and waits for it. Calling it twice is harmless.
func (e *embedded) stop() {
	if s := e.current.Swap(nil); s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// shed turns the store off and leaves the rest of the server running, for a node that has others.
func (e *embedded) shed() {
	if s := e.current.Load(); s != nil && s.JetStreamEnabled() {
		if err := s.ShutdownJetStream(); err != nil {
			e.logger.log.Error("the store could not be turned off", slog.Any("error", err))
		}
	}
}

// stopWithin is stop for a process that is about to end: it does not wait for longer than d.
func (e *embedded) stopWithin(d time.Duration) {
	stopped := make(chan struct{})
	go func() { // ends with the server, or with the process
		defer close(stopped)
		e.stop()
	}()
	select {
	case <-stopped:
	case <-time.After(d):
		e.logger.log.Error("the embedded server does not end", slog.Duration("waited", d))
	}
}

// InProcessConn connects to whichever server runs now, so that a client outlives a restart of the server.
func (e *embedded) InProcessConn() (net.Conn, error) {
	if s := e.current.Load(); s != nil {
		return s.InProcessConn()
	}
	return nil, errors.New("jetstream: the server is not running")
}

// dial returns the options of a client connection to the server; dialing is called before each attempt.
func (e *embedded) dial(dialing func()) []nats.Option {
	return []nats.Option{
		nats.InProcessServer(inProcess(func() (net.Conn, error) { dialing(); return e.InProcessConn() })),
		nats.UserInfo(e.opts.Username, e.opts.Password), // empty when the server is alone: nobody else can reach it
		nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(0, 0),
	}
}

type inProcess func() (net.Conn, error)

func (f inProcess) InProcessConn() (net.Conn, error) { return f() }

// trouble returns what the server says is wrong with its store, "" for nothing. The server measures its own
// readiness by a millisecond of the clock, which a process that was stopped meanwhile has not had: what is
// truly wrong is so three times.
func (e *embedded) trouble() (text string) {
	s := e.current.Load()
	if s == nil {
		return "the server is not running"
	}
	whole := server.HealthzOptions{Account: account}
	if e.opts.Cluster.Port != 0 {
		// the rest is about the others, too, and about what comes by itself: leaders, replicas that catch up
		if text = unhealthy(s, server.HealthzOptions{JSEnabledOnly: true}); text != "" {
			return fmt.Sprintf("%s (%s)", text, e.logger.last())
		}
		if text = unhealthy(s, whole); strings.Contains(text, "write error") {
			return text
		}
		return ""
	}
	return unhealthy(s, whole)
}

func unhealthy(s *server.Server, o server.HealthzOptions) (text string) {
	for range 3 {
		h := s.Healthz(&o)
		if h.StatusCode == healthy {
			return ""
		}
		text = orElse(h.Error, h.Status)
	}
	return text
}

// serverLog hands the server's lines to our logger. Notices are detail for us.
type serverLog struct {
	log     *slog.Logger
	onError func() // called after each error: the store may be in trouble
	text    atomic.Pointer[string]
	fatal   atomic.Pointer[string] // since the server was started
	told    repeats
	clash   atomic.Bool // a server of our name is among the others
}

// repeats tells lines that differ from earlier ones in digits only, or in what could not be parsed: a node with another
// secret, or with a name that another one has, would fill the log.
type repeats struct {
	mu   sync.Mutex // guards below
	seen map[string]time.Time
}

const (
	repeatEvery = 10 * time.Second
	maxShapes   = 64
)

// again notes a line, and reports whether one of its shape was told a moment ago.
func (r *repeats) again(text string) bool {
	text, _, _ = strings.Cut(text, "Parse Error")
	shape := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, text)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.seen[shape]) < repeatEvery {
		return true
	}
	if r.seen == nil || len(r.seen) >= maxShapes {
		r.seen = map[string]time.Time{}
	}
	r.seen[shape] = now
	return false
}

// milder are lines that say less than the server thinks.
var milder = map[string]slog.Level{
	"Plaintext passwords detected":      slog.LevelDebug, // they are random, and of this process only
	"Error trying to connect to route ": slog.LevelWarn,  // nodes start one after the other, and are restarted
	"Waiting for routing to be ":        slog.LevelDebug, // the same; whoever waits for it says so (openStream)
	"JetStream has not established ":    slog.LevelDebug,
	"Metalayer blocking snapshot ":      slog.LevelDebug, // its daily work
}

// meanings say what is to be done about lines that do not tell it.
var meanings = []struct{ part, text string }{
	{duplicateName, sameName + ", or it is started twice: each needs a --node-name of its own"},
	{"authentication error - User", "a node with another secret was turned away: all need the same --cluster-secret"},
	{"Route Error 'Authorization Violation'", "another node has turned this one away: all need the same --cluster-secret"},
}

const (
	duplicateName = "Remote server has a duplicate name"
	sameName      = "another process uses this node's name"
)

// errSameName ends the start of a node. Two servers of one name are one voter to the others, who may so count a copy that
// nobody has.
var errSameName = errors.New("jetstream: another node of the cluster has this one's name, or it is started twice: each needs a --node-name of its own")

func (l *serverLog) line(level slog.Level, format string, v []any) {
	text := strings.TrimSpace(fmt.Sprintf(format, v...))
	for prefix, better := range milder {
		if strings.HasPrefix(text, prefix) {
			level = better
		}
	}
	if level == slog.LevelError {
		l.text.Store(&text)
		defer l.onError()
	}
	if strings.Contains(text, duplicateName) {
		l.clash.Store(true)
	}
	if level > slog.LevelDebug && l.told.again(text) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, meaning(text), slog.String("text", text)) //nolint:forbidigo,sloglint // the server has no context; meanings are constant
}

// meaning returns what to say above a line of the server's.
func meaning(text string) string {
	for _, m := range meanings {
		if strings.Contains(text, m.part) {
			return m.text
		}
	}
	return "nats-server"
}

// last returns the last error line.
func (l *serverLog) last() string {
	if text := l.text.Load(); text != nil {
		return *text
	}
	return "no reason given"
}

func (l *serverLog) Noticef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.line(slog.LevelWarn, format, v) }

// Fatalf takes what a server of its own process would end with. Here it goes on, without a part of itself.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, v...))
	l.fatal.Store(&text)
	l.line(slog.LevelError, format, v)
}

// ended returns what a part of the server has ended with, nil if none has.
func (l *serverLog) ended() error {
	if text := l.fatal.Load(); text != nil {
		return fmt.Errorf("jetstream: the embedded server: %s", *text)
	}
	return nil
}

func (l *serverLog) Errorf(format string, v ...any) { l.line(slog.LevelError, format, v) }
func (l *serverLog) Debugf(string, ...any)          {}
func (l *serverLog) Tracef(string, ...any)          {}
