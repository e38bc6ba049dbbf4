package hub

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// catchUp reads the log from the position to upto at the speed of the client. It returns endNone once
// everything up to there has been written. The position ends at the last entry that was read, which
// need not be upto: what comes live between the two was not in the log yet, and has to be written.
func (s *subscriber) catchUp(ctx context.Context, out *writer, upto transport.Position) endReason {
	patience := retryLog{give: logPatience}
	replayed := 0
	defer func() {
		if s.resuming {
			s.resuming = false
			s.hub.metrics.ResumeDepth.Observe(float64(replayed))
		}
	}()
	begin := s.pos
	for s.pos < upto {
	scan:
		for e, err := range s.hub.o.Transport.Scan(ctx, s.pos, upto, s.selectors) {
			if err != nil {
				switch {
				case ctx.Err() != nil:
					return s.contextReason()
				case errors.Is(err, transport.ErrTrimmed):
					if s.fromEarliest && out.count == 0 && s.toEarliest(ctx) {
						patience.again = true
						break scan
					}
					_ = out.flush() // what was read is whole
					return endTrimmed
				}
				if sendErr := out.flush(); sendErr != nil {
					return s.sinkReason(sendErr)
				}
				s.hub.log.Warn("reading the log failed", "err", err, "position", s.pos, "request_id", s.requestID)
				if !patience.wait(ctx, s) {
					return s.why(endUnavailable)
				}
				break
			}
			patience.reset()
			if s.selects(e.Update) {
				s.hub.metrics.Replayed.Inc()
				replayed++
				if err := out.entry(e); err != nil {
					return s.sinkReason(err)
				}
				s.past.noteSent(e.Pos, e.Update.ID)
			}
			if e.Pos > s.pos {
				s.pos = e.Pos
				s.past.noteRead(begin, s.pos)
			}
			if why := s.onTheWay(out); why != endNone {
				return why
			}
		}
		if !patience.failed() {
			break
		}
	}
	s.past.sentID = strings.Clone(s.past.sentID) // of the rest of that update nothing is kept
	if err := out.flush(); err != nil {
		return s.sinkReason(err)
	}
	s.fromEarliest = false // from here on a gap is a loss
	return endNone
}

// toEarliest moves the position of a subscriber that was told `earliest` to what is retained now.
func (s *subscriber) toEarliest(ctx context.Context) bool {
	span, err := s.hub.o.Transport.Span(ctx)
	if err != nil || span.First == 0 || span.First-1 <= s.pos {
		return false
	}
	s.pos = span.First - 1
	return true
}

// onTheWay looks, between two entries of a catch-up, after what a live stream has timers for.
func (s *subscriber) onTheWay(out *writer) endReason {
	now := time.Now()
	if why := s.over(now); why != endNone {
		if err := out.flush(); err != nil {
			return s.sinkReason(err)
		}
		return why
	}
	if hb := s.hub.o.Heartbeat; hb > 0 && now.Sub(s.lastSent) >= hb {
		if err := out.comment(); err != nil {
			return s.sinkReason(err)
		}
	}
	return endNone
}

// logPatience is how long a subscriber waits for a log that cannot be read.
const logPatience = 15 * time.Second

// retryLog spaces attempts to read a log that fails.
type retryLog struct {
	give  time.Duration
	since time.Time
	step  time.Duration
	again bool
}

func (r *retryLog) reset() { r.since, r.step = time.Time{}, 0 }

// failed reports, once, whether the last pass ended in an error.
func (r *retryLog) failed() bool {
	again := r.again
	r.again = false
	return again
}

// wait sleeps before the next attempt; it returns false when patience or the stream has ended.
func (r *retryLog) wait(ctx context.Context, s *subscriber) bool {
	now := time.Now()
	if r.since.IsZero() {
		r.since = now
	}
	if now.Sub(r.since) > r.give || s.endingWhy() != endNone {
		return false
	}
	r.again = true
	r.step = min(max(2*r.step, 50*time.Millisecond), time.Second)
	t := time.NewTimer(r.step)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
