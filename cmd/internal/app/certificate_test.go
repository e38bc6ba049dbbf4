package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// writePair writes a self-signed certificate for 127.0.0.1 with the given serial number, and its key.
// The files' times differ from pair to pair even where the clock of the file system is coarse.
func writePair(t *testing.T, certFile, keyFile string, serial int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(50, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der, serial)
	writePEM(t, keyFile, "PRIVATE KEY", pkcs8, serial)
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}

func writePEM(t *testing.T, file, kind string, der []byte, serial int64) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000+serial, 0)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

func serialOf(t *testing.T, c *certificate) int64 {
	t.Helper()
	pair, err := c.config().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber.Int64()
}

func TestCertificateFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, 1)
	synctest.Test(t, func(t *testing.T) {
		c, err := newCertificate(cert, key, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		go c.watch(t.Context())
		if got := serialOf(t, c); got != 1 {
			t.Fatalf("serial %d, want 1", got)
		}
		writePair(t, cert, key, 2)
		time.Sleep(certificatePoll)
		synctest.Wait()
		if got := serialOf(t, c); got != 2 {
			t.Errorf("serial %d after a change, want 2", got)
		}
		// Half of the next pair is there: the old one stays until the other half has come.
		writePair(t, cert, filepath.Join(dir, "later.pem"), 3)
		time.Sleep(certificatePoll)
		synctest.Wait()
		if got := serialOf(t, c); got != 2 {
			t.Errorf("serial %d with a pair that does not fit, want 2", got)
		}
		if err := os.Rename(filepath.Join(dir, "later.pem"), key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(certificatePoll)
		synctest.Wait()
		if got := serialOf(t, c); got != 3 {
			t.Errorf("serial %d once the pair is whole, want 3", got)
		}
	})
}
