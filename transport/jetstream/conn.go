package jetstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	dialPatience   = 2 * time.Second
	connectPause   = 500 * time.Millisecond // between attempts to connect for the first time
	externalPing   = 2 * time.Second        // a server that has stopped answers nothing, and nothing else tells
	externalPings  = 2
	externalWait   = 100 * time.Millisecond
	externalJitter = 100 * time.Millisecond
)

// conn is the log's connection to NATS, and what is to be known of its breaks.
type conn struct {
	nc    *nats.Conn    // set by connect, before anything else uses it
	ended chan struct{} // closed when nc has ended for good
	dials atomic.Uint64

	cut func() // set before connect; called when the connection has broken, must not block
}

func newConn() *conn { return &conn{ended: make(chan struct{}), cut: func() {}} }

// dialed returns how often the connection was tried to be made. A frame that has come after it was read, and
// before it changes, came over the same connection as those before: it changes before a new connection is made,
// where the library's callbacks run beside the first frames of it.
func (c *conn) dialed() uint64 { return c.dials.Load() }

// connect makes the connection, trying until ctx ends unless the server refuses the credentials.
func (c *conn) connect(ctx context.Context, o Options, place []nats.Option, urls string) error {
	options := append([]nats.Option{
		nats.Name(o.Prefix + " " + o.Node),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(false),
		nats.IgnoreAuthErrorAbort(), // credentials that are refused for a while must not end the connection
		nats.ReconnectBufSize(-1),   // a publish on a cut connection fails at once instead of waiting in a buffer
		nats.DisconnectErrHandler(func(*nats.Conn, error) { c.cut() }),
		nats.ClosedHandler(func(*nats.Conn) { close(c.ended) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			o.Logger.Warn("nats connection", slog.Any("error", err))
		}),
	}, place...)
	for attempt := 0; ; attempt++ {
		nc, err := nats.Connect(urls, options...)
		if err == nil {
			c.nc = nc
			return nil
		}
		if errors.Is(err, nats.ErrAuthorization) {
			return fmt.Errorf("jetstream: connect: %w: %w", ErrCredentials, err)
		}
		if permanent(err) {
			return fmt.Errorf("jetstream: connect: %w", err)
		}
		if attempt == 0 {
			o.Logger.Warn("NATS cannot be reached and is tried again", slog.Any("error", err))
		}
		select {
		case <-time.After(connectPause):
		case <-ctx.Done():
			return fmt.Errorf("jetstream: connect: %w: %w", context.Cause(ctx), err)
		}
	}
}

// ErrCredentials means that the servers do not take what this hub proves itself with, or that it lacks any.
var ErrCredentials = errors.New("the servers do not accept the credentials")

// permanent reports whether another attempt to connect would end as this one did.
func permanent(err error) bool {
	_, invalid := errors.AsType[*tls.CertificateVerificationError](err)
	return invalid || errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, nats.ErrSecureConnRequired)
}

// close ends the connection and waits until its last callback has run.
func (c *conn) close() {
	if c.nc != nil {
		c.nc.Close()
		<-c.ended
	}
}

// dial returns the options of a connection to these servers; dialing is called before each attempt.
func (s *Servers) dial(dialing func()) ([]nats.Option, error) {
	options := []nats.Option{
		nats.SetCustomDialer(dialer{net.Dialer{Timeout: dialPatience}, dialing}),
		nats.Timeout(dialPatience), nats.PingInterval(externalPing), nats.MaxPingsOutstanding(externalPings),
		nats.ReconnectWait(externalWait), nats.ReconnectJitter(externalJitter, externalJitter),
	}
	if s.Creds != "" {
		if err := CheckCreds(s.Creds); err != nil { // now, not at each attempt to connect
			return nil, fmt.Errorf("jetstream: Servers.Creds: %w", err)
		}
		options = append(options, nats.UserCredentials(s.Creds))
	}
	if s.User != "" {
		options = append(options, nats.UserInfo(s.User, s.Password))
	}
	if s.Token != "" {
		options = append(options, nats.Token(s.Token))
	}
	if s.TLSCA == "" && s.TLSCert == "" {
		return options, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.TLSCA != "" {
		pool, err := authorities(s.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("jetstream: Servers.TLSCA: %w", err)
		}
		config.RootCAs = pool
	}
	if s.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("jetstream: Servers.TLSCert and Servers.TLSKey: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return append(options, nats.Secure(config)), nil
}

// CheckCreds reads a file of credentials as the client library will. Errors hold nothing of its content.
func CheckCreds(name string) error {
	var o nats.Options
	if err := nats.UserCredentials(name)(&o); err != nil {
		return err
	}
	if _, err := o.UserJWT(); err != nil {
		return err
	}
	_, err := o.SignatureCB([]byte("any"))
	return err
}

// urls joins the addresses as the client library wants them.
func (s *Servers) urls() string { return strings.Join(s.URLs, ",") }

// dialer is a net.Dialer that tells before it dials.
type dialer struct {
	net     net.Dialer
	dialing func()
}

func (d dialer) Dial(network, address string) (net.Conn, error) {
	d.dialing()
	return d.net.Dial(network, address)
}
