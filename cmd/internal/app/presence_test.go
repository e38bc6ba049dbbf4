package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/client"
	"github.com/cinnabar-hub/cinnabar/spec/sse"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
)

const (
	presenceIssuer   = "https://issuer.example"
	presenceResource = "https://hub.example/.well-known/mercure"
)

// mintDraft08 makes a token for everything, whose payload is one for a room and another for the rest.
func mintDraft08(t *testing.T) string {
	t.Helper()
	subscribe := []spec.Action{spec.ActionSubscribe}
	token, err := auth.Mint(auth.MintOptions{
		Generation: spec.Draft08.Name, Key: secret, TTL: time.Hour, Issuer: presenceIssuer, Audience: []string{presenceResource},
		Details: []auth.MintDetail{
			{Actions: subscribe, Topics: []topic.Selector{{Kind: topic.Exact, Pattern: "https://example.com/rooms/1"}}, Payload: json.RawMessage(`{"room":1}`)},
			{Actions: subscribe, Topics: []topic.Selector{{Kind: topic.Exact, Pattern: "*"}}, Payload: json.RawMessage(`{"any":true}`)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// document is a subscription in either form.
type document struct {
	ID, Type, Topic, Match, Subscriber string
	MatchType                          string `json:"match_type"`
	Active                             bool
	Payload                            json.RawMessage
}

// about reads events until one of a subscription to this pattern.
func about(ctx context.Context, t *testing.T, events <-chan sse.Event, pattern string) (document, sse.Event) {
	t.Helper()
	for {
		select {
		case e := <-events:
			var doc document
			if err := json.Unmarshal([]byte(e.Data), &doc); err != nil {
				t.Fatalf("%q: %v", e.Data, err)
			}
			if doc.Topic == pattern || doc.Match == pattern {
				return doc, e
			}
		case <-ctx.Done():
			t.Fatalf("nothing is told of %s", pattern)
		}
	}
}

// Two nodes list and tell of each other's subscribers, in both forms at once, with a payload for each subscription.
//
// Covers: ACT-28, ACT-30, G-15, G-17, D08-19.
func TestTwoNodesKnowEachOthersSubscribersInBothForms(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), clusterPatience)
	defer cancel()
	args := []string{
		"--publisher-jwt-key=" + publisherKey, "--subscriber-jwt-key=" + subscriberKey, "--drain-delay=0s", "--shutdown-timeout=10s", "--subscriptions",
		"--issuer=" + presenceIssuer, "--issuer-jwt-key=" + secret, "--resource-identifier=" + presenceResource,
		"--nats-url=" + startNATS(t), "--nats-token=" + natsToken,
	}
	one, _ := start(t, args...)
	two, _ := start(t, args...)
	const room, rooms = "https://example.com/rooms/1", "https://example.com/rooms/{id}"
	const list = spec.DefaultHubPath + spec.SubscriptionsPath
	classicToken, draft08Token := mint(t, subscriberKey), mintDraft08(t)
	classic, _ := subscribe(ctx, t, &client.Subscriber{URL: two.URL(), Token: classicToken, Topics: []string{list + "/{topic}/{subscriber}"}, HTTP: httpClient(t)})
	draft08, _ := subscribe(ctx, t, &client.Subscriber{URL: two.URL(), Token: draft08Token, URLPatterns: []string{list + "/:match_type/:match/:subscriber"}, HTTP: httpClient(t)})

	sitting, leave := context.WithCancel(ctx)
	sitter := client.Subscriber{URL: one.URL(), Token: draft08Token, Topics: []string{rooms}, Match: []string{room}, HTTP: httpClient(t)}
	subscribe(sitting, t, &sitter)
	ofRooms, e := about(ctx, t, classic, rooms)
	if e.Type != "" || ofRooms.Type != "Subscription" || !ofRooms.Active || string(ofRooms.Payload) != `{"any":true}` {
		t.Errorf("classic: type %q, %s", e.Type, e.Data)
	}
	ofRoom, e := about(ctx, t, draft08, room)
	if e.Type != spec.TypeMercure || ofRoom.Type != "subscription" || ofRoom.MatchType != topic.TypeExact || !ofRoom.Active || string(ofRoom.Payload) != `{"room":1}` {
		t.Errorf("draft-08: type %q, %s", e.Type, e.Data)
	}
	if ofRooms.Subscriber != ofRoom.Subscriber {
		t.Errorf("one stream is the subscribers %s and %s", ofRooms.Subscriber, ofRoom.Subscriber)
	}
	for _, node := range []*app.App{one, two} {
		listed(t, node, classicToken, "application/ld+json", ofRooms, ofRoom)
		listed(t, node, draft08Token, "application/json", ofRoom, ofRooms)
	}

	leave()
	if doc, e := about(ctx, t, classic, rooms); doc.Active || doc.ID != ofRooms.ID || string(doc.Payload) != `{"any":true}` {
		t.Errorf("classic: %s", e.Data)
	}
	if doc, e := about(ctx, t, draft08, room); doc.Active || doc.ID != ofRoom.ID || e.Type != spec.TypeMercure || string(doc.Payload) != `{"room":1}` {
		t.Errorf("draft-08: %s", e.Data)
	}

	// A node that ends tells in both forms, too.
	sitter.HTTP = httpClient(t)
	again, leaveAgain := context.WithCancel(ctx)
	defer leaveAgain()
	subscribe(again, t, &sitter)
	for _, active := range []bool{true, false} {
		if doc, e := about(ctx, t, classic, rooms); doc.Active != active {
			t.Errorf("classic: %s", e.Data)
		}
		if doc, e := about(ctx, t, draft08, room); doc.Active != active {
			t.Errorf("draft-08: %s", e.Data)
		}
		if active {
			if err := one.Stop(ctx); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
	}
}

// listed fails the test unless a node answers in this form, with the one and without the other.
func listed(t *testing.T, node *app.App, token, mediaType string, has, hasNot document) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, node.URL()+spec.SubscriptionsPath, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != mediaType {
		t.Errorf("%s: %d %s, %v", node.URL(), res.StatusCode, res.Header.Get("Content-Type"), err)
	}
	if !strings.Contains(string(body), `"id":"`+has.ID+`"`) || strings.Contains(string(body), hasNot.ID) || !strings.Contains(string(body), string(has.Payload)) {
		t.Errorf("%s lists %s, want %s, and not %s", node.URL(), body, has.ID, hasNot.ID)
	}
}
