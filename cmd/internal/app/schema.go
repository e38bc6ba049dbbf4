package app

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Annotations that Bind leaves on each flag.
const (
	noteGroup  = "cinnabar_group"
	noteSecret = "cinnabar_secret"
)

// schema adds flags to a set, group by group.
type schema struct {
	fs   *pflag.FlagSet
	name string
}

func (s *schema) group(name string) { s.name = name }

func (s *schema) flag(v pflag.Value, name, usage string) *pflag.Flag {
	f := s.fs.VarPF(v, name, "", usage)
	f.Annotations = map[string][]string{noteGroup: {s.name}}
	return f
}

func add[T any](s *schema, p *T, name, usage, kind string, parse func(string) (T, error), format func(T) string) {
	s.flag(value[T]{p, kind, parse, format}, name, usage)
}

func addList[T any](s *schema, p *[]T, name, usage, kind string, parse func(string) (T, error), format func(T) string) {
	s.flag(&list[T]{p: p, kind: kind, parse: parse, format: format}, name, usage+" (repeatable)")
}

func (s *schema) text(p *string, name, usage string) {
	add(s, p, name, usage, "text", parseText, formatText)
}

func (s *schema) bool(p *bool, name, usage string) {
	s.flag(value[bool]{p, "bool", parseBool, strconv.FormatBool}, name, usage).NoOptDefVal = "true"
}

func (s *schema) duration(p *time.Duration, name, usage string) {
	add(s, p, name, usage, "duration", parseDuration, formatDuration)
}

func (s *schema) count(p *int, least int, name, usage string) {
	add(s, p, name, usage, "number", countFrom(least), strconv.Itoa)
}

func (s *schema) choice(p *string, name, usage string, names ...string) {
	add(s, p, name, usage, strings.Join(names, "|"), oneOf(names...), formatText) // its type is what help calls the value
}

func (s *schema) secret(p *Secret, name, usage string) {
	f := s.flag(value[Secret]{p, "secret", func(raw string) (Secret, error) { return NewSecret(raw), nil }, Secret.String}, name, usage)
	f.Annotations[noteSecret] = []string{"true"}
}

// algorithms are the signature algorithms a token of one role may have.
var algorithms = []string{
	"HS256", "HS384", "HS512", "RS256", "RS384", "RS512",
	"PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
}

func (s *schema) role(role string, key *Secret, alg, jwks *string) {
	s.secret(key, role+"-jwt-key", "`key` of "+role+" tokens: a secret, a PEM public key, or @/path/to/file")
	add(s, alg, role+"-jwt-alg", "`algorithm` of "+role+" tokens", "algorithm", oneOf(algorithms...), formatText)
	add(s, jwks, role+"-jwks-url", "`URL` of a JWK Set with the keys of "+role+" tokens, https:// or file://", "URL", parseText, redactURL)
}

func isSecret(f *pflag.Flag) bool { return f.Annotations[noteSecret] != nil }

func parseCount64(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("must be a whole number, at least 0")
	}
	return n, nil
}

func formatCount64(n int64) string { return strconv.FormatInt(n, 10) }
