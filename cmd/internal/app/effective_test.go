package app_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const secret = "a-secret-that-nobody-may-ever-see-in-a-log"

func TestSecretsAreNeverShown(t *testing.T) {
	s, _, err := load(t, "publisher-jwt-key: "+secret, []string{"CINNABAR_SUBSCRIBER_JWT_KEY=" + secret, "CINNABAR_RETRY=x"})
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
	var b strings.Builder
	if err := s.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), secret) {
		t.Errorf("shown:\n%s", &b)
	}
	if n := strings.Count(b.String(), "[redacted]"); n != 2 {
		t.Errorf("%d redacted values, want 2:\n%s", n, &b)
	}
	_, _, err = load(t, "publisher-jwt-key: ["+secret+"]", nil)
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
}

func TestCredentialsOfKeySetsAreNeverShown(t *testing.T) {
	for url, want := range map[string]string{
		"https://joe:" + secret + "@a.example/set":      `https://[redacted]@a.example/set`,
		"https://" + secret + "@a.example/set":          `https://[redacted]@a.example/set`,
		"https://a.example:8443/set?token=" + secret:    `https://a.example:8443/set?[redacted]`,
		"https://a.example/set#" + secret:               `https://a.example/set?[redacted]`,
		"http://joe:" + secret + "@a.example/set":       `http://[redacted]@a.example/set`, // refused
		"joe:" + secret + "@a.example/set":              `[redacted]`,
		"https:joe:" + secret + "@a.example/set":        `[redacted]`,
		"https://joe:" + secret + "@a.example:port/set": `[redacted]`,
		"https://a.example/a%20set":                     `https://a.example/a%20set`,
		"file:///run/keys/set.json":                     `file:///run/keys/set.json`,
	} {
		s, _, err := load(t, "", nil, "--publisher-jwks-url="+url)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := s.WriteYAML(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), secret) || !strings.Contains(b.String(), want) {
			t.Errorf("shown, or not as %s:\n%s", want, &b)
		}
		if _, err := s.Config.Validate(); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("refused with %v", err)
		}
		if s.Config.PublisherJWKS != url {
			t.Errorf("the URL in use is %q, want %q", s.Config.PublisherJWKS, url)
		}
	}
}

func TestCredentialsForNATSAreNeverShown(t *testing.T) {
	for url, want := range map[string]string{
		"nats://joe:" + secret + "@a.example:4222": `nats://[redacted]@a.example:4222`,
		"tls://" + secret + "@a.example:4222":      `tls://[redacted]@a.example:4222`,
		"http://" + secret + "@a.example:4222":     `http://[redacted]@a.example:4222`, // refused, as the rest
		"nats://a.example:4222/?token=" + secret:   `nats://a.example:4222/?[redacted]`,
		secret + "@a.example:4222":                 `[redacted]`,
		"nats://joe:" + secret + "@a.example:port": `[redacted]`,
		"nats://joe:" + secret + "@a:1,nats://b:1": `[redacted]`,
	} {
		for name, args := range map[string][]string{"flag": {"--nats-url=" + url, "--nats-token=" + secret}, "environment": nil} {
			var environ []string
			if args == nil {
				environ = []string{"CINNABAR_NATS_URL=" + url, "CINNABAR_CLUSTER_SECRET=" + secret, "CINNABAR_REPLICAS=x"}
			}
			s, _, err := load(t, "", environ, args...)
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", name, err)
			}
			var b strings.Builder
			if err := s.WriteYAML(&b); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), secret) || !strings.Contains(b.String(), want) {
				t.Errorf("%s: shown, or not as %s:\n%s", name, want, &b)
			}
			if _, err := s.Config.Validate(); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: refused with %v", name, err)
			}
		}
	}
}

func TestEffectiveConfigurationIsAConfigurationFile(t *testing.T) {
	first, fs, err := load(t, "retry: 4s", []string{"CINNABAR_CORS_ORIGIN=https://a.example,https://b.example"},
		"--listen=unix:/run/a b #c.sock", "--public-url=https://h.example/hub", "--subscriber-jwt-key=@/run/key", "--sync=always",
		"--trusted-proxy=10.1.2.3", "--max-body=1500", "--cookie-name=", "--admin-listen=")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := first.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	second, again, err := load(t, b.String(), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, &b)
	}
	first.Config.ConfigFile, second.Config.ConfigFile = "", ""
	if !reflect.DeepEqual(first.Config, second.Config) {
		t.Errorf("got  %+v\nwant %+v", second.Config, first.Config)
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if got := again.Lookup(f.Name).Value.String(); f.Name != "config" && got != f.Value.String() {
			t.Errorf("%s: %q became %q", f.Name, f.Value, got)
		}
	})
	for _, want := range []string{"# flag", "# default", "hub.yaml:1", "# environment CINNABAR_CORS_ORIGIN"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no source %q in\n%s", want, &b)
		}
	}
}
