package jetstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Names in the data directory. nats-server puts its store into a directory of its own beside them.
const (
	lockFile = "lock"
	modeFile = "mode" // what kind of hub wrote the store: standalone and clustered stores do not mix
	storeDir = "jetstream"

	identitySuffix = ".identity" // after the prefix: a second copy of what the event ids depend on
)

// ErrLocked means that another process uses the data directory.
var ErrLocked = errors.New("in use by another process")

// claimDir makes dir, checks that it can be written, locks it, and notes or checks the mode.
// Errors name the directory.
func claimDir(dir, mode string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("jetstream: data directory %q cannot be made: %w", dir, err)
	}
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("jetstream: data directory %q is not writable: %w", dir, err)
	}
	if !locked {
		return nil, fmt.Errorf("jetstream: data directory %q is %w", dir, ErrLocked)
	}
	if err := checkMode(dir, mode); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// checkMode writes the mode into a new directory and compares it in an old one.
func checkMode(dir, mode string) error {
	name := filepath.Join(dir, modeFile)
	found, err := os.ReadFile(name) //nolint:gosec // a fixed name in the configured directory
	switch {
	case err == nil && strings.TrimSpace(string(found)) == mode:
		return nil
	case err == nil && len(found) > 0:
		was := strings.TrimSpace(string(found))
		return fmt.Errorf("jetstream: data directory %q was written by a hub in mode %q and cannot be used in mode %q; to take the history along, %s",
			dir, was, mode, wayOut(dir, was))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("jetstream: data directory %q is not readable: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, storeDir)); err == nil {
		return fmt.Errorf("jetstream: data directory %q holds a JetStream store that is not a hub's (there is no file %q)", dir, modeFile)
	}
	if err := writeWhole(name, []byte(mode+"\n")); err != nil {
		return fmt.Errorf("jetstream: data directory %q is not writable: %w", dir, err)
	}
	return nil
}

// wayOut tells how the history of a directory gets to where another mode can use it.
func wayOut(dir, was string) string {
	const admin = "--admin http://127.0.0.1:3001" // the default
	if was == modeStandalone {
		return fmt.Sprintf("run `cinnabar backup --data-dir %s --output hub.tar`, start the new nodes on empty directories, "+
			"and run `cinnabar restore --input hub.tar "+admin+"` beside one of them", dir)
	}
	return "start the cluster once more as it was, run `cinnabar backup " + admin + " --output hub.tar` beside one of its nodes, stop them, " +
		"and run `cinnabar restore --input hub.tar --data-dir DIR` with a new directory"
}

// writeWhole writes a file so that a crash or a power cut leaves the old one or the new one, never a part: it
// is written aside, synced and renamed.
func writeWhole(name string, text []byte) error {
	aside := name + ".new"
	f, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // a fixed name in the configured directory
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(aside, name)
}
