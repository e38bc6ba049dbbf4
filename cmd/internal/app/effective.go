package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Check says why a hub with this configuration would not start, as far as that can be known without
// opening anything but the files of keys and certificates.
func Check(cfg Config) error {
	_, err := New(cfg, nil)
	return err
}

// WriteYAML writes the effective configuration in the form of a configuration file, each value with its
// source as a comment. Secrets are redacted unless they are in a file, whose name is no secret; so is what may be
// one in a URL.
func (s *Settings) WriteYAML(w io.Writer) error {
	b := bufio.NewWriter(w)
	group := ""
	var errs []error
	issuers := func() {
		if group == groupGenerations {
			errs = append(errs, writeIssuers(b, s.Config.Issuers, s.sources[keyIssuers]))
		}
	}
	s.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "config" { // says where settings are, and is none itself
			return
		}
		if g := f.Annotations[noteGroup][0]; g != group {
			issuers()
			if group != "" {
				fmt.Fprintln(b)
			}
			group = g
			fmt.Fprintf(b, "# %s\n", group)
		}
		value, err := yamlValue(f)
		errs = append(errs, err)
		fmt.Fprintf(b, "%-40s # %s\n", f.Name+": "+value, s.sources[f.Name])
	})
	errs = append(errs, b.Flush())
	return errors.Join(errs...)
}

// yamlValue writes the value of f on one line.
func yamlValue(f *pflag.Flag) (string, error) {
	if l, ok := f.Value.(pflag.SliceValue); ok {
		n := yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, v := range l.GetSlice() {
			n.Content = append(n.Content, scalar(v))
		}
		return oneLine(&n)
	}
	switch f.Value.Type() {
	case "bool", "number", "size", "duration":
		return f.Value.String(), nil
	}
	return oneLine(scalar(f.Value.String()))
}

func scalar(v string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(v)
	if strings.Contains(v, "\n") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func oneLine(n *yaml.Node) (string, error) {
	b, err := yaml.Marshal(n)
	return strings.TrimSuffix(string(b), "\n"), err
}
