package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// envPrefix begins the environment variables of the hub: --data-dir is CINNABAR_DATA_DIR.
const envPrefix = "CINNABAR_"

// Names under envPrefix that are not settings of serve: the test suites read the last, other commands the rest.
var otherEnv = []string{
	"CINNABAR_ADMIN", "CINNABAR_HUB", "CINNABAR_TOKEN", "CINNABAR_KEY", "CINNABAR_ISSUER_KEY",
	"CINNABAR_SUBSCRIBER_TOKEN", "CINNABAR_SUBSCRIBER_KEY", "CINNABAR_PUBLIC_VECTORS",
}

// kubernetesEnv are the variables that Kubernetes sets in every pod of a namespace with a service whose
// name begins with "cinnabar". Taking them for misspelt settings would keep the hub from starting there.
var kubernetesEnv = regexp.MustCompile(`^CINNABAR(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)$`)

// referenceEnv are the names of the reference hub, for drop-in use. A CINNABAR_ name wins.
var referenceEnv = map[string]string{
	"publisher-jwt-key":  "MERCURE_PUBLISHER_JWT_KEY",
	"publisher-jwt-alg":  "MERCURE_PUBLISHER_JWT_ALG",
	"subscriber-jwt-key": "MERCURE_SUBSCRIBER_JWT_KEY",
	"subscriber-jwt-alg": "MERCURE_SUBSCRIBER_JWT_ALG",
}

// Where a setting's value came from. The sources that name a variable or a line are built from these.
const (
	fromDefault = "default"
	fromFlag    = "flag"
	fromDev     = "--dev"
)

// Settings are a Config with the source of each value. Make it with NewSettings, let the flag set be
// parsed, then call Load.
type Settings struct {
	Config  Config
	flags   *pflag.FlagSet
	sources map[string]string // flag name → where its value came from
}

// NewSettings binds the default configuration to fs.
func NewSettings(fs *pflag.FlagSet) *Settings {
	own := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	s := &Settings{Config: Default(), flags: own, sources: make(map[string]string)}
	s.Config.Bind(own)
	fs.SortFlags = false
	fs.AddFlagSet(own)
	return s
}

// Source says where the value of the flag called name came from.
func (s *Settings) Source(name string) string { return s.sources[name] }

// Load completes what the command line set with environ (as os.Environ gives it) and with the file that
// --config or CINNABAR_CONFIG names: flag > environment > file > default. The error names every key that
// is unknown or malformed, its source and, unless it is a secret, its value.
func (s *Settings) Load(environ []string) error {
	s.flags.VisitAll(func(f *pflag.Flag) {
		s.sources[f.Name], s.sources[keyIssuers] = fromDefault, fromDefault
		if f.Changed {
			s.sources[f.Name] = fromFlag
		}
	})
	errs := []error{s.loadEnv(environ)}
	if s.Config.ConfigFile != "" {
		errs = append(errs, s.loadFile(s.Config.ConfigFile))
	}
	s.Config.ListenUnset = s.sources["listen"] == fromDefault && !s.Config.Dev
	s.derive()
	return errors.Join(errs...)
}

// derive applies the defaults that depend on another setting.
func (s *Settings) derive() {
	c := &s.Config
	if c.Transport == "memory" && s.sources["history-max-bytes"] == fromDefault {
		c.HistoryMaxBytes = memoryHistoryBytes
		s.sources["history-max-bytes"] = "default of --transport memory"
	}
	if c.clustered() {
		s.deriveCluster()
	}
	if !c.Classic && s.sources["default-generation"] == fromDefault {
		c.DefaultGeneration, s.sources["default-generation"] = spec.Draft08.Name, "--classic=false"
	}
	if !c.Dev {
		return
	}
	if s.sources["listen"] == fromDefault {
		c.Listen, s.sources["listen"] = "127.0.0.1:3000", fromDev
	}
	if s.sources["anonymous"] == fromDefault {
		c.Anonymous, s.sources["anonymous"] = true, fromDev
	}
	if s.sources["subscriptions"] == fromDefault {
		c.Subscriptions, s.sources["subscriptions"] = true, fromDev
	}
}

// deriveCluster applies the defaults of a hub that is one of several.
func (s *Settings) deriveCluster() {
	c := &s.Config
	const from = "default of many nodes"
	if s.sources["publish-timeout"] == fromDefault {
		c.PublishTimeout, s.sources["publish-timeout"] = clusterPublishTimeout, from
	}
	if s.sources["drain-delay"] == fromDefault && c.Nodes == 1 { // those in one process leave together
		c.DrainDelay, s.sources["drain-delay"] = clusterDrainDelay, from
	}
	if s.sources["node-name"] == fromDefault && c.ClusterListen != "" {
		if host, err := os.Hostname(); err == nil {
			c.NodeName, s.sources["node-name"] = nodeName(host), "host name"
		}
	}
}

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func (s *Settings) loadEnv(environ []string) error {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		name, val, _ := strings.Cut(kv, "=")
		env[name] = val
	}
	var errs []error
	known := make(map[string]bool)
	s.flags.VisitAll(func(f *pflag.Flag) {
		name := envName(f.Name)
		known[name] = true
		val, ok := env[name]
		if alias := referenceEnv[f.Name]; !ok && alias != "" && env[alias] != "" {
			name, val, ok = alias, env[alias], true
		}
		if !ok || s.sources[f.Name] != fromDefault {
			return
		}
		values := []string{val}
		if _, many := f.Value.(pflag.SliceValue); many {
			values = splitList(val)
		}
		errs = append(errs, s.set(f, values, "environment "+name, name))
	})
	for name := range env {
		if !strings.HasPrefix(name, envPrefix) || known[name] ||
			slices.Contains(otherEnv, name) || kubernetesEnv.MatchString(name) {
			continue
		}
		errs = append(errs, fmt.Errorf("environment: unknown variable %s%s", name, DidYouMean(name, known)))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(text(a), text(b)) })
	return errors.Join(errs...)
}

func splitList(s string) []string {
	var values []string
	for v := range strings.SplitSeq(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			values = append(values, v)
		}
	}
	return values
}

func (s *Settings) loadFile(path string) error {
	b, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var doc, another yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(b))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF): // an empty file
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	switch err := dec.Decode(&another); {
	case err == nil:
		return fmt.Errorf("%s:%d: a second document begins here (---): settings must be in one", path, another.Line)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", path, err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: must be a mapping of settings, named like the flags", path)
	}
	var errs []error
	known, seen := make(map[string]bool), make(map[string]bool)
	s.flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = f.Name != "config" })
	known[keyIssuers] = true
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, val := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d", path, key.Line)
		switch {
		case key.Value == keyIssuers && !seen[keyIssuers]:
			seen[keyIssuers] = true
			s.sources[keyIssuers] = at
			var err error
			s.Config.Issuers, err = readIssuers(path, val)
			errs = append(errs, err)
			continue
		case !known[key.Value]:
			errs = append(errs, fmt.Errorf("%s: unknown key %s%s", at, key.Value, DidYouMean(key.Value, known)))
			continue
		case seen[key.Value]:
			errs = append(errs, fmt.Errorf("%s: %s is given twice", at, key.Value))
			continue
		}
		seen[key.Value] = true
		f := s.flags.Lookup(key.Value)
		values, err := nodeValues(f, val)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", at, f.Name, err))
			continue
		}
		if src := s.sources[f.Name]; src == fromDefault {
			errs = append(errs, s.set(f, values, at, f.Name))
		}
	}
	return errors.Join(errs...)
}

// nodeValues gives the text of a scalar, or of each scalar of a list where the flag is repeatable.
func nodeValues(f *pflag.Flag, n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	_, many := f.Value.(pflag.SliceValue)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, errors.New("has no value")
	case n.Kind == yaml.ScalarNode:
		return []string{n.Value}, nil
	case n.Kind != yaml.SequenceNode || !many:
		return nil, errors.New("must be a single value; settings are not nested")
	}
	values := make([]string, 0, len(n.Content))
	for _, e := range n.Content {
		if e.Kind != yaml.ScalarNode || e.Tag == "!!null" {
			return nil, errors.New("must be a list of single values")
		}
		values = append(values, e.Value)
	}
	return values, nil
}

// set gives f its value and notes the source; key is what the source calls it.
func (s *Settings) set(f *pflag.Flag, values []string, source, key string) error {
	err := setFlag(f, values)
	if err == nil {
		s.sources[f.Name] = source
		return nil
	}
	where := source
	if !strings.HasSuffix(source, key) {
		where += ": " + key
	}
	if isSecret(f) {
		return fmt.Errorf("%s: %w", where, err)
	}
	return fmt.Errorf("%s: %q: %w", where, strings.Join(values, ","), err)
}

func setFlag(f *pflag.Flag, values []string) error {
	if l, ok := f.Value.(pflag.SliceValue); ok {
		return l.Replace(values)
	}
	return f.Value.Set(values[0])
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
