package main

import (
	"errors"
	"fmt"
	neturl "net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// secretFlag is a flag whose value may also be @/path/to/file or come from the environment.
type secretFlag struct {
	raw  string
	flag *pflag.Flag
	env  string
}

func (f *secretFlag) bind(cmd *cobra.Command, name, env, usage string) {
	cmd.Flags().StringVar(&f.raw, name, "", usage+"; @/path/to/file reads it from there ["+env+"]")
	f.flag, f.env = cmd.Flags().Lookup(name), env
}

// read returns the value; empty if there is none. A flag that was given empty hides the environment.
func (f *secretFlag) read() (string, error) {
	raw := f.raw
	if !f.flag.Changed {
		raw = os.Getenv(f.env)
	}
	value, err := app.NewSecret(raw).Read()
	if err != nil {
		return "", &usageError{err}
	}
	return value, nil
}

// hubFlags are what the commands that talk to a hub have in common.
type hubFlags struct {
	url   string
	token secretFlag
}

func (f *hubFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "hub", "", "`URL` of the hub, such as http://127.0.0.1:3000/.well-known/mercure [CINNABAR_HUB]")
	f.token.bind(cmd, "token", "CINNABAR_TOKEN", "JSON Web `Token` to send")
}

func (f *hubFlags) read() (url, token string, err error) {
	url = f.url
	if url == "" {
		url = os.Getenv("CINNABAR_HUB")
	}
	if url == "" {
		return "", "", &usageError{errors.New("which hub? give --hub or set CINNABAR_HUB")}
	}
	if err := checkURL(url); err != nil {
		return "", "", err
	}
	token, err = f.token.read()
	return url, token, err
}

// checkURL tells a slip of the pen from a hub that cannot be reached.
func checkURL(hub string) error {
	return checkAddress("the hub's URL", hub, "http://127.0.0.1:3000/.well-known/mercure")
}

// checkAddress is checkURL for any URL, with what it is and how it looks.
func checkAddress(what, given, example string) error {
	u, err := neturl.Parse(given)
	if e, ok := errors.AsType[*neturl.Error](err); ok {
		err = e.Err // without the URL, which may hold a password
	}
	switch {
	case err != nil:
		return &usageError{fmt.Errorf("%s cannot be read: %w", what, err)}
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return &usageError{fmt.Errorf("%s is %q: it must be like %s", what, u.Redacted(), example)}
	}
	return nil
}

// choiceFlag is a flag with few values; help and completion name them by its type.
type choiceFlag struct {
	p     *string
	names []string
}

// bindChoice gives cmd a flag that is one of names, at first whatever is at p.
func bindChoice(cmd *cobra.Command, p *string, name, usage string, names ...string) {
	cmd.Flags().Var(choiceFlag{p, names}, name, usage)
}

func (f choiceFlag) Set(s string) error {
	if !slices.Contains(f.names, s) {
		return fmt.Errorf("must be one of %s", strings.Join(f.names, ", "))
	}
	*f.p = s
	return nil
}

func (f choiceFlag) String() string {
	if f.p == nil { // a zero value, which pflag asks
		return ""
	}
	return *f.p
}

func (f choiceFlag) Type() string { return strings.Join(f.names, "|") }

// completeChoices has a shell propose the values of flags that have few, on cmd and all below it, rather than files.
func completeChoices(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if names := strings.Split(f.Value.Type(), "|"); len(names) > 1 {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // it exists, and has none yet
		}
	})
	for _, c := range cmd.Commands() {
		completeChoices(c)
	}
}
