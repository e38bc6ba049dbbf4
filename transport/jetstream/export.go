package jetstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// exported is a line of an export.
type exported struct {
	Position uint64   `json:"position"`
	ID       string   `json:"id"`
	Time     string   `json:"time"` // RFC 3339, when it was stored
	Topics   []string `json:"topics"`
	Type     string   `json:"type,omitempty"`
	Retry    uint64   `json:"retry,omitempty"` // milliseconds
	Private  bool     `json:"private"`
	Data     string   `json:"data"`
	Base64   []byte   `json:"data_base64,omitempty"` // in place of data that is not UTF-8
}

// exporter writes lines.
type exporter struct {
	transport.ExportOptions
	id       identity
	matchers []topic.Matcher
	out      *json.Encoder
	waiting  bool   // until the update whose id is After has come by
	written  uint64 // lines
}

// export writes the updates up to the one that is the newest now, in order, one JSON object a line.
func (s *streams) export(ctx context.Context, b *inbox, w io.Writer, o transport.ExportOptions) (n uint64, err error) {
	info, err := s.js.Stream(ctx, s.prefix)
	if err != nil {
		return 0, fmt.Errorf("jetstream: export of stream %q: %w", s.prefix, err)
	}
	id, err := readIdentity(s.prefix, info.CachedInfo().Config.Metadata)
	if err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	x := &exporter{ExportOptions: o, id: id, out: json.NewEncoder(buffered)}
	x.out.SetEscapeHTML(false)
	for _, sel := range o.Topics {
		m, err := topic.Compile(sel, nil, topic.Limits{})
		if err != nil {
			return 0, fmt.Errorf("jetstream: export: %w", err)
		}
		x.matchers = append(x.matchers, m)
	}
	state := info.CachedInfo().State
	after, err := x.begin(state)
	if err == nil {
		err = s.walk(ctx, b, after, transport.Position(state.LastSeq), x.take)
	}
	if err == nil && x.waiting {
		err = transport.ErrUnknown
	}
	if err := errors.Join(err, buffered.Flush()); err != nil {
		return x.written, fmt.Errorf("jetstream: export: %w", err)
	}
	return x.written, nil
}

// begin returns the position after which reading begins. A hub's own id tells it; a publisher's is met on the way.
func (x *exporter) begin(state jetstream.StreamState) (transport.Position, error) {
	first := transport.Position(state.FirstSeq)
	if x.After == "" {
		return max(first, 1) - 1, nil
	}
	n, _, ours := x.id.codec.Decode(x.After)
	switch {
	case !ours || n > state.LastSeq:
		x.waiting = true
		return max(first, 1) - 1, nil
	case transport.Position(n)+1 < first:
		return 0, fmt.Errorf("after %q: %w", x.After, transport.ErrTrimmed)
	default:
		return transport.Position(n), nil
	}
}

// take writes the update of a stored message.
func (x *exporter) take(pos transport.Position, m *nats.Msg) error {
	e, err := decode(x.id.codec, pos, m.Header, m.Data)
	if err != nil {
		return nil //nolint:nilerr // something else wrote into the stream; Scan leaves it out, too
	}
	u := e.Update
	if x.waiting {
		x.waiting = u.ID != x.After
		return nil
	}
	if !x.selected(u.Topics) {
		return nil
	}
	line := exported{
		Position: uint64(pos), ID: u.ID, Time: m.Header.Get("Nats-Time-Stamp"), Topics: u.Topics,
		Type: u.Type, Retry: u.Retry, Private: u.Private, Data: u.Data,
	}
	if !utf8.ValidString(u.Data) {
		line.Data, line.Base64 = "", []byte(u.Data)
	}
	x.written++
	return x.out.Encode(line)
}

func (x *exporter) selected(topics []string) bool {
	return len(x.matchers) == 0 || slices.ContainsFunc(x.matchers, func(m topic.Matcher) bool {
		return slices.ContainsFunc(topics, m.Match)
	})
}

// walk hands every stored message of (after, upto] to fn, in order, batch by batch. Any replica may answer, and one that
// lags ends early: the leader then says what comes next.
func (s *streams) walk(ctx context.Context, b *inbox, after, upto transport.Position, fn func(transport.Position, *nats.Msg) error) error {
	for after < upto {
		ask := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d}`, after+1, readBatch, readBytes)
		msgs, err := b.request(ctx, directGetSubject+s.prefix, ask, true)
		if err != nil {
			return err
		}
		came := after
		for _, m := range msgs {
			status := m.Header.Get(headerStatus)
			if len(m.Data) == 0 && status != "" {
				if status != statusEnd && status != statusNone {
					return fmt.Errorf("%w: read history: %s %s", transport.ErrUnavailable, status, m.Header.Get("Description"))
				}
				break
			}
			pos, err := position(m)
			if err != nil {
				return err
			}
			if pos > upto {
				return nil
			}
			if err := fn(pos, m); err != nil {
				return err
			}
			came = pos
		}
		if came == after {
			next, err := s.nextFromLeader(ctx, after+1)
			if err != nil {
				return err
			}
			if next == 0 || next > upto {
				return nil
			}
			select {
			case <-time.After(retryPause):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			came = next - 1
		}
		after = came
	}
	return nil
}

// nextFromLeader returns the first position from seq on where a message is, 0 if there is none.
func (s *streams) nextFromLeader(ctx context.Context, seq transport.Position) (transport.Position, error) {
	var answer struct {
		apiAnswer
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	ask := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, seq)
	if err := s.ask(ctx, "$JS.API.STREAM.MSG.GET."+s.prefix, ask, &answer); err != nil {
		return 0, fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
	}
	if answer.Error != nil && answer.Error.Code == int(jetstream.JSErrCodeMessageNotFound) {
		return 0, nil
	}
	return transport.Position(answer.Message.Seq), answer.err()
}
