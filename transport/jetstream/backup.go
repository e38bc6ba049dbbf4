package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// streams are the two streams of a prefix, seen from the outside: saved, restored and read as a whole.
type streams struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	prefix   string
	replicas int // of streams that a restore has to make anew where there are none
}

const (
	snapshotSubject = "$JS.API.STREAM.SNAPSHOT."
	snapshotPiece   = 128 << 10
	snapshotWindow  = 4 << 20          // what the server sends without an acknowledgement
	apiPatience     = 10 * time.Second // for an answer of the JetStream API: longer than an election
	apiAttempts     = 3
	silencePatience = 30 * time.Second // for the next piece; the server reads what may be deleted for the most part
)

// meter reports progress a few times a second.
type meter struct {
	report func(transport.Progress)
	now    transport.Progress
	said   time.Time
}

func newMeter(report func(transport.Progress), step string, part transport.Part) *meter {
	m := &meter{report: report, now: transport.Progress{Step: step, Part: part}, said: time.Now()}
	return m
}

func (m *meter) add(n int) {
	m.now.Bytes += int64(n)
	if m.report != nil && time.Since(m.said) >= 200*time.Millisecond {
		m.said = time.Now()
		m.report(m.now)
	}
}

func (m *meter) end() {
	m.now.Done = true
	if m.report != nil {
		m.report(m.now)
	}
}

// backup writes both streams as they are now. Publishers need not wait: what comes meanwhile is not in it.
func (s *streams) backup(ctx context.Context, w io.Writer, progress func(transport.Progress)) (transport.Manifest, error) {
	b, err := newBackupWriter(w, s.prefix)
	if err != nil {
		return transport.Manifest{}, fmt.Errorf("jetstream: backup: %w", err)
	}
	for name, stream := range s.parts() {
		err := s.save(ctx, b, name, stream, progress)
		if name == transport.PartIDs && errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // a hub without an id index
		}
		if err != nil {
			return transport.Manifest{}, fmt.Errorf("jetstream: backup of stream %q: %w", stream, err)
		}
	}
	if err := b.close(); err != nil {
		return transport.Manifest{}, fmt.Errorf("jetstream: backup: %w", err)
	}
	return b.m, nil
}

// parts yields the name of each part and of its stream, in the order of a backup.
func (s *streams) parts() func(yield func(part, stream string) bool) {
	return func(yield func(part, stream string) bool) {
		_ = yield(transport.PartIDs, idsName(s.prefix)) && yield(transport.PartUpdates, s.prefix)
	}
}

// save writes one part.
func (s *streams) save(ctx context.Context, b *backupWriter, name, stream string, progress func(transport.Progress)) error {
	info, err := s.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	if _, marked := info.CachedInfo().Config.Metadata[metaRestore]; marked {
		return transport.ErrRestoring
	}
	d, pieces, err := s.snapshot(ctx, stream)
	if err != nil {
		return err
	}
	defer pieces.stop()
	if err := b.begin(name, d); err != nil {
		return err
	}
	inspect := newInspector()
	defer inspect.stop()
	m := newMeter(progress, "saving", b.part)
	for {
		piece, err := pieces.next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if _, err := b.Write(piece.Data); err != nil {
			return err
		}
		if _, err := inspect.Write(piece.Data); err != nil {
			return fmt.Errorf("the snapshot cannot be read: %w", err)
		}
		if err := piece.Respond(nil); err != nil && piece.Reply != "" { // only now: what is not written is not sent on
			return err
		}
		m.add(len(piece.Data))
	}
	if err := inspect.end(); err != nil {
		return fmt.Errorf("the snapshot cannot be read: %w", err)
	}
	b.end()
	m.end()
	return nil
}

// snapshot asks for the snapshot of a stream. A leader that is just being elected is waited for.
func (s *streams) snapshot(ctx context.Context, stream string) (description, *snapshotPieces, error) {
	var last error
	for range apiAttempts {
		p := &snapshotPieces{reconnects: s.nc.Stats().Reconnects, nc: s.nc}
		inbox := s.nc.NewInbox()
		var err error
		if p.sub, err = s.nc.SubscribeSync(inbox); err != nil {
			return description{}, nil, err
		}
		ask := fmt.Appendf(nil, `{"deliver_subject":%q,"no_consumers":true,"chunk_size":%d,"window_size":%d}`, inbox, snapshotPiece, snapshotWindow)
		var answer struct {
			apiAnswer
			description
		}
		if err = s.ask(ctx, snapshotSubject+stream, ask, &answer); err == nil {
			if err = answer.err(); err == nil {
				return answer.description, p, nil
			}
		}
		p.stop()
		if last = err; ctx.Err() != nil || !errors.Is(err, nats.ErrTimeout) {
			break
		}
	}
	return description{}, nil, last
}

// apiAnswer is what answers of the JetStream API have in common.
type apiAnswer struct {
	Error *refusalError `json:"error"`
}

func (a apiAnswer) err() error {
	switch {
	case a.Error == nil:
		return nil
	case a.Error.Code == int(jetstream.JSErrCodeStreamNotFound):
		return jetstream.ErrStreamNotFound
	default:
		return a.Error
	}
}

// ask sends a request to the JetStream API and reads its answer, which may be an error of its own.
func (s *streams) ask(ctx context.Context, subject string, payload []byte, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, apiPatience, nats.ErrTimeout)
	defer cancel()
	m, err := s.nc.RequestWithContext(ctx, subject, payload)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("no answer on %s: %w", subject, err)
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return fmt.Errorf("answer on %s: %w", subject, err)
	}
	return nil
}

// snapshotPieces are the pieces of a snapshot as the server sends them: numbered, and each to be acknowledged, but
// for the last one, and then a message without data. At most snapshotWindow is under way.
type snapshotPieces struct {
	nc         *nats.Conn
	sub        *nats.Subscription
	reconnects uint64
	count      int
	ending     bool // a piece without a number was the last one
}

// next returns the next piece, io.EOF after the last one.
func (p *snapshotPieces) next(ctx context.Context) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silencePatience, fmt.Errorf("the server has sent nothing for %v", silencePatience))
	defer cancel()
	m, err := p.sub.NextMsgWithContext(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case p.nc.Stats().Reconnects != p.reconnects:
		return nil, errors.New("the connection broke, and pieces of the snapshot may be lost; try again")
	}
	status := m.Header.Get(headerStatus)
	if len(m.Data) == 0 {
		if status != "" && status != statusEnd {
			return nil, fmt.Errorf("the server has given up: %s %s", status, m.Header.Get("Description"))
		}
		return nil, io.EOF
	}
	if p.count++; p.ending || m.Reply != "" && number(m.Reply) != p.count {
		return nil, errors.New("a piece of the snapshot is lost; try again")
	}
	p.ending = m.Reply == ""
	return m, nil
}

func (p *snapshotPieces) stop() { _ = p.sub.Unsubscribe() } // the server stops then, and the connection may be gone

// number is the last token of a piece's reply subject, which ends with its size and its number.
func number(reply string) int {
	n, err := strconv.Atoi(reply[strings.LastIndexByte(reply, '.')+1:])
	if err != nil {
		return -1
	}
	return n
}
