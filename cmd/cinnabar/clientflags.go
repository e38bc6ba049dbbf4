package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

// secretFlag is a flag whose value may also be @/path/to/file or come from the environment.
type secretFlag struct{ raw string }

func (f *secretFlag) bind(cmd *cobra.Command, name, env, usage string) {
	cmd.Flags().StringVar(&f.raw, name, "", usage+"; @/path/to/file reads it from there ["+env+"]")
}

// read returns the value; empty if there is none.
func (f *secretFlag) read(env string) (string, error) {
	raw := f.raw
	if raw == "" {
		raw = os.Getenv(env)
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
	token, err = f.token.read("CINNABAR_TOKEN")
	return url, token, err
}
