package jetstream

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	routeUser   = "cinnabar"
	clientsHost = "127.0.0.1"
	// connectReports is how many failed attempts to reach a node lie between two lines that say so; attempts are
	// made every second.
	connectReports = 60
)

// joinCluster makes a server one of several. Every server is named in the routes, this one, too: their number
// is the size that the cluster waits for before it elects its first leader. The listener for clients is there
// because routes wait for one; it is bound to this machine and takes credentials that only this process has.
func joinCluster(s *server.Options, o Options) error {
	host, port, err := net.SplitHostPort(o.Cluster.Listen)
	if err != nil {
		return fmt.Errorf("jetstream: Cluster.Listen: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("jetstream: Cluster.Listen: %w", err)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	s.ServerName = o.Node
	s.DontListen, s.Host, s.Port = false, clientsHost, server.RANDOM_PORT
	s.Username, s.Password = rand.Text(), rand.Text()
	password := routePassword(o.Cluster.Secret)
	s.Cluster = server.ClusterOpts{
		Name: o.Prefix, Host: host, Port: n, NoAdvertise: true, // that is: of the listener for clients
		Username: routeUser, Password: password,
	}
	s.ConnectErrorReports, s.ReconnectErrorReports = connectReports, connectReports
	if s.Cluster.TLSConfig, err = o.Cluster.tls(); err != nil {
		return err
	}
	for _, node := range o.Cluster.nodes(o.Node) {
		s.Routes = append(s.Routes, &url.URL{Scheme: "nats-route", User: url.UserPassword(routeUser, password), Host: node})
	}
	return nil
}

// routePassword makes of the secret a password without anything that the server would take for a hash or a
// variable.
func routePassword(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("cinnabar cluster route"))
	return hex.EncodeToString(mac.Sum(nil))
}

// tls returns the configuration for both ends of a route, nil for none.
func (c *Cluster) tls() (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil //nolint:nilnil // no TLS
	}
	cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("jetstream: Cluster.TLSCert and Cluster.TLSKey: %w", err)
	}
	pool, err := authorities(c.TLSCA)
	if err != nil {
		return nil, fmt.Errorf("jetstream: Cluster.TLSCA: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}

// authorities reads a PEM file.
func authorities(name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(name) //nolint:gosec // configured
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in " + strconv.Quote(name))
	}
	return pool, nil
}
