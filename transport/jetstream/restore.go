package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// How a backup is restored, so that whatever happens on the way nobody takes a part for the whole:
//
//  1. The target must hold no updates. Its stream is closed to publishers (they get no answer and try again), looked
//     at once more, and deleted.
//  2. The server makes both streams anew from the backup, with all positions, and with the identity of the log in
//     the metadata. They are marked there as incomplete, and closed: no hub starts on them.
//  3. When all is there, and the backup has turned out to be what its manifest says, hubs that are running see the
//     new identity; then the stream is opened, and the mark removed.
//
// A restore that fails deletes what it has made, and makes the target empty again. One that was killed leaves the
// mark; restoring again begins anew.

// metaRestore is the mark of a stream that is not whole: the restore's name and how far it is.
const metaRestore = "cinnabar.restore"

// metaRestored is the last position that came from a backup: hubs that are running do not take it for new.
const metaRestored = "cinnabar.restored"

const (
	restoreClosing = " closing" // it is empty, and about to be deleted
	restoreLoading = " loading" // updates are missing
	restoreOpening = " opening" // none are, but publishers are still kept out
)

const (
	restoreSubject = "$JS.API.STREAM.RESTORE."
	restorePiece   = 256 << 10
	undoPatience   = time.Minute
	settleFor      = 3 * time.Second  // a hub that is running looks at the identity every second
	finishPatience = 10 * time.Minute // the server has most of it stored when the last piece has arrived
	retryUndo      = 200 * time.Millisecond
)

// restored says whether a stream is whole, by its metadata: nil when a hub may use it, though not always publish yet.
func restored(meta map[string]string) error {
	if strings.HasSuffix(meta[metaRestore], restoreLoading) {
		return transport.ErrRestoring
	}
	return nil
}

// interrupted reports whether what a stream holds is but a part of a backup.
func interrupted(meta map[string]string) bool {
	mark := meta[metaRestore]
	return strings.HasSuffix(mark, restoreLoading) || strings.HasSuffix(mark, restoreOpening)
}

// restoredUpTo returns the last position that came from a backup, 0 for none.
func restoredUpTo(meta map[string]string) transport.Position {
	n, err := strconv.ParseUint(meta[metaRestored], 10, 64)
	if err != nil {
		return 0
	}
	return transport.Position(n)
}

// restoring is a restore under way.
type restoring struct {
	*streams
	name   string
	was    *jetstream.StreamConfig // of the target's log before it was closed
	log    *jetstream.StreamConfig // of one that takes its place, or has to be made again, empty; nil = there was none
	ids    *jetstream.StreamConfig
	closed bool                     // the target's stream was closed
	began  bool                     // and streams were deleted or made
	made   []jetstream.StreamConfig // as they will be in the end
}

// restore reads a backup into the streams, which must hold no updates. settle is how long hubs that are running get
// to notice the new identity before publishers are let in.
func (s *streams) restore(ctx context.Context, r io.Reader, settle time.Duration, progress func(transport.Progress)) (transport.Manifest, error) {
	t := &restoring{streams: s, name: newNonce()}
	if err := t.occupied(ctx); err != nil { // before anything is read: it may come from afar
		return transport.Manifest{}, fmt.Errorf("jetstream: restore: %w; nothing has been changed", err)
	}
	b, err := openBackup(r)
	if err != nil {
		return transport.Manifest{}, fmt.Errorf("jetstream: restore: %w", err)
	}
	if b.seen.Prefix != s.prefix {
		return transport.Manifest{}, fmt.Errorf("jetstream: restore: %w: it is of the prefix %q, and this is %q", transport.ErrBackup, b.seen.Prefix, s.prefix)
	}
	if err := t.run(ctx, b, settle, progress); err != nil {
		return transport.Manifest{}, fmt.Errorf("jetstream: restore: %w", t.undo(ctx, err))
	}
	return b.seen, nil
}

func (t *restoring) run(ctx context.Context, b *backupReader, settle time.Duration, progress func(transport.Progress)) error {
	if err := t.close(ctx); err != nil {
		return err
	}
	for {
		part, d, err := b.nextPart()
		if errors.Is(err, io.EOF) {
			return t.open(ctx, settle)
		}
		if err != nil {
			return err
		}
		m := newMeter(progress, "restoring", part)
		if err := t.load(ctx, part, d, b, m); err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
		m.end()
	}
}

// occupied is ErrNotEmpty when the target holds updates.
func (t *restoring) occupied(ctx context.Context) error {
	config, state, err := t.look(ctx, t.prefix)
	if err != nil || config == nil || state.Msgs == 0 {
		return err
	}
	if interrupted(config.Metadata) {
		return nil
	}
	return fmt.Errorf("%w: %d of them, from position %d to %d", transport.ErrNotEmpty, state.Msgs, state.FirstSeq, state.LastSeq)
}

// close makes sure that the target is empty, and stays so.
func (t *restoring) close(ctx context.Context) error {
	ids, _, err := t.look(ctx, idsName(t.prefix))
	if err != nil {
		return err
	}
	if t.ids = ids; ids != nil {
		delete(ids.Metadata, metaRestore)
	}
	config, state, err := t.look(ctx, t.prefix)
	if err != nil || config == nil {
		return err
	}
	again := interrupted(config.Metadata)
	delete(config.Metadata, metaRestore)
	config.Subjects = []string{t.prefix + ".u.>"}
	was := *config
	was.Metadata = maps.Clone(config.Metadata)
	t.was, t.log = &was, config
	if again || state.LastSeq > 0 { // positions that were given once must not be given again under the same identity
		maps.Copy(config.Metadata, newMetadata())
	}
	if again {
		return nil
	}
	t.closed = true
	if _, err := t.js.UpdateStream(ctx, t.marked(was, restoreClosing)); err != nil {
		return fmt.Errorf("close stream %q: %w", t.prefix, err)
	}
	if _, state, err = t.look(ctx, t.prefix); err != nil {
		return err
	}
	if state.Msgs > 0 {
		return fmt.Errorf("%w: somebody publishes", transport.ErrNotEmpty)
	}
	return nil
}

// look returns the configuration of a stream, nil if there is no such stream.
func (t *restoring) look(ctx context.Context, stream string) (*jetstream.StreamConfig, jetstream.StreamState, error) {
	s, err := t.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, jetstream.StreamState{}, nil
	}
	if err != nil {
		return nil, jetstream.StreamState{}, fmt.Errorf("look at stream %q: %w", stream, err)
	}
	config := s.CachedInfo().Config
	config.Metadata = maps.Clone(config.Metadata)
	if config.Metadata == nil {
		config.Metadata = map[string]string{}
	}
	return &config, s.CachedInfo().State, nil
}

// load makes one stream anew.
func (t *restoring) load(ctx context.Context, part transport.Part, d description, r io.Reader, m *meter) error {
	config, _, err := d.read()
	if err != nil {
		return fmt.Errorf("%w: %w", transport.ErrBackup, err)
	}
	had, stream := t.ids, idsName(t.prefix)
	if part.Name == transport.PartUpdates {
		had, stream = t.log, t.prefix
		if _, err := readIdentity(stream, config.Metadata); err != nil {
			return fmt.Errorf("%w: %w", transport.ErrBackup, err)
		}
	}
	if config.Name != stream {
		return fmt.Errorf("%w: it holds a stream %q", transport.ErrBackup, config.Name)
	}
	want := adapt(config, had, t.replicas)
	if part.Name == transport.PartUpdates {
		want.Metadata[metaRestored] = strconv.FormatUint(part.Last, 10)
	}
	t.began = true
	if err := t.js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete the empty stream %q: %w", stream, err)
	}
	marked := t.marked(want, restoreLoading)
	if err := t.send(ctx, marked, d.State, r, m); err != nil {
		return err
	}
	_, state, err := t.look(ctx, stream)
	if err != nil {
		return err
	}
	if state.LastSeq != part.Last || state.Msgs > part.Messages { // the place's limits may leave fewer
		return fmt.Errorf("the restored stream holds %d messages up to %d, not %d up to %d", state.Msgs, state.LastSeq, part.Messages, part.Last)
	}
	t.made = append(t.made, want)
	return nil
}

// adapt makes the configuration of a restored stream: all is as it is where the backup is restored, but what belongs to
// the history, its identity. In a place without the stream it is as in the backup, for one server or for several.
func adapt(saved jetstream.StreamConfig, had *jetstream.StreamConfig, replicas int) jetstream.StreamConfig {
	want := saved
	if had != nil {
		want = *had
	} else {
		want.Replicas = max(replicas, 1)
		want.Placement, want.RePublish = nil, nil // of the other servers; a hub that needs it adds it when it starts
	}
	want.Metadata = maps.Clone(want.Metadata)
	if want.Metadata == nil {
		want.Metadata = map[string]string{}
	}
	for _, key := range []string{metaEpoch, metaKey} {
		if v, ok := saved.Metadata[key]; ok {
			want.Metadata[key] = v
		}
	}
	delete(want.Metadata, metaRestore)
	return want
}

// marked returns config with the mark of this restore, and closed.
func (t *restoring) marked(config jetstream.StreamConfig, state string) jetstream.StreamConfig {
	config.Metadata = maps.Clone(config.Metadata)
	config.Metadata[metaRestore] = t.name + state
	if config.Name == t.prefix {
		config.Subjects = []string{t.prefix + ".closed"}
	}
	return config
}

// send hands the server the snapshot of a stream.
func (t *restoring) send(ctx context.Context, config jetstream.StreamConfig, state json.RawMessage, r io.Reader, m *meter) error {
	ask, err := json.Marshal(struct {
		Config jetstream.StreamConfig `json:"config"`
		State  json.RawMessage        `json:"state"`
	}{config, state})
	if err != nil {
		return err
	}
	var answer struct {
		apiAnswer
		Deliver string `json:"deliver_subject"`
	}
	if err := t.ask(ctx, restoreSubject+config.Name, ask, &answer); err != nil {
		return err
	}
	if err := answer.err(); err != nil {
		return err
	}
	buf := make([]byte, min(restorePiece, t.nc.MaxPayload()))
	for {
		n, err := io.ReadFull(r, buf)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			_ = t.nc.Publish(answer.Deliver, []byte{0}) // a piece that cannot be answered ends the restore, else it would stall for a while
			return err
		}
		if n > 0 {
			if err := t.piece(ctx, answer.Deliver, buf[:n], silencePatience); err != nil {
				_ = t.nc.Publish(answer.Deliver, []byte{0})
				return err
			}
			m.add(n)
		}
		if end {
			return t.piece(ctx, answer.Deliver, nil, finishPatience)
		}
	}
}

// piece sends the next piece and waits until it is taken; without data it is the end, and the wait that for the whole.
// The interest in the subject may take a moment to become known in a cluster.
func (t *restoring) piece(ctx context.Context, subject string, data []byte, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the server takes no more of it"))
	defer cancel()
	for began := time.Now(); ; {
		m, err := t.nc.RequestWithContext(ctx, subject, data)
		switch {
		case errors.Is(err, nats.ErrNoResponders) && time.Since(began) < apiPatience:
			select {
			case <-time.After(retryPause):
				continue
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case len(m.Data) == 0:
			return nil
		}
		var answer apiAnswer
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return fmt.Errorf("answer to a piece: %w", err)
		}
		return answer.err()
	}
}

// open lets first the hubs and then publishers in.
func (t *restoring) open(ctx context.Context, settle time.Duration) error {
	if settle > 0 {
		if _, err := t.js.UpdateStream(ctx, t.marked(t.made[len(t.made)-1], restoreOpening)); err != nil {
			return fmt.Errorf("unmark stream %q: %w", t.prefix, err)
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, config := range t.made {
		if _, err := t.js.UpdateStream(ctx, config); err != nil {
			return fmt.Errorf("open stream %q: %w", config.Name, err)
		}
	}
	return nil
}

// undo makes the target as it was, or at least empty, and returns the error that says so.
func (t *restoring) undo(ctx context.Context, cause error) error {
	if !t.closed && !t.began {
		return fmt.Errorf("%w; nothing has been changed", cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, openPatience) // a stream without a leader gives no answer
		err := t.undoOnce(once)
		cancel()
		if err == nil && t.began {
			return fmt.Errorf("%w; the target is empty", cause)
		}
		if err == nil {
			return fmt.Errorf("%w; nothing has been changed", cause)
		}
		select {
		case <-time.After(retryUndo): // the server may still be giving up
		case <-ctx.Done():
			return fmt.Errorf("%w; what was restored so far could not be deleted and is marked as incomplete, restore again: %w", cause, err)
		}
	}
}

func (t *restoring) undoOnce(ctx context.Context) error {
	if !t.began {
		_, err := t.js.UpdateStream(ctx, *t.was)
		return err
	}
	for stream, had := range map[string]*jetstream.StreamConfig{t.prefix: t.log, idsName(t.prefix): t.ids} {
		now, _, err := t.look(ctx, stream)
		if err != nil {
			return err
		}
		if now != nil && strings.HasPrefix(now.Metadata[metaRestore], t.name) {
			if err := t.js.DeleteStream(ctx, stream); err != nil {
				return err
			}
			now = nil
		}
		if had != nil && now == nil {
			if err := t.makeEmpty(ctx, *had); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeEmpty makes a stream anew. A server that is still removing the one before may let the new one take over what
// is left of it.
func (t *restoring) makeEmpty(ctx context.Context, config jetstream.StreamConfig) error {
	s, err := t.js.CreateStream(ctx, config)
	if err != nil {
		return err
	}
	if state := s.CachedInfo().State; state.LastSeq > 0 {
		return errors.Join(fmt.Errorf("stream %q, made anew, already ends at %d", config.Name, state.LastSeq), t.js.DeleteStream(ctx, config.Name))
	}
	return nil
}
