package auth

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The set of RFC 8037 appendix A.2 under two names.
const (
	setOfOne = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	setOfTwo = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"two","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
)

// source is a document that takes a second to fetch.
type source struct {
	fetches atomic.Int64
	body    atomic.Value // string; "" = failure
}

func (s *source) load(ctx context.Context) ([]byte, error) {
	s.fetches.Add(1)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if body, _ := s.body.Load().(string); body != "" {
		return []byte(body), nil
	}
	return nil, errors.New("down")
}

// following is a JWKS of s in a bubble; the test ends it.
func following(t *testing.T, s *source) *JWKS {
	t.Helper()
	s.body.Store(setOfOne)
	ctx, cancel := context.WithCancel(t.Context())
	j := newSet(JWKSOptions{}, "test", s.load)
	if err := j.start(ctx, cancel); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	return j
}

func TestAnUnknownKeyIsLookedForOnceForEverybody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s source
		j := following(t, &s)
		s.body.Store(setOfTwo)
		if j.Find(t.Context(), "EdDSA", "two") != nil || s.fetches.Load() != 1 {
			t.Fatal("it was looked for right after a fetch")
		}
		time.Sleep(31 * time.Second)
		var found atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if len(j.Find(t.Context(), "EdDSA", "two")) == 1 {
					found.Add(1)
				}
			})
		}
		wg.Wait()
		if found.Load() != 50 || s.fetches.Load() != 2 {
			t.Errorf("%d of 50 found the key after %d fetches, want all after 2", found.Load(), s.fetches.Load())
		}
		if j.Find(t.Context(), "EdDSA", "one") != nil {
			t.Error("a key that left the set is still trusted")
		}
		for range 100 {
			j.Find(t.Context(), "EdDSA", "nobody's")
		}
		if s.fetches.Load() != 2 {
			t.Errorf("unknown keys caused %d fetches within a moment", s.fetches.Load()-2)
		}
	})
}

func TestAWaitingRequestCanLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s source
		j := following(t, &s)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		if j.Find(ctx, "EdDSA", "two") != nil || time.Since(start) != time.Millisecond {
			t.Errorf("the request waited %v", time.Since(start))
		}
		synctest.Wait()
	})
}

func TestTheSetIsFetchedAnewFromTimeToTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s source
		j := following(t, &s)
		first := j.Version()
		time.Sleep(21 * time.Minute)
		if n := s.fetches.Load(); n < 3 || n > 4 {
			t.Errorf("%d fetches in 21 minutes, want one every 9 to 10", n)
		}
		if j.Version() != first {
			t.Error("the version changed although the set did not")
		}
		s.body.Store(setOfTwo)
		time.Sleep(11 * time.Minute)
		if j.find("EdDSA", "two") == nil || j.Version() == first {
			t.Error("the new set is not in force")
		}
		s.body.Store("")
		time.Sleep(time.Hour)
		if j.find("EdDSA", "two") == nil {
			t.Error("a failing source took the keys away")
		}
		s.body.Store(`{"keys":[]}`)
		time.Sleep(11 * time.Minute)
		if j.find("EdDSA", "two") != nil {
			t.Error("a set that was emptied is still trusted")
		}
	})
}

func TestAClosedSetStillVerifiesAndNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s source
		j := following(t, &s)
		time.Sleep(time.Minute)
		waited := make(chan struct{})
		go func() { j.Find(t.Context(), "EdDSA", "two"); close(waited) }()
		synctest.Wait()
		j.Close()
		<-waited
		time.Sleep(time.Minute)
		start := time.Now()
		if j.Find(t.Context(), "EdDSA", "two") != nil || time.Since(start) != 0 {
			t.Error("a closed set is waited for")
		}
		if j.Find(t.Context(), "EdDSA", "one") == nil {
			t.Error("a closed set lost its keys")
		}
	})
}

func TestAddressesInsideTheNetworkAreRefused(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"93.184.215.14:443": true, "[2606:2800:21f:cb07::1]:443": true, "172.32.0.1:443": true,
		"127.0.0.1:443": false, "127.9.9.9:443": false, "0.0.0.0:443": false, "0.1.2.3:443": false, "10.0.0.1:443": false,
		"172.16.0.1:443": false, "192.168.1.1:443": false, "169.254.169.254:80": false, "100.64.0.1:443": false,
		"192.0.0.8:443": false, "198.18.0.1:443": false, "224.0.0.1:443": false, "255.255.255.255:443": false, "240.0.0.1:443": false,
		"[::]:443": false, "[::1]:443": false, "[fe80::1%eth0]:443": false, "[fc00::1]:443": false, "[fd12::1]:443": false,
		"[ff02::1]:443": false, "[::ffff:127.0.0.1]:443": false, "[::ffff:10.0.0.1]:443": false, "[::ffff:100.64.0.1]:443": false, "[64:ff9b::a00:1]:443": false,
		"[2002:7f00:1::]:443": false, "[2001::1]:443": false, "[fec0::1]:443": false,
		"[::127.0.0.1]:443": false, "[::a00:1]:443": false, "[::ffff:0:127.0.0.1]:443": false, "localhost:443": false, "": false,
	} {
		if err := publicAddress(address); (err == nil) != public {
			t.Errorf("%s: got %v, want public %v", address, err, public)
		}
	}
	for _, p := range internal {
		if p != p.Masked() || p.Addr() == (netip.Addr{}) {
			t.Errorf("%v is not a prefix in its shortest form", p)
		}
	}
}
