// Package conformance is the protocol as black-box cases: a hub's URL and its keys go in, a verdict per
// case comes out. The cases know nothing of the hub but HTTP, so they can judge any hub; a Go test and
// `cinnabar conformance` are two thin runners of them.
//
// Every case uses topics of its own and can share a hub with other traffic, except that it publishes
// nothing to subscribers of the selector "*" that they would not see anyway. Cases that would need a
// hub started in a certain way (an anonymous hub, a short heartbeat) are skipped unless Target says so.
// Cases that hold for both generations of the protocol are tried in each one's parameters and tokens.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Target is the hub under test and what has to be known about its configuration. URL and the keys of one generation
// are required; the zero value of everything else is usable.
type Target struct {
	URL        string // hub URL, e.g. http://127.0.0.1:3000/.well-known/mercure
	Generation string // Classic, Draft08 or Both; empty = those whose keys are given
	Anonymous  bool   // subscribers without a token are allowed

	// Keys of the classic generation.
	PublisherKey  string // HMAC secret (HS256) of the publisher role
	SubscriberKey string // HMAC secret (HS256) of the subscriber role; may equal PublisherKey

	// Tokens of draft-08.
	Issuer    string // the issuer's identifier, as the hub was told it
	IssuerKey string // HMAC secret or PEM private key that the hub takes from Issuer, in both roles
	IssuerAlg string // empty = HS256 for a secret, the usual one for a PEM key
	Resource  string // the hub's resource identifier; empty = URL

	NoClassic bool   // the hub serves draft-08 alone
	NoIssuers bool   // the hub has no issuers: it publishes no metadata
	PublicURL string // the hub URL against which it resolves relative topics and patterns; empty skips the checks that need it

	HTTP        *http.Client  // nil = a client of its own; its transport must not ask for compression
	Wait        time.Duration // how long to wait for what must come, more on a machine that is busy; 0 = 5s
	Concurrency int           // cases run at a time; 0 = 4

	AllowOrigin   string // an origin listed in cors-origin (not "*"); empty skips the cases that need it
	PublishOrigin string // an origin listed in publish-origin; empty skips the cases that need it
	Origin        string // the hub's own public origin; empty = the origin of URL

	Subscriptions bool // the hub keeps the list of active subscriptions; false skips the cases that need it

	Heartbeat    time.Duration // the hub's heartbeat; 0 skips the cases that need a short one
	Lifetime     time.Duration // the hub's maximum connection lifetime; 0 skips the cases that need a short one
	WriteTimeout time.Duration // the hub's write timeout; 0 skips the cases that stall a reader
	History      int           // how many updates the hub keeps, when it is few and nobody else publishes; 0 skips the case
	NoRetry      bool          // the hub sends no retry field of its own (SSE-W12)
	NoHTTP2      bool          // the hub speaks neither h2 nor h2c (SUB-23)

	// streams has connections of its own: a hub may close the connection of a stream that it has ended,
	// which must not be taken for the failure of a publication that was about to reuse it.
	streams *http.Client
	chosen  bool // Generation was set
}

// Case is one thing that a hub must do.
type Case struct {
	Name string   // unique, area/what
	Rows []string // the requirement rows that it covers, e.g. SUB-01
	Doc  string   // one sentence: what must hold
	// Run drives p. What it finds is told to p, in the manner of testing.T: Fatalf ends the case.
	Run   func(ctx context.Context, p *Probe)
	Scope Scope
}

// Result is the verdict on one case: Err is nil if it holds, or Skipped says why it was not tried.
type Result struct {
	Case       Case
	Generation string // whose parameters and tokens were used
	Err        error
	Skipped    string
	Took       time.Duration
}

// Name is that of the case, and of the generation where a case is tried in each.
func (r *Result) Name() string {
	if r.Case.Scope == OfEach && r.Generation != Classic {
		return r.Case.Name + "@" + r.Generation
	}
	return r.Case.Name
}

// trial is one case in one generation; one to be skipped if skip says why.
type trial struct {
	c    Case
	gen  *generation
	skip string
}

// trials says what a run of the cases is made of.
func (t Target) trials(cases []Case) []trial {
	var all []trial
	for _, c := range cases {
		gens, skip := t.runs(c.Scope)
		for _, g := range gens {
			all = append(all, trial{c: c, gen: g})
		}
		if skip != "" {
			all = append(all, trial{c: c, gen: draft08, skip: skip})
		}
	}
	return all
}

// Cases returns all cases, in the order of the requirements.
func Cases() []Case {
	return slices.Concat(
		subscribeCases(), streamHeadCases(), lifetimeCases(), matchCases(),
		publishCases(), publishFieldCases(), wireCases(),
		carrierCases(), tokenCases(), claimCases(),
		errorCases(), resumeCases(), cursorCases(), corsCases(), csrfCases(), presenceCases(), limitCases(), regressionCases(),
		matcherCases(), queryCases(), accessCases(), detailCases(), discoveryCases(), presence08Cases(), strictCases(), crossCases(),
	)
}

// Run runs all cases against t and hands each result to report (nil is allowed), from one goroutine, in
// the order of Cases. It returns how many failed; the error says that the target cannot be tested at
// all, or that ctx ended, in which case the remaining cases were not run.
func Run(ctx context.Context, t Target, report func(Result)) (failed int, err error) {
	return RunCases(ctx, t, Cases(), report)
}

// RunCases is Run for the given cases. Those of a generation that is not part of the run are left out.
func RunCases(ctx context.Context, t Target, cases []Case, report func(Result)) (failed int, err error) {
	t, err = t.checked()
	if err != nil {
		return 0, err
	}
	defer t.HTTP.CloseIdleConnections()
	defer t.streams.CloseIdleConnections()

	trials := t.trials(cases)
	results := make([]chan Result, len(trials))
	for i := range results {
		results[i] = make(chan Result, 1)
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	next := make(chan int, len(trials))
	for i := range trials {
		next <- i
	}
	close(next)
	for range t.Concurrency {
		workers.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				results[i] <- runCase(ctx, t, &trials[i])
			}
		})
	}

	for i := range results {
		select {
		case r := <-results[i]:
			if r.Err != nil {
				failed++
			}
			if report != nil {
				report(r)
			}
		case <-ctx.Done():
			return failed, fmt.Errorf("conformance: stopped after %d of %d cases: %w", i, len(trials), context.Cause(ctx))
		}
	}
	return failed, nil
}

// Check returns why t cannot be tested, nil if it can.
func (t Target) Check() error {
	_, err := t.checked()
	return err
}

// checked returns t with its defaults, or why it cannot be tested.
func (t Target) checked() (Target, error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return t, fmt.Errorf("conformance: %q is not an http or https URL", t.URL)
	}
	if err := choose(&t); err != nil {
		return t, err
	}
	if t.IssuerAlg == "" && t.IssuerKey != "" {
		if t.IssuerAlg, err = usualAlgorithm(t.IssuerKey); err != nil {
			return t, err
		}
	}
	t.Resource = cmp.Or(t.Resource, t.URL)
	if t.Origin == "" {
		t.Origin = u.Scheme + "://" + u.Host
	}
	t.Wait = cmp.Or(t.Wait, 5*time.Second)
	t.Concurrency = cmp.Or(t.Concurrency, 4)
	if t.HTTP == nil {
		t.HTTP = &http.Client{
			Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	t.streams = t.HTTP
	if tr, ok := t.HTTP.Transport.(*http.Transport); ok {
		t.streams = &http.Client{Transport: tr.Clone(), CheckRedirect: t.HTTP.CheckRedirect}
	}
	return t, nil
}

// caseLimit bounds one case, so that a hub that answers nothing cannot hold the run up.
const caseLimit = 12

func runCase(ctx context.Context, t Target, one *trial) Result {
	if one.skip != "" {
		return Result{Case: one.c, Generation: one.gen.name, Skipped: one.skip}
	}
	ctx, cancel := context.WithTimeout(ctx, caseLimit*t.Wait)
	defer cancel()
	start := time.Now()
	p := newProbe(t, one.gen)
	// The case has a goroutine of its own so that Fatalf can end it from any depth.
	var done sync.WaitGroup
	done.Go(func() { one.c.Run(ctx, p) })
	done.Wait()
	p.close()
	r := Result{Case: one.c, Generation: one.gen.name, Took: time.Since(start), Skipped: p.skipped, Err: errors.Join(p.errs...)}
	if r.Err != nil {
		r.Skipped = ""
	}
	return r
}
