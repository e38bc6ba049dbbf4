package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"
)

// A server that finds a stream without its description, as a power cut may leave it, lets us make a stream of
// that name, and the new one takes over the messages: the whole history would be there with ids that nobody
// knows. So the identity is kept beside the store, too, and given back to a stream that has a history.

// settleIdentity returns the identity of the log that info tells of, and whether it had to be restored.
func (l *Log) settleIdentity(ctx context.Context, info *jetstream.StreamInfo, created bool) (identity, error) {
	if l.opts.clustered() { // the others have it
		return readIdentity(l.opts.Prefix, info.Config.Metadata)
	}
	name := filepath.Join(l.opts.Dir, l.opts.Prefix+identitySuffix)
	meta := info.Config.Metadata
	kept, err := readKept(name)
	if err != nil {
		l.opts.Logger.Warn("the kept identity of the log cannot be read", slog.Any("error", err))
	}
	if created && info.State.LastSeq > 0 {
		if meta, err = l.restoreIdentity(ctx, info, kept); err != nil {
			return identity{}, err
		}
	}
	id, err := readIdentity(l.opts.Prefix, meta)
	if err != nil {
		return identity{}, err
	}
	if ours := map[string]string{metaEpoch: meta[metaEpoch], metaKey: meta[metaKey]}; !maps.Equal(ours, kept) {
		if err := keep(name, ours); err != nil { // it is the second copy: a full disk is no reason not to start
			l.opts.Logger.Warn("the identity of the log cannot be kept a second time", slog.Any("error", err))
		}
	}
	return id, nil
}

// restoreIdentity gives a stream that came back without a description the identity it had.
func (l *Log) restoreIdentity(ctx context.Context, info *jetstream.StreamInfo, kept map[string]string) (map[string]string, error) {
	if len(kept) == 0 { // nothing is kept, or it cannot be read
		l.opts.Logger.Error("the log has lost its identity: clients that resume will be told that their events are unknown",
			slog.Uint64("position", info.State.LastSeq))
		return info.Config.Metadata, nil
	}
	config := info.Config
	config.Metadata = maps.Clone(config.Metadata)
	maps.Copy(config.Metadata, kept)
	s, err := l.js.UpdateStream(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("jetstream: restore the identity of stream %q: %w", l.opts.Prefix, err)
	}
	l.opts.Logger.Warn("the log had lost its identity, which is restored", slog.Uint64("position", info.State.LastSeq))
	return s.CachedInfo().Config.Metadata, nil
}

// readKept returns nothing when nothing is kept.
func readKept(name string) (map[string]string, error) {
	text, err := os.ReadFile(name) //nolint:gosec // in the configured directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a nil map is an empty one
	}
	if err != nil {
		return nil, err
	}
	var kept map[string]string
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	if _, err := readIdentity(name, kept); err != nil {
		return nil, err
	}
	return kept, nil
}

func keep(name string, meta map[string]string) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	return writeWhole(name, append(text, '\n'))
}
