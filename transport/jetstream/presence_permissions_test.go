package jetstream

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// TestTheDirectoryNeedsNoMoreOfNATSThanIsWritten opens a log with the permissions that operators are told to give.
func TestTheDirectoryNeedsNoMoreOfNATSThanIsWritten(t *testing.T) {
	for name, value := range map[string]string{
		"NATS_NAME": "s1", "NATS_ROUTE_PASSWORD": "r", "NATS_HUB_PASSWORD": "secret", "NATS_ROUTES": "[]",
	} {
		t.Setenv(name, value)
	}
	o, err := server.ProcessConfigFile(filepath.Join("..", "..", "docker", "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.Cluster, o.Routes = server.ClusterOpts{}, nil
	o.Host, o.Port, o.NoSigs, o.NoLog, o.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, t.TempDir()
	s := &servers{opts: []server.Options{*o}, running: make([]*server.Server, 1)}
	t.Cleanup(s.stopAll)
	s.start(t, 0)
	node := func(name string) *Log {
		l := openAnywhere(t, Options{Servers: &Servers{URLs: s.urls(0), User: "hub", Password: os.Getenv("NATS_HUB_PASSWORD")}, Node: name, lease: shortLease})
		attend(t, l, nil)
		return l
	}
	a, b := node("a"), node("b")
	enter(t, a, 0, 3)
	enter(t, b, 3, 6)
	mustList(t, a, 0, 6)
	depart(t, b, 5, 6)
	b.nc.Close()
	eventually(t, "the dead are out", func() bool { return lists(t, a, 0, 3) })
	mustTell(t, a, 3, 5)
	if err := a.Close(background(t)); err != nil {
		t.Error(err)
	}
}
