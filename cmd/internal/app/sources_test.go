package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// load parses args, then completes them with environ and with a file of the given text, if there is any.
func load(t *testing.T, file string, environ []string, args ...string) (*app.Settings, *pflag.FlagSet, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s := app.NewSettings(fs)
	if file != "" {
		path := filepath.Join(t.TempDir(), "hub.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := fs.Parse(args); err != nil {
		return s, fs, err
	}
	err := s.Load(environ)
	return s, fs, err
}

// samples gives three different values for a flag, by its type.
func samples(f *pflag.Flag) [3]string {
	if names := strings.Split(f.Value.Type(), "|"); len(names) > 1 {
		names = slices.DeleteFunc(names, func(n string) bool { return n == f.DefValue })
		return [3]string{names[0], f.DefValue, names[0]}
	}
	switch f.Value.Type() {
	case "bool":
		other := map[string]string{"true": "false", "false": "true"}[f.DefValue]
		return [3]string{other, f.DefValue, other}
	case "number":
		return [3]string{"7", "8", "9"}
	case "size":
		return [3]string{"16KiB", "32KiB", "64KiB"}
	case "duration", "interval":
		return [3]string{"1m", "2m", "3m"}
	case "algorithm":
		return [3]string{"RS256", "ES256", "EdDSA"}
	case "URL":
		return [3]string{"https://a.example/hub", "https://b.example/hub", "https://c.example/hub"}
	case "name":
		return [3]string{"a", "b", "c"}
	case "CIDR":
		return [3]string{"10.0.0.0/8", "192.168.0.0/16", "fd00::/8"}
	case "origin":
		return [3]string{"https://a.example", "https://b.example", "https://c.example"}
	case "path":
		return [3]string{"/a", "/b", "/c"}
	case "secret":
		return [3]string{"@a", "@b", "@c"}
	}
	return [3]string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
}

func TestEveryFlagCanBeGivenEverywhereAndTheNearestSourceWins(t *testing.T) {
	all := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	app.NewSettings(all)
	all.VisitAll(func(f *pflag.Flag) {
		if f.Name == "config" {
			return
		}
		t.Run(f.Name, func(t *testing.T) {
			if len(f.Usage) < 10 {
				t.Errorf("usage %q explains nothing", f.Usage)
			}
			v := samples(f)
			file := f.Name + ": " + fmt.Sprintf("%q", v[0])
			env := "CINNABAR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			for _, step := range []struct {
				source string
				want   string
				file   string
				env    []string
				args   []string
			}{
				{"default", f.DefValue, "", nil, nil},
				{"hub.yaml:1", v[0], file, nil, nil},
				{"environment " + env, v[1], file, []string{env + "=" + v[1]}, nil},
				{"flag", v[2], file, []string{env + "=" + v[1]}, []string{"--" + f.Name + "=" + v[2]}},
			} {
				s, fs, err := load(t, step.file, step.env, step.args...)
				if err != nil {
					t.Fatalf("%s: %v", step.source, err)
				}
				if got := fs.Lookup(f.Name).Value.String(); got != step.want {
					t.Errorf("%s: value %q, want %q", step.source, got, step.want)
				}
				if got := s.Source(f.Name); !strings.HasSuffix(got, step.source) {
					t.Errorf("source %q, want %q", got, step.source)
				}
			}
		})
	})
}

func TestRepeatableFlagsTakeListsEverywhere(t *testing.T) {
	const want = "[https://a.example https://b.example:8443]"
	for name, tt := range map[string]struct {
		file string
		env  []string
		args []string
	}{
		"flags repeated":         {"", nil, []string{"--cors-origin", "https://a.example", "--cors-origin", "https://B.example:8443"}},
		"commas in a variable":   {"", []string{"CINNABAR_CORS_ORIGIN=https://a.example, https://b.example:8443,"}, nil},
		"a list in the file":     {"cors-origin:\n  - https://a.example\n  - https://b.example:8443\n", nil, nil},
		"flags replace the file": {"cors-origin: [https://z.example]", nil, []string{"--cors-origin=https://a.example", "--cors-origin=https://b.example:8443"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := load(t, tt.file, tt.env, tt.args...)
			if got := fmt.Sprint(s.Config.CORSOrigins); err != nil || got != want {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		})
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		env  []string
		args []string
		want []string
	}{
		"flag: malformed":           {"", nil, []string{"--heartbeat=15"}, []string{"--heartbeat", `"15"`, "duration such as"}},
		"flag: unknown":             {"", nil, []string{"--hart-beat=1s"}, []string{"--hart-beat"}},
		"environment: malformed":    {"", []string{"CINNABAR_MAX_TOPICS=many"}, nil, []string{"environment CINNABAR_MAX_TOPICS", `"many"`, "whole number"}},
		"environment: unknown":      {"", []string{"CINNABAR_HARTBEAT=1s"}, nil, []string{"CINNABAR_HARTBEAT", "did you mean CINNABAR_HEARTBEAT?"}},
		"environment: of reference": {"", []string{"MERCURE_PUBLISHER_JWT_ALG=HS1"}, nil, []string{"environment MERCURE_PUBLISHER_JWT_ALG", `"HS1"`, "HS256"}},
		"file: malformed":           {"anonymous: true\nsync: sometimes\n", nil, nil, []string{"hub.yaml:2", "sync", `"sometimes"`, "always"}},
		"file: unknown":             {"max-topic: 3", nil, nil, []string{"hub.yaml:1", "unknown key max-topic", "did you mean max-topics?"}},
		"file: nothing is near":     {"zzzzzzzzzzzzzzzz: 3", nil, nil, []string{"unknown key zzzzzzzzzzzzzzzz"}},
		"file: twice":               {"retry: 1s\nretry: 2s", nil, nil, []string{"retry"}},
		"file: no value":            {"retry:", nil, nil, []string{"hub.yaml:1", "retry", "no value"}},
		"file: nested":              {"history:\n  max-age: 1h", nil, nil, []string{"hub.yaml:1", "unknown key history"}},
		"file: list for one value":  {"retry: [1s]", nil, nil, []string{"hub.yaml:1", "retry", "single value"}},
		"file: not a mapping":       {"- a", nil, nil, []string{"hub.yaml", "must be a mapping"}},
		"file: not YAML":            {"a: b: c", nil, nil, []string{"hub.yaml", "yaml"}},
		"file: a second document":   {"retry: 1s\n---\nretry: 2s", nil, nil, []string{"hub.yaml:", "second document"}},
		"file: not YAML further on": {"retry: 1s\n---\n}", nil, nil, []string{"hub.yaml", "yaml"}},
		"file: names another file":  {"config: x.yaml", nil, nil, []string{"unknown key config"}},
		"one bad of a list":         {"trusted-proxy: [10.0.0.0/8, ten]", nil, nil, []string{"trusted-proxy", `"ten"`, "CIDR"}},
		"no file":                   {"", []string{"CINNABAR_CONFIG=/nowhere/hub.yaml"}, nil, []string{"/nowhere/hub.yaml"}},
		"all at once":               {"max-topic: 3", []string{"CINNABAR_RETRY=x", "CINNABAR_NEW=1"}, nil, []string{"max-topic", "CINNABAR_RETRY", "CINNABAR_NEW"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := load(t, tt.file, tt.env, tt.args...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not name %q: %v", want, err)
				}
			}
		})
	}
}

func TestVariablesOfOthersAreLeftAlone(t *testing.T) {
	_, _, err := load(t, "", []string{
		"CINNABAR_HUB=http://h", "CINNABAR_TOKEN=t", "CINNABAR_KEY=k", "CINNABAR_PUBLIC_VECTORS=/v", "HOME=/", "LISTEN_PID=1",
		// a Kubernetes service called cinnabar, and one called cinnabar-admin
		"CINNABAR_SERVICE_HOST=10.0.0.1", "CINNABAR_SERVICE_PORT=3000", "CINNABAR_SERVICE_PORT_HTTP=3000", "CINNABAR_PORT=tcp://10.0.0.1:3000",
		"CINNABAR_PORT_3000_TCP=tcp://10.0.0.1:3000", "CINNABAR_PORT_3000_TCP_ADDR=10.0.0.1", "CINNABAR_ADMIN_SERVICE_HOST=10.0.0.2",
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNamesOfTheReferenceAreUnderstood(t *testing.T) {
	reference := []string{"MERCURE_PUBLISHER_JWT_KEY=@/run/a", "MERCURE_SUBSCRIBER_JWT_KEY=@/run/b", "MERCURE_PUBLISHER_JWT_ALG=RS256", "MERCURE_SUBSCRIBER_JWT_ALG="}
	s, _, err := load(t, "publisher-jwt-key: '@/run/c'", reference)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Config
	if got := fmt.Sprintln(c.PublisherKey, c.PublisherAlg, c.SubscriberKey, c.SubscriberAlg); got != "@/run/a RS256 @/run/b HS256\n" {
		t.Errorf("got %s", got)
	}
	s, _, err = load(t, "", append(reference, "CINNABAR_PUBLISHER_JWT_KEY=@/run/d"))
	if got := s.Config.PublisherKey.String(); err != nil || got != "@/run/d" {
		t.Errorf("%s, %v: the hub's own name must win", got, err)
	}
}

func TestDefaultsThatFollowAnotherSetting(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"memory keeps less":          {[]string{"--transport=memory"}, "67108864 :3000 false false"},
		"unless told":                {[]string{"--transport=memory", "--history-max-bytes=1GiB"}, "1073741824 :3000 false false"},
		"dev stays on this machine":  {[]string{"--dev"}, "1073741824 127.0.0.1:3000 true true"},
		"dev with an address":        {[]string{"--dev", "--listen=localhost:9"}, "1073741824 localhost:9 true true"},
		"dev without anonymous ones": {[]string{"--dev", "--anonymous=false"}, "1073741824 127.0.0.1:3000 false true"},
		"dev without a list":         {[]string{"--dev", "--subscriptions=false"}, "1073741824 127.0.0.1:3000 true false"},
		"a list":                     {[]string{"--subscriptions"}, "1073741824 :3000 false true"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := load(t, "", nil, tt.args...)
			c := s.Config
			if got := fmt.Sprint(c.HistoryMaxBytes, " ", c.Listen, " ", c.Anonymous, " ", c.Subscriptions); err != nil || got != tt.want {
				t.Errorf("%s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestDefaultsOfManyNodes(t *testing.T) {
	cluster := []string{"--cluster-listen=127.0.0.1:6222"}
	for name, tt := range map[string]struct {
		args []string
		want string // value and source of --publish-timeout and --drain-delay
	}{
		"alone":            {nil, "5s default 0s default"},
		"NATS":             {[]string{"--nats-url=nats://127.0.0.1:4222"}, "10s default of many nodes 5s default of many nodes"},
		"cluster":          {cluster, "10s default of many nodes 5s default of many nodes"},
		"unless told":      {append(cluster, "--publish-timeout=5s", "--drain-delay=0s"), "5s flag 0s flag"},
		"one process":      {[]string{"--dev", "--nodes=3"}, "10s default of many nodes 0s default"},
		"dev alone":        {[]string{"--dev", "--nodes=1"}, "5s default 0s default"},
		"memory of laptop": {[]string{"--dev", "--transport=memory"}, "5s default 0s default"},
	} {
		t.Run(name, func(t *testing.T) {
			s, fs, err := load(t, "", nil, tt.args...)
			show := func(flag string) string { return fs.Lookup(flag).Value.String() + " " + s.Source(flag) }
			if got := show("publish-timeout") + " " + show("drain-delay"); err != nil || got != tt.want {
				t.Errorf("%s, %v; want %s", got, err, tt.want)
			}
			if named := s.Config.NodeName != "" && s.Source("node-name") == "host name"; named != (s.Config.ClusterListen != "") {
				t.Errorf("node name %q from %s", s.Config.NodeName, s.Source("node-name"))
			}
		})
	}
}

func TestSocketsOfAServiceManagerAreTakenOnlyWithoutAnAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		env  []string
		args []string
		want bool
	}{
		"nothing said":                   {"", nil, nil, true},
		"a file with a document's marks": {"---\nretry: 1s\n...\n", nil, nil, true},
		"an empty file":                  {"# nothing\n", nil, nil, true},
		"the default as a flag":          {"", nil, []string{"--listen=:3000"}, false},
		"the default in a variable":      {"", []string{"CINNABAR_LISTEN=:3000"}, nil, false},
		"the default in the file":        {"listen: ':3000'", nil, nil, false},
		"dev, which has its own":         {"", nil, []string{"--dev"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := load(t, tt.file, tt.env, tt.args...)
			if got := s.Config.ListenUnset; err != nil || got != tt.want {
				t.Errorf("%t, %v; want %t", got, err, tt.want)
			}
		})
	}
}
