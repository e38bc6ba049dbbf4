package jetstream

import (
	"slices"
	"strings"
	"testing"
)

func TestWhereALogIsKeptIsChecked(t *testing.T) {
	servers := func(change func(*Servers)) Options {
		s := &Servers{URLs: []string{"nats://127.0.0.1:4222"}}
		change(s)
		return Options{Servers: s}
	}
	cluster := func(change func(*Options)) Options {
		o := Options{Dir: "x", Node: "n1", Cluster: &Cluster{Listen: ":6222", Peers: []string{"n1:6222", "n2:6222", "n3:6222"}, Secret: "s"}}
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		o    Options
		want string // in the error; "" for none
	}{
		"standalone":                 {Options{Dir: "x"}, ""},
		"standalone without a dir":   {Options{}, "Dir is empty"},
		"standalone, three replicas": {Options{Dir: "x", Replicas: 3}, "Replicas"},
		"servers":                    {servers(func(*Servers) {}), ""},
		"servers with TLS":           {servers(func(s *Servers) { s.URLs, s.TLSCA = []string{"tls://h:1"}, "ca" }), ""},
		"servers and cluster":        {Options{Dir: "x", Servers: &Servers{}, Cluster: &Cluster{}}, "exclude each other"},
		"servers without an address": {servers(func(s *Servers) { s.URLs = nil }), "Servers.URLs is empty"},
		"servers of another scheme":  {servers(func(s *Servers) { s.URLs[0] = "http://u:secret@h" }), "Servers.URLs[0]"},
		"two credentials":            {servers(func(s *Servers) { s.User, s.Token = "u", "t" }), "exclude each other"},
		"a password alone":           {servers(func(s *Servers) { s.Password = "p" }), "Servers.User"},
		"a key without certificate":  {servers(func(s *Servers) { s.TLSKey = "k" }), "Servers.TLSCert"},
		"cluster":                    {cluster(func(*Options) {}), ""},
		"cluster without a dir":      {cluster(func(o *Options) { o.Dir = "" }), "Dir is empty"},
		"cluster without a node":     {cluster(func(o *Options) { o.Node = "" }), "Node is empty"},
		"cluster with a bad node":    {cluster(func(o *Options) { o.Node = "a b" }), `Node "a b"`},
		"cluster without a listener": {cluster(func(o *Options) { o.Cluster.Listen = "" }), "Cluster.Listen"},
		"cluster on any port":        {cluster(func(o *Options) { o.Cluster.Listen = ":0" }), "Cluster.Listen"},
		"cluster without peers":      {cluster(func(o *Options) { o.Cluster.Peers = nil }), "Cluster.Peers is empty"},
		"cluster with a bad peer":    {cluster(func(o *Options) { o.Cluster.Peers[1] = "n2" }), `"n2"`},
		"cluster without a secret":   {cluster(func(o *Options) { o.Cluster.Secret = "" }), "Cluster.Secret is empty"},
		"cluster with half of TLS":   {cluster(func(o *Options) { o.Cluster.TLSCert, o.Cluster.TLSKey = "c", "k" }), "Cluster.TLSCA"},
		"more replicas than nodes":   {cluster(func(o *Options) { o.Replicas = 5 }), "Replicas is 5"},
		"an even number":             {cluster(func(o *Options) { o.Replicas = 2 }), "Replicas is 2"},
		"another follower":           {Options{Dir: "x", Follow: "some"}, "Follow"},
	} {
		o, err := c.o.withDefaults()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "" && !validPrefix.MatchString(o.Node):
			t.Errorf("%s: the node is named %q", name, o.Node)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want it to say %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "secret@"):
			t.Errorf("%s: a password is printed: %v", name, err)
		}
	}
}

func TestWhatAFollowerHears(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want Mode
	}{
		{Options{}, FollowAll},
		{Options{Follow: FollowAuto}, FollowAll},
		{Options{Follow: FollowInterest}, FollowInterest},
		{Options{Servers: &Servers{}}, FollowInterest},
		{Options{Cluster: &Cluster{}}, FollowInterest},
		{Options{Cluster: &Cluster{}, Follow: FollowAll}, FollowAll},
	} {
		if got := c.o.followMode(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
		if republish := logConfig(c.o).RePublish != nil; republish != (c.want == FollowInterest) {
			t.Errorf("%+v: republish is %v", c.o, republish)
		}
	}
}

// The number of routes is the size of the cluster that raft waits for: each node counts once.
func TestANodeFindsItselfAmongThePeers(t *testing.T) {
	for name, c := range map[string]struct {
		node, listen string
		peers, want  []string
	}{
		"by where it listens":       {"a", "127.0.0.1:1", []string{"127.0.0.1:1", "127.0.0.1:2"}, []string{"127.0.0.1:1", "127.0.0.1:2"}},
		"by its name":               {"n2", ":6", []string{"n1:6", "N2:6", "n3:6"}, []string{"n1:6", "N2:6", "n3:6"}},
		"by its full name":          {"h-0", ":6", []string{"h-0.hubs.ns.svc:6", "h-1.hubs.ns.svc:6"}, []string{"h-0.hubs.ns.svc:6", "h-1.hubs.ns.svc:6"}},
		"not by a longer name":      {"h-1", ":6", []string{"h-10:6", "h-11.x:6"}, []string{"h-10:6", "h-11.x:6", "127.0.0.1:6"}},
		"by an address of its own":  {"a", "0.0.0.0:6", []string{"127.0.0.1:6", "192.0.2.1:6"}, []string{"127.0.0.1:6", "192.0.2.1:6"}},
		"but not on another port":   {"a", ":6", []string{"127.0.0.1:7", "192.0.2.1:6"}, []string{"127.0.0.1:7", "192.0.2.1:6", "127.0.0.1:6"}},
		"nor where it listens not":  {"a", "127.0.0.2:6", []string{"127.0.0.1:6", "127.0.0.3:6"}, []string{"127.0.0.1:6", "127.0.0.3:6", "127.0.0.2:6"}},
		"twice":                     {"a", ":6", []string{"a:6", "127.0.0.1:6", "b:6", "b:6"}, []string{"a:6", "b:6"}},
		"in the list of all others": {"a", "host-a:6", []string{"host-b:6", "host-c:6"}, []string{"host-b:6", "host-c:6", "host-a:6"}},
	} {
		cluster := Cluster{Listen: c.listen, Peers: c.peers}
		if got := cluster.nodes(c.node); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
