package app

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

// devKeysFile lies in the data directory, so that what --dev printed stays valid after a restart.
const devKeysFile = "dev-keys.json"

// devIssuer is who signs the draft-08 tokens of --dev: the hub itself, by a name that stays the same wherever it listens
// (D08-20). devTokenAge is how long they are good, as each must have an end.
const (
	devIssuer   = "http://localhost/cinnabar-dev"
	devTokenAge = 30 * 24 * time.Hour
)

type devKeys struct {
	Key     string `json:"jwt_key"`                  // one secret for both roles, so that one token can have both
	Issuer  string `json:"issuer_key,omitempty"`     // of draft-08 tokens; as the next, empty in files from before there were any
	Cluster string `json:"cluster_secret,omitempty"` // of the nodes of one process
}

func (k *devKeys) file() []byte {
	b, err := json.MarshalIndent(k, "", "  ") //nolint:gosec // for a file that only the owner can read
	if err != nil {
		panic(err) // three texts
	}
	return append(b, '\n')
}

func randomSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// complete makes what is missing and reports whether anything was.
func (k *devKeys) complete() bool {
	made := false
	for _, secret := range []*string{&k.Key, &k.Issuer, &k.Cluster} {
		if *secret == "" {
			*secret, made = randomSecret(), true
		}
	}
	return made
}

// loadDevKeys reads the keys of --dev in dir, making them the first time.
func loadDevKeys(dir string) (devKeys, error) {
	var k devKeys
	path := filepath.Join(dir, devKeysFile)
	b, err := readPrivate(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(dir, 0o700)
	case err != nil:
		return k, fmt.Errorf("keys of --dev: %s: %w", path, err)
	default:
		if err = json.Unmarshal(b, &k); err == nil && k.Key == "" {
			err = errors.New("holds no key; remove it and start again")
		}
		if err != nil {
			return devKeys{}, fmt.Errorf("keys of --dev: %s: %w", path, err)
		}
	}
	if err == nil && k.complete() {
		err = writePrivate(path, k.file())
	}
	if err != nil {
		return devKeys{}, fmt.Errorf("keys of --dev: %w", err)
	}
	return k, nil
}

// readPrivate reads a file unless other users can read or change it: a key that they know is none.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // in the directory the operator chose
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o066 != 0 {
		return nil, fmt.Errorf("other users can read or change it (mode %04o): remove it and start again for a new key, or chmod 600 it if nobody has", mode)
	}
	return io.ReadAll(f)
}

// writePrivate puts b at path, for the owner alone, whole or not at all: it writes beside it, under a name that nobody
// can have prepared, and renames.
func writePrivate(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600, following no link
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// WriteBanner writes what a newcomer needs to try the hub that --dev started: its URL, a token, and
// lines to paste into two terminals. It writes nothing without --dev.
func (a *App) WriteBanner(w io.Writer, version string) error {
	return writeBanner(w, version, []*App{a})
}

// writeBanner is WriteBanner for the nodes of one process: one subscribes at the first, and publishes at the last.
func writeBanner(w io.Writer, version string, nodes []*App) error {
	first, last := nodes[0], nodes[len(nodes)-1]
	if !first.cfg.Dev {
		return nil
	}
	publish, all := "-H 'Authorization: Bearer '\"$TOKEN\" ", "  Token   made with the keys you gave: set TOKEN to one that may publish\n"
	selector, end, beside := spec.FieldTopic, "never expires", ""
	t := first.devToken
	switch t08 := first.devToken08; {
	case !first.cfg.Classic:
		t, selector, end = t08, spec.ParamMatch, "for 30 days"
	case t08 != "":
		beside = "\nClients of draft-08 say match=hello instead of topic=hello, and use this token, good for 30 days:\n\n  " + t08 + "\n"
	}
	if t != "" {
		publish = "-H 'Authorization: Bearer " + t + "' "
		all = "  Token   " + t + "\n          publish and subscribe, every topic (*), " + end + "; for this machine only\n"
	}
	curl := "curl "
	if path, ok := strings.CutPrefix(first.Addr(), "unix:"); ok { // of one node alone
		curl = "curl --unix-socket '" + path + "' "
	}
	hubs, here, there := "  Hub     "+first.URL()+"\n", "", ""
	if len(nodes) > 1 {
		hubs, here, there = "", ", at node 1", fmt.Sprintf(", at node %d", len(nodes))
		for i, n := range nodes {
			hubs += fmt.Sprintf("  Node %d  %s\n", i+1, n.URL())
		}
	}
	_, err := fmt.Fprintf(w, `
Cinnabar %s, development mode: only this machine can connect, anybody on it can read along.

%s%s
Subscribe in one terminal%s:

  %s-N '%s?%s=hello'

Publish from another%s:

  %s%s-d topic=hello -d 'data=Hello, world' '%s'
%s
`, version, hubs, all, here, curl, first.URL(), selector, there, curl, publish, last.URL(), beside)
	return err
}

// mintDevToken makes the token of the banner with the generated key.
func mintDevToken(key string) (string, error) {
	token, err := auth.Mint(auth.MintOptions{
		Key: key, Algorithm: auth.DefaultAlgorithm, Publish: []string{"*"}, Subscribe: []string{"*"},
	})
	if err != nil {
		return "", fmt.Errorf("token of --dev: %w", err)
	}
	return token, nil
}

// mintDevToken08 is mintDevToken for draft-08: a token of the issuer of --dev for the hub that goes by audience.
func mintDevToken08(key, audience string) (string, error) {
	token, err := auth.Mint(auth.MintOptions{
		Generation: spec.Draft08.Name, Key: key, Issuer: devIssuer, Audience: []string{audience}, TTL: devTokenAge,
		Details: []auth.MintDetail{{
			Actions: []spec.Action{spec.ActionPublish, spec.ActionSubscribe},
			Topics:  []topic.Selector{{Kind: topic.Exact, Pattern: spec.Wildcard}},
		}},
	})
	if err != nil {
		return "", fmt.Errorf("token of --dev: %w", err)
	}
	return token, nil
}
