package admin_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/hub/admin"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// socket is one end of a pipe that says that it is of a socket file.
type socket struct{ net.Conn }

func (socket) LocalAddr() net.Addr  { return &net.UnixAddr{Name: "admin.sock", Net: "unix"} }
func (socket) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// one is a listener of one connection.
type one struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *one) Close() error   { close(l.closed); return nil }
func (l *one) Addr() net.Addr { return &net.UnixAddr{Name: "admin.sock", Net: "unix"} }

// A client that stalls neither keeps publishers out of a log for ever nor holds a backup.
func TestAClientThatStallsEndsItsRequest(t *testing.T) {
	for name, head := range map[string]string{
		"restore": "POST /restore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\npart",
		"backup":  "GET /backup HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &stalling{err: make(chan error, 1)}
				l := &one{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
				s := &http.Server{Handler: admin.Handler(admin.Options{Archive: func() transport.Archive { return a }}), ReadHeaderTimeout: time.Minute}
				go func() { _ = s.Serve(l) }() // ends with the listener
				ours, theirs := net.Pipe()
				l.conn <- socket{theirs}
				if _, err := io.WriteString(ours, head); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err := <-a.err
				if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took > 2*time.Minute {
					t.Errorf("%v after %v", err, took)
				}
				_ = ours.Close()
				_ = s.Close()
			})
		})
	}
}

// stalling is an archive whose work is as slow as its client; err is how it ended.
type stalling struct {
	fakeArchive
	err chan error
}

func (s *stalling) Backup(_ context.Context, w io.Writer, _ func(transport.Progress)) (transport.Manifest, error) {
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			s.err <- err
			return transport.Manifest{}, err
		}
	}
}

func (s *stalling) Restore(_ context.Context, r io.Reader, _ func(transport.Progress)) (transport.Manifest, error) {
	_, err := io.ReadAll(r)
	s.err <- err
	return transport.Manifest{}, err
}
