package jetstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// certificates makes an authority and a certificate of it for this machine, in PEM files.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	save := func(name, kind string, der []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		write(t, file, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
		return file
	}
	sign := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		t.Helper()
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if by == nil {
			by = own
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		return der, own
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, by := sign(authority, authority, nil)
	ca = save("ca.pem", "CERTIFICATE", der)
	der, own := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, authority, by)
	cert = save("cert.pem", "CERTIFICATE", der)
	if der, err := x509.MarshalECPrivateKey(own); err != nil {
		t.Fatal(err)
	} else {
		key = save("key.pem", "EC PRIVATE KEY", der)
	}
	return ca, cert, key
}

func TestRoutesWithMutualTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t)
	options := clusterOptions(t, 3, Options{})
	for i := range options {
		c := options[i].Cluster
		c.TLSCA, c.TLSCert, c.TLSKey = ca, cert, key
	}
	logs := openNodes(t, options)
	e := add(t, logs[0], update(1))
	mustLocate(t, logs[1], e.Update.ID, e.Pos)
	server := logs[0].server.current.Load()
	if _, err := nats.Connect(server.ClientURL(), nats.UserInfo(routeUser, "a guess")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a client with other credentials: %v", err)
	}
}

// A node that does not know the secret, and one that is alone, say that they wait, and give up in time.
func TestANodeThatFindsNoOthersSaysSo(t *testing.T) {
	t.Parallel()
	options := clusterOptions(t, 3, Options{})
	options[2].Cluster.Secret = "another secret"
	logs := make(chan error, len(options))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	for _, o := range options {
		go func() {
			l, err := Open(ctx, o)
			if l != nil {
				err = errors.Join(errors.New("opened"), l.Close(context.WithoutCancel(ctx)))
			}
			logs <- err
		}()
	}
	for range options {
		if err := <-logs; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "data directory") {
			t.Errorf("%v; want that the time is over, and the directory", err)
		}
	}
}

func TestServersWithTLSAndCredentials(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "tls", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), Username: "hub", Password: "right",
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("not ready")
	}
	at := "tls://" + srv.Addr().String()
	l := openAnywhere(t, Options{Servers: &Servers{URLs: []string{at}, User: "hub", Password: "right", TLSCA: ca}, Follow: FollowAll})
	add(t, l, update(1))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, s := range map[string]*Servers{
		"another password":  {URLs: []string{at}, User: "hub", Password: "wrong-password", TLSCA: ca},
		"another authority": {URLs: []string{at}, User: "hub", Password: "right"},
		"no such file":      {URLs: []string{at}, Creds: filepath.Join(t.TempDir(), "none")},
		"no credentials":    {URLs: []string{at}, Creds: ca, TLSCA: ca},
	} {
		_, err := Open(ctx, Options{Servers: s})
		if err == nil || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "wrong-password") {
			t.Errorf("%s: %v; want another error, at once", name, err)
		}
		if told := errors.Is(err, ErrCredentials); told != (name == "another password") {
			t.Errorf("%s: %v; are they the credentials? %t", name, err, told)
		}
	}
}
