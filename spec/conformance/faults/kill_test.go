package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/conformance/internal/child"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
)

// acknowledged is one update whose publisher was told its id.
type acknowledged struct{ id, data string }

// Every update that was acknowledged before a kill -9 is there afterwards, once, and each publisher's in
// its order. Covers: PUB-24, REC-06, REC-08.
func TestKillWhilePublishingLosesNothingAcknowledged(t *testing.T) {
	const publishers = 6
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	h := child.New(t, "--publish-timeout", "5s")
	token := child.Token(t)
	const topic = "https://example.com/kill"
	var acks [publishers][]acknowledged
	sent := [publishers]int{}
	for range rounds {
		h.Start()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for w := range publishers {
			all.Go(func() {
				for ctx.Err() == nil {
					data := fmt.Sprint(w, " ", sent[w])
					sent[w]++
					form := url.Values{"topic": {topic}, "data": {data}}
					if sent[w]%3 == 0 {
						form.Set("id", "own "+data)
					}
					id, err := h.Publish(ctx, token, form)
					if err != nil {
						return // the hub is gone
					}
					acks[w] = append(acks[w], acknowledged{id, data})
				}
			})
		}
		select {
		case <-time.After(200*time.Millisecond + rand.N(300*time.Millisecond)):
		case <-ctx.Done():
		}
		h.Kill()
		stop()
		all.Wait()
	}
	h.Start()
	total := 0
	for w := range acks {
		total += len(acks[w])
	}
	if total < publishers*rounds {
		t.Fatalf("only %d updates were acknowledged in %d rounds", total, rounds)
	}
	end := h.Must(topic, "end")
	verify(t, history(t, h, topic, end), acks[:])
}

// history reads a topic from the beginning up to an id.
func history(t *testing.T, h *child.Hub, topic, end string) []sse.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"?topic="+url.QueryEscape(topic), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+child.Token(t))
	req.Header.Set(spec.HeaderLastEventID, spec.Earliest)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var events []sse.Event
	for d := sse.NewDecoder(res.Body, 0); ; {
		e, err := d.Next()
		if err != nil {
			t.Fatalf("after %d events: %v", len(events), err)
		}
		events = append(events, e)
		if e.ID == end {
			return events
		}
	}
}

func verify(t *testing.T, events []sse.Event, acks [][]acknowledged) {
	t.Helper()
	byID := map[string]string{}
	next := make([]int, len(acks))
	for _, e := range events {
		if e.Data == "end" {
			continue
		}
		if _, twice := byID[e.ID]; twice {
			t.Errorf("the update %q is there twice", e.ID)
		}
		byID[e.ID] = e.Data
		publisher, number, _ := strings.Cut(e.Data, " ")
		w, errW := strconv.Atoi(publisher)
		n, errN := strconv.Atoi(number)
		if errW != nil || errN != nil {
			t.Fatalf("an update of nobody: %+v", e)
		}
		if n < next[w] {
			t.Errorf("publisher %d: update %d comes after %d", w, n, next[w]-1)
		}
		next[w] = n + 1
	}
	for w := range acks {
		for _, a := range acks[w] {
			if byID[a.id] != a.data {
				t.Errorf("publisher %d was told that %q is stored as %s; the history has %q there", w, a.data, a.id, byID[a.id])
			}
		}
	}
}
