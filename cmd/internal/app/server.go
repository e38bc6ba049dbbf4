package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/cinnabar-hub/cinnabar/hub"
)

// Time limits of the listeners. There is no write timeout: a stream lives for as long as it may, and the
// hub itself cuts clients that take or send nothing.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute  // longer than the usual load balancer's
	pingAfter         = 30 * time.Second // HTTP/2: of silence; a peer that is gone is noticed
	pingTimeout       = 15 * time.Second
)

// newServer makes the public server: HTTP/1.1 and HTTP/2, over TLS if cert is not nil and in the clear
// (h2c with prior knowledge) if it is.
func newServer(c *Config, h http.Handler, cert *certificate, log *slog.Logger) *http.Server {
	var p http.Protocols
	p.SetHTTP1(true)
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    int(c.MaxHead),
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: c.WriteTimeout,
		},
		ConnContext: hub.ConnContext,
	}
	if cert != nil {
		p.SetHTTP2(true)
		s.TLSConfig = cert.config()
	} else {
		p.SetUnencryptedHTTP2(true)
	}
	s.Protocols = &p
	return s
}

// newAdminServer makes the server of the admin listener. Profiles may take a while, so writing is not bounded.
func newAdminServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// serve serves l until the server is shut down; any other end is an error. Whether that is over TLS is said by the
// caller: the server has a TLSConfig in any case once net/http has served its first listener.
func serve(s *http.Server, l net.Listener, overTLS bool) error {
	var err error
	if overTLS {
		err = s.ServeTLS(l, "", "")
	} else {
		err = s.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// shutdown waits for the requests of s until ctx ends, then closes what is left: cutting a profile, or a
// connection that never asked for anything, is the plan and no error. Hijacked connections are not the server's
// any more: the hub has ended them.
func shutdown(ctx context.Context, s *http.Server, log *slog.Logger) error {
	err := s.Shutdown(ctx)
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		log.DebugContext(ctx, "connections cut that were not done in time")
		err = nil
	}
	return errors.Join(err, s.Close())
}
