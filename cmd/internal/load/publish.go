package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// failurePause keeps publishers from hammering a hub that refuses.
const failurePause = 10 * time.Millisecond

// idleTooLong is how long a connection may lie idle: a hub may close it any time, and a publication that meets that
// would count as failed.
const idleTooLong = 10 * time.Second

// publisher is one connection over which updates go, each after the answer to the one before. It belongs to one
// goroutine at a time.
type publisher struct {
	run    *run
	number int
	random *rand.Rand

	conn     net.Conn  // nil = not connected
	used     time.Time // when the last answer came
	answers  *bufio.Reader
	request  []byte
	form     []byte
	attempts []int64 // by topic: the next number
	accepted []int64 // by topic
	unique   int64

	latency    histogram // of what was measured
	taken      int64     // measured and accepted
	failed     int64
	first      error         // of the failures
	behind     time.Duration // the worst
	lastAnswer time.Time     // of what was measured
}

// form is what all publications of a run have in common.
type form struct {
	size    int
	private bool
}

// publish sends the next update to topic k and waits for the answer. phase says whether it counts.
func (p *publisher) publish(ctx context.Context, f form, k int, phase uint32) error {
	sequence := p.attempts[k]
	p.attempts[k]++
	began := time.Now()
	m := mark{run: p.run.tally.run, phase: phase, publisher: p.number, topic: k, sequence: sequence, sent: int64(began.Sub(p.run.tally.started))}
	err := p.post(ctx, f, p.name(k), &m)
	if err != nil {
		p.failed++
		if p.first == nil {
			p.first = err
		}
		return err
	}
	p.accepted[k]++
	if phase == measured {
		p.lastAnswer = time.Now()
		p.latency.add(p.lastAnswer.Sub(began))
		p.taken++
	}
	return nil
}

// name is the topic of the next update to topic k: with a template, one that nobody has published to before.
func (p *publisher) name(k int) string {
	name := p.run.topics[k]
	if !strings.Contains(name, freshPlace) {
		return name
	}
	p.unique++
	fresh := strconv.FormatUint(uint64(p.run.tally.run), 36) + "-" + strconv.Itoa(p.number) + "-" + strconv.FormatInt(p.unique, 10)
	return strings.ReplaceAll(name, freshPlace, fresh)
}

// post makes one request. The connection is kept when the hub keeps it, and given up after any failure.
func (p *publisher) post(ctx context.Context, f form, topic string, m *mark) (err error) {
	e := &p.run.publish
	if p.conn != nil && time.Since(p.used) > idleTooLong {
		p.close()
	}
	if p.conn == nil {
		if p.conn, err = e.dial(ctx, netip.Addr{}); err != nil {
			p.conn = nil
			return e.failed("Post", explain(err))
		}
		p.answers = bufio.NewReader(p.conn)
	}
	p.form = append(append(p.form[:0], spec.FieldTopic+"="...), url.QueryEscape(topic)...)
	if f.private {
		p.form = append(p.form, "&"+spec.FieldPrivate+"=on"...)
	}
	p.form = m.append(append(p.form, "&"+spec.FieldData+"="...), f.size)
	p.request = fmt.Appendf(p.request[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: cinnabar-bench\r\nContent-Type: %s\r\nContent-Length: %d\r\n",
		e.url.RequestURI(), e.host, spec.MediaTypeForm, len(p.form))
	if token := p.run.target.PublishToken; token != "" {
		p.request = append(append(append(p.request, "Authorization: Bearer "...), token...), "\r\n"...)
	}
	p.request = append(append(p.request, "\r\n"...), p.form...)
	keep, err := p.exchange()
	p.used = time.Now()
	if err != nil || !keep {
		p.close()
	}
	return err
}

// exchange sends the request and reads the answer.
func (p *publisher) exchange() (keep bool, err error) {
	e := &p.run.publish
	if err := patience(p.conn, answerPatience); err != nil {
		return false, e.failed("Post", err)
	}
	if _, err := p.conn.Write(p.request); err != nil {
		return false, e.failed("Post", err)
	}
	answer, err := http.ReadResponse(p.answers, nil)
	if err != nil {
		return false, e.failed("Post", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode/100 != 2 {
		return false, refusal(head{answer.StatusCode, answer.Header, false, -1}, answer.Body)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)); err != nil {
		return false, e.failed("Post", err)
	}
	return !answer.Close, nil
}

func (p *publisher) close() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

func (r *run) newPublishers(n int) []*publisher {
	all := make([]*publisher, n)
	for i := range all {
		all[i] = &publisher{
			run: r, number: i, random: rand.New(rand.NewPCG(uint64(r.tally.run), uint64(i))), //nolint:gosec // spreads load
			attempts: make([]int64, len(r.topics)), accepted: make([]int64, len(r.topics)),
		}
	}
	return all
}

// try publishes once, outside all accounts, so that a hub that refuses says so before anything is opened.
func (r *run) try(ctx context.Context, f form) error {
	p := r.newPublishers(1)[0]
	defer p.close()
	m := mark{run: r.tally.run + 1} // nobody of this run takes it for its own
	return p.post(ctx, f, p.name(0), &m)
}

// stretch is a time of publishing, by all publishers together.
type stretch struct {
	form
	rate   float64
	limit  int64          // deliveries that may be outstanding, 0 = no limit
	count  int64          // updates to send, 0 = until ctx ends
	fan    []atomic.Int64 // by topic: how many subscribers an update has; nil = none
	choose bool           // topics at random, rather than in turn
}

// publish has all publishers send until ctx ends or the count is reached, and waits for the answers to what is on its way.
func (r *run) publishAll(ctx context.Context, all []*publisher, s stretch) {
	var (
		working sync.WaitGroup
		tickets atomic.Int64
		began   = time.Now()
	)
	for _, p := range all {
		working.Go(func() {
			defer p.close()
			for {
				n := tickets.Add(1) - 1
				if s.count > 0 && n >= s.count || !p.await(ctx, began, n, s.rate) {
					return
				}
				k := int(n % int64(len(r.topics)))
				if s.choose {
					k = p.random.IntN(len(r.topics))
				}
				var due int64
				if s.fan != nil {
					due = s.fan[k].Load()
				}
				if !r.tally.ledger.admit(ctx, due, s.limit, r.target.Patience) {
					return
				}
				// What has been begun is finished: an aborted publication may or may not have been stored.
				err := p.publish(context.WithoutCancel(ctx), s.form, k, r.tally.phase.Load())
				if err != nil {
					r.tally.ledger.withdraw(due)
					pause(ctx, failurePause)
				}
			}
		})
	}
	working.Wait()
}

// await waits until update n of a fixed rate is due. It reports whether ctx lasted.
func (p *publisher) await(ctx context.Context, began time.Time, n int64, rate float64) bool {
	if rate == 0 {
		return ctx.Err() == nil
	}
	due := began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
	if !pause(ctx, time.Until(due)) {
		return false
	}
	p.behind = max(p.behind, time.Since(due))
	return true
}

// pause waits. It reports whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// freshPlace stands in a topic where every update gets something new. It cannot be in a URL.
const freshPlace = "\x00"

var (
	templateExpression = regexp.MustCompile(`\{[^{}]*\}`)
	plainExpression    = regexp.MustCompile(`^\{\+?[A-Za-z0-9_]+\}$`)
	patternGroup       = regexp.MustCompile(`:[A-Za-z_]\w*`)
)

// places are the selectors and the topics of n places made from one template, in which %d is the place's number and
// every variable becomes something new with each update.
func places(template string, n int, draft08 bool) (selectors, topics []string, err error) {
	if n > 1 && strings.Count(template, "%d") != 1 {
		return nil, nil, badOption("--selector-template %q: %%d must stand in it once, for the number of the template", template)
	}
	var topic string
	if draft08 {
		topic = patternGroup.ReplaceAllString(template, freshPlace)
	} else {
		for _, e := range templateExpression.FindAllString(template, -1) {
			if !plainExpression.MatchString(e) {
				return nil, nil, badOption("--selector-template: only expressions like {id} and {+path} can be filled in, not %q", e)
			}
		}
		topic = templateExpression.ReplaceAllString(template, freshPlace)
	}
	if topic == template || strings.ContainsAny(topic, "{}*()?") {
		return nil, nil, badOption("--selector-template %q: it must have variables, such as {id}, or :id for URL patterns, and nothing else that varies", template)
	}
	for i := range n {
		selectors = append(selectors, strings.Replace(template, "%d", strconv.Itoa(i), 1))
		topics = append(topics, strings.Replace(topic, "%d", strconv.Itoa(i), 1))
	}
	return selectors, topics, nil
}
