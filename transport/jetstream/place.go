package jetstream

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Where a log is kept. The names of the first two stand in the data directory.
const (
	modeStandalone = "standalone" // one server in this process
	modeCluster    = "cluster"    // a server in each of several processes
	modeExternal   = "external"   // somebody else's servers
)

func (o Options) mode() string {
	switch {
	case o.Servers != nil:
		return modeExternal
	case o.Cluster != nil:
		return modeCluster
	default:
		return modeStandalone
	}
}

// clustered reports whether the log may be elsewhere than in this process: what is known here is then not all.
func (o Options) clustered() bool { return o.mode() != modeStandalone }

// followMode returns what the follower hears: FollowAll or FollowInterest.
func (o Options) followMode() Mode {
	switch {
	case o.Follow == FollowAll || o.Follow == FollowInterest:
		return o.Follow
	case o.clustered():
		return FollowInterest
	default:
		return FollowAll
	}
}

// checkPlace looks at the mode and what belongs to it.
func (o Options) checkPlace() error {
	if !slices.Contains(validReplicas, o.Replicas) {
		return fmt.Errorf("jetstream: Replicas is %d, possible are 1, 3 and 5", o.Replicas)
	}
	if !slices.Contains([]Mode{"", FollowAuto, FollowAll, FollowInterest}, o.Follow) {
		return fmt.Errorf("jetstream: Follow is %q, possible are %q, %q and %q", o.Follow, FollowAuto, FollowAll, FollowInterest)
	}
	if o.Node != "" && !validPrefix.MatchString(o.Node) {
		return fmt.Errorf("jetstream: Node %q is not made of letters, digits, _ and -", o.Node)
	}
	switch {
	case o.Servers != nil && o.Cluster != nil:
		return errors.New("jetstream: Servers and Cluster exclude each other")
	case o.Servers != nil:
		return o.Servers.check()
	case o.Dir == "":
		return errors.New("jetstream: Dir is empty: no data directory")
	case o.Cluster != nil:
		if o.Node == "" {
			return errors.New("jetstream: Node is empty: a cluster knows its nodes by their names")
		}
		if err := o.Cluster.check(); err != nil {
			return err
		}
		if n := len(o.Cluster.nodes(o.Node)); o.Replicas > n {
			return fmt.Errorf("jetstream: Replicas is %d, Cluster.Peers makes %d nodes", o.Replicas, n)
		}
	case o.Replicas > 1:
		return fmt.Errorf("jetstream: Replicas is %d, a server that is alone keeps one", o.Replicas)
	}
	return nil
}

// check looks at the fields; addresses are not printed, for they may hold a password.
func (s *Servers) check() error {
	if len(s.URLs) == 0 {
		return errors.New("jetstream: Servers.URLs is empty")
	}
	for i, text := range s.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || (u.Scheme != "nats" && u.Scheme != "tls") {
			return fmt.Errorf("jetstream: Servers.URLs[%d] is not of the form nats://host:port or tls://host:port", i)
		}
	}
	ways := 0
	for _, text := range []string{s.Creds, s.User, s.Token} {
		if text != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("jetstream: Servers.Creds, Servers.User and Servers.Token exclude each other")
	case s.Password != "" && s.User == "":
		return errors.New("jetstream: Servers.Password is given without Servers.User")
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return errors.New("jetstream: Servers.TLSCert and Servers.TLSKey need each other")
	}
	return nil
}

func (c *Cluster) check() error {
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || !validPort(port) {
		return fmt.Errorf("jetstream: Cluster.Listen %q is not of the form host:port, with a port that the others know", c.Listen)
	}
	if len(c.Peers) == 0 {
		return errors.New("jetstream: Cluster.Peers is empty")
	}
	for _, peer := range c.Peers {
		if host, port, err := net.SplitHostPort(peer); err != nil || host == "" || !validPort(port) {
			return fmt.Errorf("jetstream: Cluster.Peers: %q is not of the form host:port", peer)
		}
	}
	if c.Secret == "" {
		return errors.New("jetstream: Cluster.Secret is empty")
	}
	if some := c.TLSCert != "" || c.TLSKey != "" || c.TLSCA != ""; some && (c.TLSCert == "" || c.TLSKey == "" || c.TLSCA == "") {
		return errors.New("jetstream: Cluster.TLSCert, Cluster.TLSKey and Cluster.TLSCA need each other")
	}
	return nil
}

func validPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// nodes returns the address of every node once, the one named node, which is this one, included.
func (c *Cluster) nodes(node string) []string {
	var all []string
	self := false
	for _, peer := range c.Peers {
		own := c.isSelf(node, peer)
		if (own && self) || slices.Contains(all, peer) {
			continue
		}
		self = self || own
		all = append(all, peer)
	}
	if !self {
		host, port, _ := net.SplitHostPort(c.Listen) // checked
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			host = "127.0.0.1"
		}
		all = append(all, net.JoinHostPort(host, port))
	}
	return all
}

// isSelf reports whether peer is the address of this node: by its name, by where it listens, or, if it listens on
// every address, by an address of this machine.
func (c *Cluster) isSelf(node, peer string) bool {
	host, port, _ := net.SplitHostPort(peer) // checked, as is the next
	ownHost, ownPort, _ := net.SplitHostPort(c.Listen)
	if strings.EqualFold(host, node) || hasPrefixFold(host, node+".") {
		return true
	}
	if port != ownPort {
		return false
	}
	if strings.EqualFold(host, ownHost) {
		return true
	}
	if own := net.ParseIP(ownHost); own != nil && !own.IsUnspecified() {
		return own.Equal(net.ParseIP(host))
	}
	return strings.EqualFold(host, "localhost") || isLocal(net.ParseIP(host))
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// isLocal reports whether ip is an address of this machine.
func isLocal(ip net.IP) bool {
	if ip == nil {
		return false
	}
	addrs, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

// someNode makes a name that no other process has.
func someNode() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	host = strings.Map(func(r rune) rune {
		if validPrefix.MatchString(string(r)) {
			return r
		}
		return '-'
	}, host)
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return host[:min(len(host), 48)] + "-" + hex.EncodeToString(b[:])
}
