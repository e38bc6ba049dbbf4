package main

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
)

// TestInterruptedPublicationIsNoFaultOfTheHub publishes at a hub that never answers.
func TestInterruptedPublicationIsNoFaultOfTheHub(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		p := client.Publisher{URL: "http://" + l.Addr().String()}
		_, err := p.Publish(ctx, &spec.Update{Topics: []string{"a"}})
		ended <- err
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	cancel(errInterrupted)
	err = <-ended
	if code := exitCode(err); code != exitFailure {
		t.Errorf("exit code %d for %v, want %d", code, err, exitFailure)
	}
	_ = l.Close()
	p := client.Publisher{URL: "http://" + l.Addr().String()}
	if _, err := p.Publish(t.Context(), &spec.Update{}); exitCode(err) != exitUnavailable {
		t.Errorf("exit code %d for %v, want %d", exitCode(err), err, exitUnavailable)
	}
}

// TestSignalAtTheEndOfTheStartIsNotLost has it come when the start succeeds all the same.
func TestSignalAtTheEndOfTheStartIsNotLost(t *testing.T) {
	w := watchSignals()
	defer w.stop()
	w.ended <- syscall.SIGTERM
	err := start(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }, w)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-w.ended:
		if s != syscall.SIGTERM {
			t.Errorf("signal %s, want SIGTERM", s)
		}
	default:
		t.Error("the signal is gone: the hub would go on")
	}
}
