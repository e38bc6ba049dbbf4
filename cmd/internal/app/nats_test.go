package app_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
)

const natsToken = "a-token-that-nobody-may-ever-see-in-a-log"

// startNATS runs a server with JetStream on the loopback, for whoever has the token.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), Authorization: natsToken, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(clusterPatience) {
		t.Fatal("the NATS server does not start")
	}
	return s.ClientURL()
}

// TestTwoHubsOnNATS publishes at one hub and receives at another that has nothing in common with it but a NATS server.
func TestTwoHubsOnNATS(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), clusterPatience)
	defer cancel()
	url := startNATS(t)
	withUser := strings.Replace(url, "//", "//"+natsToken+"@", 1)
	args := []string{"--publisher-jwt-key=" + secret, "--subscriber-jwt-key=" + secret, "--drain-delay=0s", "--shutdown-timeout=2s"}
	one, lines1 := start(t, append(args, "--nats-url="+url, "--nats-token="+natsToken)...)
	two, lines2 := start(t, append(args, "--nats-url="+withUser)...)
	events, _ := subscribe(ctx, t, &client.Subscriber{URL: two.URL(), Token: mint(t, secret), Topics: []string{"a"}, HTTP: httpClient(t)})
	p := client.Publisher{URL: one.URL(), Token: mint(t, secret), HTTP: httpClient(t)}
	id, err := p.Publish(ctx, &spec.Update{Topics: []string{"a"}, Data: "across"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-events:
		if e.ID != id || e.Data != "across" {
			t.Errorf("event %+v, want id %s", e, id)
		}
	case <-ctx.Done():
		t.Error("nothing received")
	}
	for _, lines := range []func() string{lines1, lines2} {
		if strings.Contains(lines(), natsToken) {
			t.Error("the log tells the token")
		}
	}
	cancel() // the subscriber leaves
}

// TestWrongTokenForNATSIsToldWithoutIt: whether it is an error or waited for, the log says what is wrong.
func TestWrongTokenForNATSIsToldWithoutIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), clusterPatience)
	defer cancel()
	const wrong = "another-token-that-nobody-may-ever-see"
	a, lines := prepare(t, append(both[1:], "--nats-url="+startNATS(t), "--nats-token="+wrong)...)
	err := a.Start(ctx)
	if err == nil {
		t.Fatal("started")
	}
	if text := err.Error() + lines(); strings.Contains(text, wrong) || !strings.Contains(strings.ToLower(text), "authorization") {
		t.Errorf("told: %s", text)
	}
}
