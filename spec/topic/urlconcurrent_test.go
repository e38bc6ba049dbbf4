package topic

import (
	"fmt"
	"sync"
	"testing"
)

// The first topics of a hub may come at the same time, and all patterns of a cache share what they are resolved with.
//
// Covers: MAT-20.
func TestURLPatternsAreMatchedByMany(t *testing.T) {
	c := NewCache(0, parseBase(t, testHub), Limits{})
	var matchers []Matcher
	for i := range 8 {
		m, err := c.Compile(Selector{Kind: URLPattern, Pattern: fmt.Sprintf("/books/%d/:id", i)})
		if err != nil {
			t.Fatal(err)
		}
		matchers = append(matchers, m)
	}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i, m := range matchers {
		wg.Go(func() {
			<-start
			for n := range 200 { // more than are remembered, so that places are taken from each other
				topic := fmt.Sprintf("/books/%d/%d", n%len(matchers), n)
				if got, want := m.Match(topic), n%len(matchers) == i; got != want {
					t.Errorf("pattern %d matches %q: %v", i, topic, got)
				}
			}
		})
	}
	close(start)
	wg.Wait()
}
