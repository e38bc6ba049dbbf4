package topic

import (
	"fmt"
	"net/url"
)

func compileURLPattern(pattern string, _ *url.URL, _ Limits) (Matcher, error) {
	if pattern == wildcard {
		return everything{}, nil
	}
	return nil, fmt.Errorf("%w: URL patterns are not supported yet", ErrInvalid)
}
