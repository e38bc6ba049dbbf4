package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// A stream is created by whichever node comes first and looked up by the others. Of one that exists nothing is
// changed but what the options name, and only if it differs; what else has to be as it is made here and is not,
// is a conflict.

const (
	lookPatience    = time.Second     // for a stream to be looked up; without a leader there is no answer
	openPatience    = 5 * time.Second // for it to be made or changed
	openPause       = 250 * time.Millisecond
	replicaPatience = 5 * time.Second // for a third server, before a log with one copy is made
)

// Error codes of JetStream. That of a wrong last sequence is codeWrongLast.
const (
	codeNoPeers      = 10005 // no suitable peers for so many replicas, now
	codeNotAvailable = 10008 // no leader
	codeNotLeader    = 10009
	codeNotEnabled   = 10076
	codeNameInUse    = 10058 // with another configuration: somebody was faster
	codeNotClustered = 10074 // replicas > 1 not supported
	codeOffline      = 10118
	codeOfflineWhy   = 10194
)

// openStream looks a stream up and creates it if it is absent. Where there are other servers it is tried until
// ctx ends: they may have no leader yet, or not be there yet.
func (l *Log) openStream(ctx context.Context, want jetstream.StreamConfig) (info *jetstream.StreamInfo, created bool, err error) {
	began, told := time.Now(), false
	for {
		info, created, err = l.openOnce(ctx, want)
		if l.server != nil && l.server.logger.clash.Load() {
			return nil, false, errSameName
		}
		if l.server != nil && err != nil {
			if ended := l.server.logger.ended(); ended != nil { // such as the port for the other nodes, taken since it was looked at
				return nil, false, ended
			}
		}
		if err == nil {
			return info, created, nil
		}
		code := errorCode(err)
		switch {
		case !l.opts.clustered():
		case l.opts.Replicas == 0 && want.Replicas > 1 && l.opts.mode() == modeExternal &&
			(code == codeNotClustered || (code == codeNoPeers && time.Since(began) > replicaPatience)):
			l.opts.Logger.Warn("the servers cannot keep several copies of the log, so one is kept", slog.Any("error", err))
			want.Replicas = 1
			continue
		case mayPass(err):
			if !told {
				told = true
				l.opts.Logger.Info("waiting for the other nodes, or for their leader", slog.String("stream", want.Name), slog.Any("error", err))
			}
			select {
			case <-time.After(openPause):
				continue
			case <-ctx.Done():
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
		}
		if code == codeNotClustered || code == codeNoPeers {
			err = fmt.Errorf("%w: %d copies are wanted: %w", ErrReplicas, want.Replicas, err)
		}
		return nil, false, fmt.Errorf("jetstream: open stream %q: %w", want.Name, err)
	}
}

// ErrReplicas means that there are not as many servers with JetStream as copies are to be kept.
var ErrReplicas = errors.New("the servers cannot keep so many copies")

// openOnce looks a stream up, and creates or updates it.
func (l *Log) openOnce(ctx context.Context, want jetstream.StreamConfig) (*jetstream.StreamInfo, bool, error) {
	look, cancel := context.WithTimeout(ctx, lookPatience)
	s, err := l.js.Stream(look, want.Name)
	cancel()
	ctx, cancel = context.WithTimeout(ctx, openPatience)
	defer cancel()
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if s, err = l.js.CreateStream(ctx, want); err == nil {
			return s.CachedInfo(), true, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	have := s.CachedInfo().Config
	if _, marked := have.Metadata[metaRestore]; marked {
		return nil, false, transport.ErrRestoring
	}
	if err := conflict(have, want); err != nil {
		return nil, false, err
	}
	had := have
	changed := change(&have, want, l.opts.Replicas > 0)
	if len(changed) == 0 {
		return s.CachedInfo(), false, nil
	}
	if s, err = l.js.UpdateStream(ctx, have); err != nil {
		return nil, false, fmt.Errorf("change %s: %w", strings.Join(changed, ", "), err)
	}
	l.opts.Logger.Info("the configuration of a stream was changed",
		slog.String("stream", want.Name), slog.Any("fields", changed), slog.String("before", limitsOf(had)), slog.String("now", limitsOf(have)))
	return s.CachedInfo(), false, nil
}

// conflict compares what the log depends on and no option names.
func conflict(have, want jetstream.StreamConfig) error {
	for _, f := range []struct {
		name   string
		differ bool
		have   any
	}{
		{"subjects", !slices.Equal(have.Subjects, want.Subjects), have.Subjects},
		{"retention", have.Retention != want.Retention, have.Retention},
		{"discard", have.Discard != want.Discard && want.MaxMsgsPerSubject == 0, have.Discard}, // an index that is full is only that
		{"storage", have.Storage != want.Storage, have.Storage},
		{"allow_direct", have.AllowDirect != want.AllowDirect, have.AllowDirect},
		{"max_msgs_per_subject", max(have.MaxMsgsPerSubject, 0) != want.MaxMsgsPerSubject, have.MaxMsgsPerSubject},
		{"allow_msg_ttl", want.AllowMsgTTL && !have.AllowMsgTTL, have.AllowMsgTTL},
		{"no_ack", have.NoAck, have.NoAck},
		{"sealed", have.Sealed, have.Sealed},
		{"mirror", have.Mirror != nil, "set"},
		{"sources", len(have.Sources) > 0, "set"},
		{"subject_transform", have.SubjectTransform != nil, have.SubjectTransform},
		{"republish", have.RePublish != nil && want.RePublish != nil && *have.RePublish != *want.RePublish, have.RePublish},
	} {
		if f.differ {
			return fmt.Errorf("it exists and is not a hub's, or was changed: %s is %v", f.name, f.have)
		}
	}
	return nil
}

// change puts into have what the options name, and a duplicates window that is long enough for our retries.
// It returns the names of what differed.
func change(have *jetstream.StreamConfig, want jetstream.StreamConfig, replicas bool) (changed []string) {
	note := func(name string, differ bool) bool {
		if differ {
			changed = append(changed, name)
		}
		return differ
	}
	if note("max_msgs", have.MaxMsgs != want.MaxMsgs) {
		have.MaxMsgs = want.MaxMsgs
	}
	if note("max_bytes", have.MaxBytes != want.MaxBytes) {
		have.MaxBytes = want.MaxBytes
	}
	if note("max_age", have.MaxAge != want.MaxAge) {
		have.MaxAge = want.MaxAge
	}
	duplicates := max(have.Duplicates, want.Duplicates)
	if have.MaxAge > 0 {
		duplicates = min(duplicates, have.MaxAge) // the server insists
	}
	if note("duplicate_window", have.Duplicates != duplicates) {
		have.Duplicates = duplicates
	}
	if note("num_replicas", replicas && have.Replicas != want.Replicas) {
		have.Replicas = want.Replicas
	}
	if note("republish", have.RePublish == nil && want.RePublish != nil) {
		have.RePublish = want.RePublish
	}
	return changed
}

// limitsOf words what an operator may have set differently on two nodes. 0 and -1 mean none.
func limitsOf(c jetstream.StreamConfig) string {
	return fmt.Sprintf("max_msgs %d, max_bytes %d, max_age %v, num_replicas %d", c.MaxMsgs, c.MaxBytes, c.MaxAge, c.Replicas)
}

// mayPass reports whether the same request may succeed later, without anybody's doing: answers of servers that
// are starting, electing a leader or lost, and no answer.
func mayPass(err error) bool {
	switch errorCode(err) {
	case codeNoPeers, codeNotAvailable, codeNotLeader, codeNotEnabled, codeNameInUse, codeOffline, codeOfflineWhy:
		return true
	}
	for _, e := range []error{
		transport.ErrRestoring, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
		nats.ErrConnectionReconnecting, jetstream.ErrJetStreamNotEnabled,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// errorCode returns JetStream's code, 0 if err is no answer of it.
func errorCode(err error) int {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return int(e.ErrorCode)
	}
	return 0
}
