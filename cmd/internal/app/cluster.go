package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cinnabar-hub/cinnabar/transport/jetstream"
)

// minClusterSecret is the least length of the secret between nodes, in bytes: whoever knows it can read and write
// the whole log, and it can be tried from wherever the cluster listener can be reached.
const minClusterSecret = 16

// clustered reports whether this hub is, or may be, one of several.
func (c *Config) clustered() bool { return len(c.NATSURLs) > 0 || c.embeddedCluster() }

// embeddedCluster reports whether nodes find each other without servers of another kind.
func (c *Config) embeddedCluster() bool { return c.ClusterListen != "" || c.Nodes > 1 }

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// nodeName makes a name of a host's: its first label, which is also how peers are known to be this node.
func nodeName(host string) string {
	label, _, _ := strings.Cut(host, ".")
	label = strings.Trim(notInNames.ReplaceAllString(label, "-"), "-")
	return label[:min(len(label), 64)]
}

// validateMany judges the settings of many nodes.
func (c *Config) validateMany(refuse, warn report) {
	nats, cluster, nodes := len(c.NATSURLs) > 0, c.ClusterListen != "", c.Nodes > 1
	switch {
	case nats && cluster:
		refuse("--nats-url and --cluster-listen are both given: the log is kept either on NATS servers or by the nodes themselves, choose one")
	case nodes && (nats || cluster):
		refuse("--nodes makes a cluster of its own, without --nats-url and --cluster-listen")
	case c.Transport == "memory" && nats:
		refuse("--nats-url: --transport memory keeps the log in this process alone")
	case c.Transport == "memory" && (cluster || nodes):
		refuse("--transport memory keeps the log in this process alone, so it cannot be used with --cluster-listen or --nodes")
	}
	if !slices.Contains([]int{0, 1, 3, 5}, c.Replicas) {
		refuse("--replicas: %d, must be 1, 3 or 5, or 0 for automatic", c.Replicas)
	} else if c.Replicas > 1 && !c.clustered() {
		refuse("--replicas: %d copies need as many servers, give --nats-url or --cluster-listen", c.Replicas)
	}
	c.validateNATS(refuse, warn)
	c.validateCluster(refuse, warn)
	c.validateNodes(refuse)
}

func (c *Config) validateNATS(refuse, warn report) {
	password, token := !c.NATSPassword.IsZero(), !c.NATSToken.IsZero()
	if len(c.NATSURLs) == 0 {
		for name, given := range map[string]bool{
			"nats-creds": c.NATSCreds != "", "nats-user": c.NATSUser != "", "nats-password": password, "nats-token": token,
			"nats-tls-ca": c.NATSTLSCA != "", "nats-tls-cert": c.NATSTLSCert != "", "nats-tls-key": c.NATSTLSKey != "",
		} {
			if given {
				refuse("--%s is of no use without --nats-url", name)
			}
		}
		return
	}
	if (c.NATSUser != "") != password {
		refuse("--nats-user and --nats-password go together, only one is given")
	}
	if (c.NATSTLSCert == "") != (c.NATSTLSKey == "") {
		refuse("--nats-tls-cert and --nats-tls-key go together, only one is given")
	}
	ways, inURL := 0, false
	for _, s := range c.NATSURLs {
		inURL = c.validateNATSURL(s, password || token, refuse, warn) || inURL
	}
	for _, given := range []bool{c.NATSCreds != "", c.NATSUser != "", token, inURL} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		refuse("credentials for NATS are given in more than one way: choose one of --nats-creds, --nats-user with --nats-password, --nats-token, and a user in --nats-url")
	}
}

// validateNATSURL judges one URL and reports whether it carries credentials; they are in no message.
func (c *Config) validateNATSURL(s string, secret bool, refuse, warn report) (credentials bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || strings.ContainsAny(s, "?#,") {
		refuse("--nats-url: %q: must be nats://host:port or tls://host:port", redactURL(s))
		return false
	}
	secret = secret || u.User != nil
	plain := u.Scheme == "nats" && c.NATSTLSCA == "" && c.NATSTLSCert == ""
	if secret && plain && !onThisMachine(u.Hostname()) {
		warn("--nats-url %s: without TLS, what this hub proves itself with can be read on the way, as can all updates; use tls://", redactURL(s))
	}
	return u.User != nil
}

func (c *Config) validateCluster(refuse, warn report) {
	files := []string{c.ClusterTLSCert, c.ClusterTLSKey, c.ClusterTLSCA}
	overTLS := !slices.Contains(files, "")
	if slices.ContainsFunc(files, func(f string) bool { return f != "" }) && !overTLS {
		refuse("--cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca go together, not all are given")
	}
	if c.ClusterListen == "" {
		if len(c.ClusterPeers) > 0 || overTLS || !c.ClusterSecret.IsZero() {
			refuse("--cluster-peer, --cluster-secret and --cluster-tls-cert are of no use without --cluster-listen")
		}
		return
	}
	host, err := hostPort(c.ClusterListen)
	switch local := onThisMachine(host); {
	case err != nil:
		refuse("--cluster-listen: %q: %w", c.ClusterListen, err)
	case c.Dev && !local:
		refuse("--dev: --cluster-listen %s is not a loopback address; --dev stays on this machine", c.ClusterListen)
	case !local && !overTLS:
		warn("--cluster-listen %s without --cluster-tls-cert: nodes prove who they are, but all updates can be read on the way between them", c.ClusterListen)
	}
	for _, p := range c.ClusterPeers {
		if host, err := hostPort(p); err != nil {
			refuse("--cluster-peer: %q: %w", p, err)
		} else if host == "" {
			refuse("--cluster-peer: %q: must name a host", p)
		}
	}
	if len(c.ClusterPeers) == 0 {
		refuse("--cluster-listen: no --cluster-peer is given, so there would be no other node")
	}
	if c.ClusterSecret.IsZero() {
		refuse("--cluster-listen: needs --cluster-secret, the same on all nodes")
	}
	if c.NodeName == "" {
		refuse("--node-name: must be given, the host name makes none")
	}
}

func (c *Config) validateNodes(refuse report) {
	switch {
	case c.Nodes == 1:
		return
	case c.Nodes != 3:
		refuse("--nodes: %d, must be 1 or 3", c.Nodes)
		return
	case !c.Dev:
		refuse("--nodes is for --dev: a process is one node otherwise, see --cluster-listen")
		return
	}
	if c.NodeName != "" {
		refuse("--nodes gives each node a name, --node-name cannot be used with it")
	}
	for _, a := range []struct{ flag, address string }{{"listen", c.Listen}, {"admin-listen", c.AdminListen}} {
		if _, err := shifted(a.address, 2); err != nil {
			refuse("--nodes: --%s: %q: %w", a.flag, a.address, err)
		}
	}
}

// hostPort gives the host of an address whose port is a number above 0, for others have to know it.
func hostPort(address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			return host, nil
		}
	}
	return "", errors.New("must be host:port with a port from 1 to 65535")
}

// shifted is address, host:port, with a port that is higher by n; port 0 and no address stay as they are.
func shifted(address string, n int) (string, error) {
	if address == "" {
		return "", nil
	}
	kind, rest, err := splitAddress(address)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(rest)
	p, portErr := strconv.ParseUint(port, 10, 16)
	if kind != kindTCP || err != nil || portErr != nil || int(p)+2*n > 65535 {
		return "", errors.New("must be host:port with a number that leaves room for the other nodes' ports")
	}
	if p == 0 {
		return address, nil
	}
	return net.JoinHostPort(host, strconv.Itoa(int(p)+n)), nil
}

func onThisMachine(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// proofs are the secrets with which a node proves itself to the others, as they were read for the start.
type proofs struct{ natsPassword, natsToken, cluster string }

// readProofs reads the secrets and looks at the files that many nodes need, so that every fault is told before
// anything is opened.
func (c *Config) readProofs() (p proofs, err error) {
	var errs []error
	for _, s := range []struct {
		name string
		from Secret
		to   *string
	}{
		{"nats-password", c.NATSPassword, &p.natsPassword}, {"nats-token", c.NATSToken, &p.natsToken}, {"cluster-secret", c.ClusterSecret, &p.cluster},
	} {
		if s.from.IsZero() {
			continue
		}
		if *s.to, err = s.from.Read(); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", s.name, err))
		} else if s.to == &p.cluster && len(p.cluster) < minClusterSecret {
			errs = append(errs, fmt.Errorf("--cluster-secret: only %d bytes, at least %d are needed: try `openssl rand -hex 32`", len(p.cluster), minClusterSecret))
		}
	}
	errs = append(errs,
		readablePair("nats-tls", c.NATSTLSCert, c.NATSTLSKey), readablePair("cluster-tls", c.ClusterTLSCert, c.ClusterTLSKey),
		readableAuthorities("nats-tls-ca", c.NATSTLSCA), readableAuthorities("cluster-tls-ca", c.ClusterTLSCA))
	if c.NATSCreds != "" {
		if err := jetstream.CheckCreds(c.NATSCreds); err != nil {
			errs = append(errs, fmt.Errorf("--nats-creds: %w", err))
		}
	}
	return p, errors.Join(errs...)
}

func readablePair(flags, cert, key string) error {
	if cert == "" || key == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("--%s-cert %s with --%s-key %s: %w", flags, cert, flags, key, err)
	}
	return nil
}

func readableAuthorities(flag, file string) error {
	if file == "" {
		return nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(b) {
		err = fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}
