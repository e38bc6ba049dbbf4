package jetstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// A fence is an update that the leader of the stream cannot but refuse, since it names a last position that
// no log has. Nothing is stored; the refusal tells the position N that the next update gets, less one:
//
//	us                                  leader's server
//	SUB <prefix>.live.t.https…   ─────►
//	PUB <prefix>.u.fence         ─────► leader: "wrong last sequence: N"
//	frames that were on their way ◄────
//	the refusal                  ◄────
//
// All of it takes the same way through the servers: what is stored after the refusal is sent to a server that
// knows our subscription, and what was sent before it has come before it. A flush only reaches our own server,
// and other questions travel beside the frames.
//
// N counts updates that are proposed and not stored yet, and never may be. Whoever reads the log up to N at once
// might miss one of them, and then take its frame for one that was read. So when N is beyond what is known to be
// stored, a second question asks for the end A of what is: everything after A is sent after the refusal, too.
const (
	fencePatience = 500 * time.Millisecond // for both answers
	// fenceEvery is the pause between two fences. A route between two servers that breaks and is made again within it,
	// which takes a tenth of a second or more, is noticed by the gap in a subject alone.
	fenceEvery = 100 * time.Millisecond
	// endAge is how old the answer A must be when a fence is sent that makes A `safe`, once its leader has said that it
	// still leads: it may be about to send what it has stored.
	endAge = 250 * time.Millisecond

	// unnumbered stands for the N of a refusal that does not tell it. The way of it is the same.
	unnumbered = transport.Position(math.MaxUint64)

	impossibleSequence = "18446744073709551614" // 2^64-2
	wrongLastText      = "wrong last sequence: "
	electedSubject     = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."
)

// round is a fence and who waits for it.
type round struct {
	filters []*filter // subscribed before the fence is sent
	done    chan struct{}

	ok   bool // read after done
	from transport.Position
}

func newRound() *round { return &round{done: make(chan struct{})} }

// pending reports whether the round has not ended.
func (r *round) pending() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// flight is the round under way.
type flight struct {
	*round
	token string             // of the question that is not answered yet
	asked bool               // it is the second one
	known transport.Position // to be stored when the question was asked: no answer may be less
	fence transport.Position
	sent  time.Time
}

var (
	errFenceText   = errors.New("the stream's answer to a fence cannot be read")
	errNotAnswered = errors.New("not answered")
	errLeaderless  = errors.New("the stream has no leader")
	errSilent      = errors.New("the stream does not send updates once more")
)

// ask publishes a question whose answer comes through the channel of frames.
func (f *interestFollower) ask(subject string, header nats.Header) (token string, err error) {
	f.questions++
	token = strconv.FormatUint(f.questions, 36)
	return token, f.log.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: f.inbox + token, Header: header})
}

func (f *interestFollower) askFence() (string, error) {
	return f.ask(f.log.subjects.updates+"fence", nats.Header{nats.ExpectedLastSeqHdr: {impossibleSequence}})
}

func (f *interestFollower) askEnd() (string, error) {
	return f.ask(infoSubject+f.log.opts.Prefix, nil)
}

// readFence reads the position in the answer to a fence, which may be unnumbered. errFenceText means that no later one can be read either.
func readFence(m *nats.Msg) (transport.Position, error) {
	if m.Header.Get(headerStatus) == statusNoServer {
		return 0, nats.ErrNoResponders
	}
	var a ack
	if err := json.Unmarshal(m.Data, &a); err != nil || a.Error == nil {
		return 0, fmt.Errorf("%w: %q", errFenceText, m.Data)
	}
	switch a.Error.Code {
	case codeWrongLast:
	case codeNoRoom: // the leader looks at that first
		return unnumbered, nil
	default:
		return 0, a.Error
	}
	text, ok := strings.CutPrefix(a.Error.Description, wrongLastText)
	n, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("%w: %q", errFenceText, m.Data)
	}
	return transport.Position(n), nil
}

// end is what the leader says of the stream.
type end struct {
	last   transport.Position // stored
	leader string             // the server's name; empty for a server that is alone
	silent bool               // updates are not sent once more: somebody who does not need it has made the stream
}

func readEnd(m *nats.Msg) (end, error) {
	if m.Header.Get(headerStatus) == statusNoServer {
		return end{}, nats.ErrNoResponders
	}
	var a struct {
		Error *apiError `json:"error"`
		streamInfo
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return end{}, fmt.Errorf("stream information: %w", err)
	}
	if a.Error != nil {
		return end{}, errors.New(a.Error.Description)
	}
	return a.end()
}

func (i streamInfo) end() (end, error) {
	if !i.led() {
		return end{}, errLeaderless
	}
	e := end{last: transport.Position(i.State.Last), silent: i.Config.RePublish == nil}
	if i.Cluster != nil {
		e.leader = i.Cluster.Leader
	}
	return e, nil
}

// begin subscribes to what waits and sends a fence, unless one is under way.
func (f *interestFollower) begin() {
	if f.flight != nil {
		return
	}
	f.mu.Lock()
	r := f.next
	f.next = nil
	known := max(f.reached, f.safe)
	f.mu.Unlock()
	if r == nil {
		r = newRound()
	}
	f.flight = &flight{round: r, known: known, sent: time.Now()}
	err := f.subscribe(r.filters)
	if err == nil {
		f.flight.token, err = f.askFence()
	}
	if err != nil {
		f.suspect(reasonProbe, err)
	}
}

// answered takes the answer to the question under way.
func (f *interestFollower) answered(m *nats.Msg) {
	fl := f.flight
	if fl.asked {
		if e, err := readEnd(m); err != nil {
			f.suspect(reasonProbe, err)
		} else {
			f.ended(e)
		}
		return
	}
	n, err := readFence(m)
	if err != nil {
		f.unreadable = errors.Is(err, errFenceText)
		f.suspect(reasonProbe, err)
		return
	}
	if f.fenced(n) {
		fl.asked = true
		if fl.token, err = f.askEnd(); err != nil {
			f.suspect(reasonProbe, err)
		}
	}
}

// fenced notes the answer to a fence, and reports whether the end of the log has to be asked for.
func (f *interestFollower) fenced(n transport.Position) bool {
	fl := f.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < fl.known {
		f.suspectLocked(reasonRegress)
		return false
	}
	if !f.suspected.IsZero() { // raised by an Add, who relies on safe
		return false
	}
	fence(fl.filters, n)
	fl.fence, fl.known = n, max(f.reached, f.safe)
	if f.end == nil || f.endIsOld() || (len(fl.filters) > 0 && n > max(f.reached, f.safe, f.end.last)) {
		return true
	}
	f.landed(n)
	return false
}

// endIsOld reports whether what was stored then was sent before the fence under way was answered.
func (f *interestFollower) endIsOld() bool { return f.flight.sent.Sub(f.endAt) >= endAge }

// ended notes the answer to the question for the end of the log. What a leader has stored it has also sent a moment
// later, if it leads still: one that has lost its office between the two sends nothing more.
func (f *interestFollower) ended(e end) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.suspected.IsZero(): // raised by an Add, who relies on safe
		return
	case e.leader != f.leader:
		f.suspectLocked(reasonLeader)
		return
	case e.silent:
		f.suspectLocked(reasonProbe)
		return
	case e.last < f.flight.known: // later frames may have overtaken the answer
		f.suspectLocked(reasonRegress)
		return
	case f.end == nil:
		f.end, f.endAt = &e, time.Now()
	case f.endIsOld():
		f.safe = max(f.safe, f.end.last)
		f.handed.prune(f.safe)
		f.end, f.endAt = &e, time.Now()
	}
	if f.flight.fence == unnumbered {
		f.flight.fence = e.last
		fence(f.flight.filters, e.last)
	}
	f.log.newest.reach(e.last) // or a copy that is cut off could be taken for the whole log
	f.landed(min(f.flight.fence, e.last))
}

// landed ends the round under way well. Called with mu held.
func (f *interestFollower) landed(from transport.Position) {
	confirm(f.flight.filters, from)
	f.flight.ok, f.flight.from = true, from
	close(f.flight.done)
	f.flight = nil
	if f.next != nil {
		f.nudge()
	}
}
