package topic

import (
	"net/url"

	lru "github.com/hashicorp/golang-lru/v2"
)

// DefaultCacheSize is the number of matchers a Cache keeps unless told otherwise.
const DefaultCacheSize = 4096

// Cache keeps compiled selectors, the most recently used ones, for one base and one set of limits, so
// that its key is kind and pattern (MAT-20). It is safe for concurrent use.
type Cache struct {
	resolver *resolver // of all its URL patterns, which so share what was parsed
	limits   Limits
	matchers *lru.Cache[Selector, Matcher]
}

// NewCache makes a cache of at most size matchers; 0 or less means DefaultCacheSize. base and l are
// what Compile takes.
func NewCache(size int, base *url.URL, l Limits) *Cache {
	if size <= 0 {
		size = DefaultCacheSize
	}
	matchers, err := lru.New[Selector, Matcher](size)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &Cache{resolver: newResolver(base), limits: l, matchers: matchers}
}

// Compile is like the package's Compile. Refusals are not kept: they are found quickly.
func (c *Cache) Compile(s Selector) (Matcher, error) {
	if m, ok := c.matchers.Get(s); ok {
		return m, nil
	}
	m, err := compile(s, c.resolver, c.limits)
	if err != nil {
		return nil, err
	}
	c.matchers.Add(s, m)
	return m, nil
}

// Len returns how many matchers are kept.
func (c *Cache) Len() int { return c.matchers.Len() }
