package app

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// keyIssuers is the one setting that is nested, and therefore in the file alone. groupGenerations is where it is shown.
const (
	keyIssuers       = "issuers"
	groupGenerations = "Generations"
)

// readIssuers reads the list of issuers of the file at path. The error names every entry's unknown and malformed keys
// with their lines, and shows no value that may be a secret.
func readIssuers(path string, n *yaml.Node) ([]Issuer, error) {
	n = resolved(n)
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s:%d: %s: must be a list, each entry with the key issuer", path, n.Line, keyIssuers)
	}
	var issuers []Issuer
	var errs []error
	for _, e := range n.Content {
		i, err := readIssuer(path, resolved(e))
		issuers, errs = append(issuers, i), append(errs, err)
	}
	return issuers, errors.Join(errs...)
}

func readIssuer(path string, n *yaml.Node) (Issuer, error) {
	var i Issuer
	var short IssuerKey
	err := readMapping(path, keyIssuers, n, map[string]reader{
		"issuer":     into(&i.URL, parseIssuer),
		"jwt-key":    secretInto(&short.Key),
		"jwt-alg":    into(&short.Alg, oneOf(algorithms...)),
		"jwks-url":   into(&i.JWKS, parseText),
		"algorithms": listInto(&i.Algorithms, oneOf(algorithms...)),
		"roles":      listInto(&i.Roles, oneOf(issuerRoles...)),
		"keys": func(at string, v *yaml.Node) (err error) {
			i.Keys, err = readIssuerKeys(path, at, v)
			return err
		},
	})
	at := fmt.Sprintf("%s:%d: %s", path, n.Line, keyIssuers)
	switch {
	case err != nil:
		return i, err
	case i.URL == "":
		return i, fmt.Errorf("%s: an entry without the key issuer", at)
	case len(i.Keys) > 0 && short != IssuerKey{}:
		return i, fmt.Errorf("%s: %s: jwt-key is one key and keys are several: choose one", at, i.URL)
	case short.Alg != "" && short.Key.IsZero():
		return i, fmt.Errorf("%s: %s: jwt-alg is of no use without jwt-key; a JWK Set has algorithms", at, i.URL)
	case !short.Key.IsZero():
		i.Keys = []IssuerKey{short}
	}
	return i, nil
}

func readIssuerKeys(path, at string, n *yaml.Node) ([]IssuerKey, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, fmt.Errorf("%s: must be a list of keys, each with key, and alg and kid where it has them", at)
	}
	keys := make([]IssuerKey, 0, len(n.Content))
	var errs []error
	for _, e := range n.Content {
		var k IssuerKey
		e = resolved(e)
		err := readMapping(path, keyIssuers+": keys", e, map[string]reader{
			"key": secretInto(&k.Key), "alg": into(&k.Alg, oneOf(algorithms...)), "kid": into(&k.ID, parseText),
		})
		if err == nil && k.Key.IsZero() {
			err = fmt.Errorf("%s:%d: %s: keys: an entry without the key key", path, e.Line, keyIssuers)
		}
		keys, errs = append(keys, k), append(errs, err)
	}
	return keys, errors.Join(errs...)
}

// reader takes the value of one key of a mapping; what it says is wrong begins with at.
type reader func(at string, v *yaml.Node) error

// readMapping gives each key of n to its reader.
func readMapping(path, what string, n *yaml.Node, readers map[string]reader) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: %s: an entry must be a mapping", path, n.Line, what)
	}
	known, seen := make(map[string]bool, len(readers)), make(map[string]bool)
	for name := range readers {
		known[name] = true
	}
	var errs []error
	for k := 0; k+1 < len(n.Content); k += 2 {
		name, value := n.Content[k].Value, resolved(n.Content[k+1])
		at := fmt.Sprintf("%s:%d: %s", path, n.Content[k].Line, what)
		switch {
		case !known[name]:
			errs = append(errs, fmt.Errorf("%s: unknown key %s%s", at, name, DidYouMean(name, known)))
		case seen[name]:
			errs = append(errs, fmt.Errorf("%s: %s is given twice", at, name))
		default:
			errs = append(errs, readers[name](at+": "+name, value))
		}
		seen[name] = true
	}
	return errors.Join(errs...)
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func scalarValue(v *yaml.Node) (string, error) {
	if v.Kind != yaml.ScalarNode {
		return "", errors.New("must be a single value")
	}
	if v.Tag == "!!null" || v.Value == "" {
		return "", errors.New("has no value")
	}
	return v.Value, nil
}

// into reads a value that may be shown.
func into(p *string, parse func(string) (string, error)) reader {
	return func(at string, v *yaml.Node) error {
		s, err := scalarValue(v)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if *p, err = parse(s); err != nil {
			return fmt.Errorf("%s: %q: %w", at, s, err)
		}
		return nil
	}
}

func secretInto(p *Secret) reader {
	return func(at string, v *yaml.Node) error {
		s, err := scalarValue(v)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		*p = NewSecret(s)
		return nil
	}
}

// listInto reads a list, or a single value as a list of one.
func listInto(p *[]string, parse func(string) (string, error)) reader {
	return func(at string, v *yaml.Node) error {
		entries := []*yaml.Node{v}
		if v.Kind == yaml.SequenceNode {
			entries = v.Content
		}
		if len(entries) == 0 {
			return fmt.Errorf("%s: is an empty list; leave it out", at)
		}
		for _, e := range entries {
			var s string
			if err := into(&s, parse)(at, resolved(e)); err != nil {
				return err
			}
			*p = append(*p, s)
		}
		return nil
	}
}

// The forms in which issuers are written, which are those that are read.
type (
	writtenIssuer struct {
		Issuer     string       `yaml:"issuer"`
		Keys       []writtenKey `yaml:"keys,omitempty"`
		JWKS       string       `yaml:"jwks-url,omitempty"`
		Algorithms []string     `yaml:"algorithms,omitempty,flow"`
		Roles      []string     `yaml:"roles,omitempty,flow"`
	}
	writtenKey struct {
		Key string `yaml:"key"`
		Alg string `yaml:"alg,omitempty"`
		ID  string `yaml:"kid,omitempty"`
	}
)

// writeIssuers writes the issuers of the file as they are written there, secrets redacted.
func writeIssuers(w io.Writer, issuers []Issuer, source string) error {
	if len(issuers) == 0 {
		_, err := fmt.Fprintf(w, "%-40s # %s\n", keyIssuers+": []", source)
		return err
	}
	written := make([]writtenIssuer, len(issuers))
	for n, i := range issuers {
		written[n] = writtenIssuer{Issuer: i.URL, Algorithms: i.Algorithms, Roles: i.Roles}
		if i.JWKS != "" {
			written[n].JWKS = redactURL(i.JWKS)
		}
		for _, k := range i.Keys {
			written[n].Keys = append(written[n].Keys, writtenKey{Key: k.Key.String(), Alg: k.Alg, ID: k.ID})
		}
	}
	b, err := yaml.Marshal(written)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%-40s # %s\n  %s\n", keyIssuers+":", source, strings.ReplaceAll(strings.TrimSuffix(string(b), "\n"), "\n", "\n  "))
	return err
}
