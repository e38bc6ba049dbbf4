package auth_test

import (
	"context"
	"crypto"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

func expectStats(t *testing.T, j *auth.JWT, hits, misses uint64) {
	t.Helper()
	if h, m := j.CacheStats(); h != hits || m != misses {
		t.Errorf("%d hits and %d misses, want %d and %d", h, m, hits, misses)
	}
}

func TestVerifiedTokensAreRemembered(t *testing.T) {
	t.Parallel()
	both := mustKeys(t, subscriberSecret, "")
	j := newAuth(t, func(o *auth.Options) { o.Publisher, o.Subscriber = both, both })
	line := "Authorization: Bearer " + hs256(t, subscriberSecret, `{"sub":"x","mercure":{"publish":["p"],"subscribe":["s"]}}`)
	first, err := j.Authorize(get("/hub", line), spec.ActionSubscribe)
	if err != nil {
		t.Fatal(err)
	}
	second, err := j.Authorize(get("/hub", line), spec.ActionSubscribe)
	if err != nil || second != first {
		t.Errorf("the second check made another grant (%v)", err)
	}
	expectStats(t, j, 1, 1)
	publish, err := j.Authorize(post(line), spec.ActionPublish)
	if err != nil || publish == first || publish.Allows([]string{"s"}) || !publish.Allows([]string{"p"}) {
		t.Errorf("the other role's grant was used: %+v (%v)", publish, err)
	}
	expectStats(t, j, 1, 2)
	bad := "Authorization: Bearer " + hs256(t, evilSecret, `{}`)
	for range 2 {
		if _, err := j.Authorize(get("/hub", bad), spec.ActionSubscribe); err == nil {
			t.Fatal("a bad token was accepted")
		}
	}
	expectStats(t, j, 1, 4)
}

func TestTheCacheIsNeverUsedPastExp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newAuth(t, anonymous)
		line := "Authorization: Bearer " + hs256(t, subscriberSecret, fmt.Sprintf(`{"exp":%d.5}`, bubble+10))
		for range 3 {
			if _, err := j.Authorize(get("/hub", line), spec.ActionSubscribe); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10*time.Second + 499*time.Millisecond)
		if _, err := j.Authorize(get("/hub", line), spec.ActionSubscribe); err != nil {
			t.Errorf("a millisecond before exp: %v", err)
		}
		time.Sleep(time.Millisecond)
		_, err := j.Authorize(get("/hub", line), spec.ActionSubscribe)
		if err == nil {
			t.Fatal("accepted at exp")
		}
		if p := problemOf(t, err); p.Reason != auth.ReasonExpired {
			t.Errorf("got %+v, want the expiry as reason", p)
		}
		expectStats(t, j, 3, 2)
	})
}

// slowKeys answers after a while, as a key set that has to be fetched does.
type slowKeys struct{ auth.Keys }

func (s slowKeys) Find(ctx context.Context, alg, kid string) []crypto.PublicKey {
	time.Sleep(2 * time.Second) // of a bubble
	return s.Keys.Find(ctx, alg, kid)
}

func TestATokenThatExpiresWhileItsKeyIsFetchedIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newAuth(t, func(o *auth.Options) { o.Subscriber = slowKeys{o.Subscriber} })
		for left, want := range map[int64]string{1: auth.ReasonExpired, 3: "ok"} {
			token := hs256(t, subscriberSecret, fmt.Sprintf(`{"sub":"ok","jti":"%d","exp":%d}`, left, time.Now().Unix()+left))
			g, err := j.Authorize(get("/hub", "Authorization: Bearer "+token), spec.ActionSubscribe)
			if got := outcome(t, g, err); got != want {
				t.Errorf("%d s left when it came: got %q, want %q", left, got, want)
			}
		}
	})
}

func TestSetKeysDropsTheCache(t *testing.T) {
	t.Parallel()
	j := newAuth(t, nil)
	line := "Authorization: Bearer " + hs256(t, subscriberSecret, `{}`)
	check := func() error {
		_, err := j.Authorize(get("/hub", line), spec.ActionSubscribe)
		return err
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	j.SetKeys(nil, mustKeys(t, evilSecret, ""))
	if check() == nil {
		t.Error("a token of the old key is still accepted")
	}
	j.SetKeys(nil, nil)
	if p := problemOf(t, check()); p.Reason != auth.ReasonNotConfigured {
		t.Errorf("without keys: %+v", p)
	}
	j.SetKeys(nil, mustKeys(t, subscriberSecret, ""))
	if err := check(); err != nil {
		t.Error(err)
	}
	expectStats(t, j, 0, 3)
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	j := newAuth(t, func(o *auth.Options) { o.CacheEntries = 2 })
	for i := range 3 {
		line := fmt.Sprintf("Authorization: Bearer %s", hs256(t, subscriberSecret, fmt.Sprintf(`{"sub":"%d"}`, i)))
		for range 2 {
			if _, err := j.Authorize(get("/hub", line), spec.ActionSubscribe); err != nil {
				t.Fatal(err)
			}
		}
	}
	line := "Authorization: Bearer " + hs256(t, subscriberSecret, `{"sub":"0"}`)
	if _, err := j.Authorize(get("/hub", line), spec.ActionSubscribe); err != nil {
		t.Fatal(err)
	}
	expectStats(t, j, 3, 4)
}

func TestKeysCanChangeUnderLoad(t *testing.T) {
	t.Parallel()
	j := newAuth(t, nil)
	sets := [2]auth.Keys{mustKeys(t, subscriberSecret, ""), mustKeys(t, evilSecret, "")}
	lines := [2]string{
		"Authorization: Bearer " + hs256(t, subscriberSecret, `{"sub":"0"}`),
		"Authorization: Bearer " + hs256(t, evilSecret, `{"sub":"1"}`),
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				g, err := j.Authorize(get("/hub", lines[i%2]), spec.ActionSubscribe)
				if err == nil && g.Subject != fmt.Sprint(i%2) {
					t.Errorf("got the grant of %s for token %d", g.Subject, i%2)
				}
			}
		})
	}
	for i := range 500 {
		j.SetKeys(nil, sets[i%2])
	}
	wg.Wait()
	j.SetKeys(nil, sets[0])
	for i, line := range lines {
		if _, err := j.Authorize(get("/hub", line), spec.ActionSubscribe); (err == nil) != (i == 0) {
			t.Errorf("token %d after the last change: %v", i, err)
		}
	}
}

func TestLongTokensAreCachedApart(t *testing.T) {
	t.Parallel()
	j := newAuth(t, nil)
	for _, sub := range []string{"a", "b"} {
		claims := `{"pad":"` + strings.Repeat("x", 4<<10) + `","sub":"` + sub + `"}`
		g, err := j.Authorize(get("/hub", "Authorization: Bearer "+hs256(t, subscriberSecret, claims)), spec.ActionSubscribe)
		if err != nil || g.Subject != sub {
			t.Errorf("got %v (%v), want the grant of %s", g, err, sub)
		}
	}
}
