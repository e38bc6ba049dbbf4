package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance"
)

const (
	publisherKey  = "a publisher's secret for tests, 32 bytes"
	subscriberKey = "a subscriber's secret for tests, 32 bytes"
	corsOrigin    = "https://app.example"
	publishOrigin = "https://backend.example"
	issuer        = "https://issuer.example"
	resource      = "https://hub.example/.well-known/mercure"
)

// issuerKey is a key pair of the issuer's, made once.
var issuerKey = sync.OnceValues(func() (private, public string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	encode := func(kind string, der []byte, err error) string {
		if err != nil {
			panic(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private = encode("PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(&key.PublicKey)
	return private, encode("PUBLIC KEY", der, err)
})

// startHub runs a whole hub on free ports of the loopback until the test ends.
func startHub(t *testing.T, change func(*app.Config)) (*app.App, conformance.Target) {
	t.Helper()
	cfg := app.Default()
	cfg.Listen, cfg.AdminListen, cfg.DataDir = "127.0.0.1:0", "", filepath.Join(t.TempDir(), "data")
	cfg.PublisherKey, cfg.SubscriberKey = app.NewSecret(publisherKey), app.NewSecret(subscriberKey)
	cfg.CORSOrigins, cfg.PublishOrigins = []string{corsOrigin}, []string{publishOrigin}
	cfg.DrainDelay = 0
	private, public := issuerKey()
	cfg.Issuer, cfg.IssuerKey, cfg.IssuerAlg, cfg.ResourceIdentifier = issuer, app.NewSecret(public), "ES256", resource
	change(&cfg)
	hub, err := app.New(cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		t.Fatalf("make a hub: %v", err)
	}
	if err := hub.Start(t.Context()); err != nil {
		t.Fatalf("start a hub: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := hub.Stop(ctx); err != nil {
			t.Errorf("stop the hub: %v", err)
		}
	})
	target := conformance.Target{
		URL: hub.URL(), PublisherKey: publisherKey, SubscriberKey: subscriberKey, Wait: 20 * time.Second,
		Issuer: issuer, IssuerKey: private, Resource: resource, PublicURL: "http://localhost" + spec.DefaultHubPath,
		Anonymous: cfg.Anonymous, Subscriptions: cfg.Subscriptions, AllowOrigin: corsOrigin, PublishOrigin: publishOrigin,
	}
	if cfg.Issuer == "" {
		target.NoIssuers, target.Issuer, target.IssuerKey, target.Resource = true, "", "", ""
	}
	if !cfg.Classic {
		target.NoClassic, target.PublisherKey, target.SubscriberKey = true, "", ""
	}
	return hub, target
}

// pick returns the cases of these names; it fails for one that does not exist.
func pick(t *testing.T, names ...string) []conformance.Case {
	t.Helper()
	cases := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool { return !slices.Contains(names, c.Name) })
	if len(cases) != len(names) {
		t.Fatalf("%d of the cases %q exist", len(cases), names)
	}
	return cases
}

// judge runs cases as subtests.
func judge(t *testing.T, target conformance.Target, cases []conformance.Case) {
	t.Helper()
	_, err := conformance.RunCases(t.Context(), target, cases, func(r conformance.Result) {
		t.Run(r.Name(), func(t *testing.T) {
			switch {
			case r.Err != nil:
				t.Errorf("%s %s\n%v", strings.Join(r.Case.Rows, " "), r.Case.Doc, r.Err)
			case r.Skipped != "":
				t.Skip(r.Skipped)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheHubConforms(t *testing.T) {
	for name, change := range map[string]func(*app.Config){
		"memory":    func(c *app.Config) { c.Transport, c.Anonymous, c.Subscriptions = "memory", true, true },
		"jetstream": func(c *app.Config) { c.Transport, c.Subscriptions = "jetstream", true },
	} {
		t.Run(name, func(t *testing.T) {
			_, target := startHub(t, change)
			judge(t, target, conformance.Cases())
		})
	}
}

// noIssuers makes a hub of the classic generation alone.
func noIssuers(c *app.Config) {
	c.Issuer, c.IssuerKey, c.IssuerAlg, c.ResourceIdentifier = "", app.Secret{}, app.Default().IssuerAlg, ""
}

// noClassic makes a hub of draft-08 alone.
func noClassic(c *app.Config) {
	c.Classic, c.PublisherKey, c.SubscriberKey, c.DefaultGeneration = false, app.Secret{}, app.Secret{}, spec.Draft08.Name
}

// Covers: G-22.
func TestTheHubConformsInOneGeneration(t *testing.T) {
	for name, change := range map[string]func(*app.Config){
		"classic":             func(c *app.Config) { noIssuers(c); c.Subscriptions, c.Anonymous = true, true },
		"draft-08":            func(c *app.Config) { noClassic(c); c.Subscriptions = true },
		"draft-08, anonymous": func(c *app.Config) { noClassic(c); c.Subscriptions, c.Anonymous = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			_, target := startHub(t, func(c *app.Config) { c.Transport = "memory"; change(c) })
			judge(t, target, conformance.Cases())
		})
	}
}

func TestTheHubConformsOverTLS(t *testing.T) {
	cert, key, roots := selfSigned(t)
	_, target := startHub(t, func(c *app.Config) { c.Transport, c.TLSCert, c.TLSKey = "memory", cert, key })
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	target.HTTP = &http.Client{Transport: tr}
	judge(t, target, conformance.Cases())
}

func TestTheHubConformsOverHTTP2(t *testing.T) {
	_, target := startHub(t, func(c *app.Config) { c.Transport, c.Subscriptions = "memory", true })
	var two http.Protocols
	two.SetUnencryptedHTTP2(true)
	target.HTTP = &http.Client{Transport: &http.Transport{DisableCompression: true, Protocols: &two}}
	judge(t, target, conformance.Cases())
}

// selfSigned writes a certificate for the loopback and its key, and returns the files and a pool that
// trusts it.
func selfSigned(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return certFile, keyFile, roots
}

func TestTheHubConformsWithShortTimes(t *testing.T) {
	_, target := startHub(t, func(c *app.Config) {
		c.Transport, c.Heartbeat, c.MaxConnectionLifetime, c.WriteTimeout = "memory", 100*time.Millisecond, 1500*time.Millisecond, 500*time.Millisecond
	})
	target.Heartbeat, target.Lifetime = 100*time.Millisecond, 1500*time.Millisecond
	judge(t, target, pick(t, "stream/heartbeat", "stream/lifetime"))
}

func TestTheHubCutsWhoeverTakesNothing(t *testing.T) {
	_, target := startHub(t, func(c *app.Config) { c.Transport, c.WriteTimeout = "memory", 500*time.Millisecond })
	target.WriteTimeout = 500 * time.Millisecond
	judge(t, target, pick(t, "lifetime/no-progress"))
}

func TestTheHubConformsWithAShortHistory(t *testing.T) {
	for _, transport := range []string{"memory", "jetstream"} {
		t.Run(transport, func(t *testing.T) {
			_, target := startHub(t, func(c *app.Config) { c.Transport, c.HistoryMaxMessages = transport, 6 })
			target.History, target.Concurrency = 6, 1 // nobody else may publish
			judge(t, target, pick(t, "resume/trimmed"))
		})
	}
}
