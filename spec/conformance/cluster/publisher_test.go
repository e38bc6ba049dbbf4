//go:build linux

package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
)

// attempt is one request that publishes. No two are of the same update: what became of one that was not
// acknowledged is unknown, and sending it again could store it twice with nobody to blame.
type attempt struct {
	worker int
	topics []string
	acked  time.Duration // when the acknowledgement came, since the run began; 0 = never
	id     string        // as acknowledged
}

// attemptLimit is how long a publisher waits for an answer, longer than hubs take to give up.
const attemptLimit = 15 * time.Second

// worker publishes at its share of the rate until ctx ends. Refused for now, or cut off, it turns to the next hub at once, and
// when all have been tried waits a little.
func (r *run) worker(ctx context.Context, w int, every time.Duration, urls []string) {
	at := w % len(urls)
	due := time.Now()
	for n := w; ctx.Err() == nil; n++ {
		due = due.Add(every)
		if behind := time.Since(due); behind > 0 {
			due = due.Add(behind) // a stall is not made up for by a burst
		} else {
			select {
			case <-time.After(-behind):
			case <-ctx.Done():
				return
			}
		}
		begun := time.Now()
		for tries := 1; ; tries++ {
			_, err := r.publish(context.WithoutCancel(ctx), urls[at], w, kinds[n%len(kinds)], r.ownID(w, n), "")
			if err == nil {
				break
			}
			r.failed(err)
			at = (at + 1) % len(urls)
			if tries%len(urls) == 0 {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					return
				}
			}
		}
		r.stalled(time.Since(begun))
	}
}

// ownID is the publisher's id of every fourth update, "" otherwise.
func (r *run) ownID(w, n int) string {
	if n%4 != 0 {
		return ""
	}
	return fmt.Sprintf("own-%s-%d-%d-%d", r.name, w, n, time.Now().UnixNano())
}

// publish makes one attempt. An error says why it was not acknowledged.
func (r *run) publish(ctx context.Context, hub string, w int, topics []string, own, mark string) (string, error) {
	seq := r.begin(w, topics)
	form := url.Values{"topic": topics, "data": {r.data(seq, mark)}}
	if own != "" {
		form.Set("id", own)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hub, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", spec.MediaTypeForm)
	req.Header.Set("Authorization", "Bearer "+r.token)
	res, err := r.publisher.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", &refusal{status: res.StatusCode, retryAfter: res.Header.Get("Retry-After"), text: fmt.Sprintf("%.200s", body)}
	}
	r.acknowledged(seq, string(body))
	return string(body), nil
}

// refusal is an answer to a publisher that is not 200.
type refusal struct {
	status           int
	retryAfter, text string
}

func (e *refusal) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }
