package jetstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// How the directory stands in its stream. A message without a state is a connection that is present.
const (
	headerState = "Cinnabar-Presence" // state, and who has brought it about
	headerTTL   = "Nats-TTL"

	stateDying = "dying" // a connection that is being swept; its presence still stands there
	stateGone  = "gone"  // a connection that was taken out
	stateAlive = "alive" // a term: its lease
	stateSweep = "sweep" // a term: the claim of who sweeps it
	stateSwept = "swept" // a term that is over, and whose events are in the log
	stateLeft  = "left"  // a term that is over, and needs no events

	codeWrongLastNow = 10164 // wrong last sequence, as another message of the subject is on its way

	// goneFor is how long it is known who has taken a connection out: longer than Leave is tried again, and longer
	// than a mirror may lag behind until it is read anew.
	goneFor = 2 * time.Minute
	// overFor is how long a term is known to be over. A node that was frozen for longer than reviveFor does not take
	// up its term again, as it can no longer be sure.
	overFor   = time.Hour
	reviveFor = 30 * time.Minute
)

// leaseTimes are how a node shows that it is there.
type leaseTimes struct {
	ttl     time.Duration // after which a node that does not refresh its lease is dead, whole seconds
	refresh time.Duration
	look    time.Duration // between two looks for the dead
	tidy    time.Duration // between two comparisons of what is listed with what was entered here
}

var defaultLease = leaseTimes{ttl: 10 * time.Second, refresh: 3 * time.Second, look: time.Second, tidy: 10 * time.Second}

func presenceName(prefix string) string { return prefix + "-presence" }

// presenceConfig is the configuration of a new directory.
func presenceConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              presenceName(o.Prefix),
		Description:       "who is subscribed",
		Subjects:          []string{o.Prefix + ".presence.>"},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardOld,
		Storage:           jetstream.FileStorage,
		Replicas:          o.replicas(),
		AllowDirect:       true,
		AllowMsgTTL:       true,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		Duplicates:        minMaxAge, // nothing is deduplicated here
	}
}

// newTermName returns 72 random bits, as a token of a subject.
func newTermName() string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (d *directory) connection(term, key string) string { return d.base + "c." + term + "." + key }

func (d *directory) lease(term string) string { return d.base + "n." + term }

func (d *directory) message(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data}
}

// replacing makes a message that replaces the one at seq, 0 for none, and stays for ttl, 0 = for good.
func (d *directory) replacing(subject string, seq uint64, state, by string, ttl time.Duration) *nats.Msg {
	m := d.message(subject, nil)
	m.Header = nats.Header{
		headerState:                 {state + " " + by},
		nats.ExpectedLastSubjSeqHdr: {strconv.FormatUint(seq, 10)},
	}
	if ttl > 0 {
		m.Header[headerTTL] = []string{ttl.String()}
	}
	return m
}

// refused reports whether the leader has refused a message since it does not replace the last one of its subject.
func refused(err error) bool {
	fail, ok := errors.AsType[*refusalError](err)
	return ok && (fail.Code == codeWrongLast || fail.Code == codeWrongLastNow)
}

// stateOf reads the state of a message, empty for a connection that is present.
func stateOf(header nats.Header) (state, by string) {
	if v := header[headerState]; len(v) == 1 {
		state, by, _ = strings.Cut(v[0], " ")
	}
	return state, by
}

// stateNow is what the leader has on a subject.
type stateNow struct {
	seq       uint64 // 0 for nothing
	state, by string
}

// ask asks the leader for what is on a subject.
func (d *directory) ask(ctx context.Context, subject string) (stateNow, error) {
	m, found, err := d.log.leaderGet(ctx, presenceName(d.log.opts.Prefix), fmt.Appendf(nil, `{"last_by_subj":%q}`, subject), d.log.inbox.patience)
	if err != nil || !found {
		return stateNow{}, err
	}
	now := stateNow{seq: m.Sequence}
	if len(m.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(m.Header)
		if err != nil {
			return stateNow{}, fmt.Errorf("%w: %q: %w", transport.ErrUnavailable, subject, err)
		}
		now.state, now.by = stateOf(header)
	}
	return now, nil
}

// outcome is how a connection was taken out.
type outcome int

const (
	takenOut  outcome = iota + 1 // by who asked
	elsewhere                    // by somebody else, who sees to the events
	wasAbsent                    // a while ago, or it has never been there
)

// takeOut replaces the connection at subject, which was last known to stand at seq, 0 for nowhere, by its absence. It
// is tried again until it is known who has. What was not there is marked as absent, too: it may be on its way.
func (d *directory) takeOut(ctx context.Context, subject string, seq uint64, by string) (outcome, error) {
	for began := time.Now(); ; {
		_, err := d.log.publish(ctx, d.replacing(subject, seq, stateGone, by, goneFor))
		if err == nil {
			return takenOut, nil
		}
		if !refused(err) {
			return 0, err
		}
		now, failed := d.ask(ctx, subject)
		switch {
		case failed != nil:
			return 0, failed
		case time.Since(began) > d.log.opts.PublishTimeout:
			return 0, fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
		case now.seq == 0:
			return wasAbsent, nil
		case now.state == stateGone && now.by == by: // the acknowledgement was lost
			return takenOut, nil
		case now.state != "":
			return elsewhere, nil
		case now.seq == seq: // something is on its way
			if err := d.log.pause(ctx, lagPause); err != nil {
				return 0, err
			}
		}
		seq = now.seq // entering was sent twice
	}
}

// presenceJSON is a presence as it is stored. Hubs of before there were payloads of single subscriptions have written
// it without these, and read past them.
type presenceJSON struct {
	Subscriber string            `json:"s"`
	Subject    string            `json:"u,omitempty"`
	Selectors  []selectorJSON    `json:"t"`
	Payload    json.RawMessage   `json:"p,omitempty"`  // of all
	Payloads   []json.RawMessage `json:"pp,omitempty"` // or those that there are, each once: some selectors may share a long one
	Since      int64             `json:"at"`           // unix nanoseconds
}

type selectorJSON struct {
	Kind    topic.Kind `json:"k"`
	Pattern string     `json:"p"`
	Payload int        `json:"v,omitempty"` // which of the payloads, counted from 1; 0 = none
}

func encodePresence(p transport.Presence) ([]byte, error) {
	v := presenceJSON{
		Subscriber: p.Subscriber, Subject: p.Subject, Since: p.Since.UnixNano(), Selectors: make([]selectorJSON, len(p.Selectors)),
	}
	for i, s := range p.Selectors {
		v.Selectors[i] = selectorJSON{Kind: s.Kind, Pattern: s.Pattern}
	}
	if p.Payloads == nil {
		v.Payload = p.Payload
	} else {
		var which []int
		v.Payloads, which = p.DistinctPayloads()
		for i, w := range which {
			v.Selectors[i].Payload = w + 1
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode presence: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func decodePresence(b []byte) (transport.Presence, error) {
	var v presenceJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return transport.Presence{}, fmt.Errorf("decode presence: %w", err)
	}
	p := transport.Presence{
		Subscriber: v.Subscriber, Subject: v.Subject, Payload: v.Payload, Since: time.Unix(0, v.Since),
		Selectors: make([]topic.Selector, len(v.Selectors)),
	}
	if len(v.Payloads) > 0 {
		p.Payloads = make([]json.RawMessage, len(v.Selectors))
	}
	for i, s := range v.Selectors {
		p.Selectors[i] = topic.Selector{Kind: s.Kind, Pattern: s.Pattern}
		if s.Payload > 0 && s.Payload <= len(v.Payloads) {
			p.Payloads[i] = v.Payloads[s.Payload-1]
		}
	}
	return p, nil
}
