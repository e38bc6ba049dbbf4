package auth_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
)

func BenchmarkAuthorize(b *testing.B) {
	s := makeSigners()
	const claims = `{"sub":"u","exp":99999999999,"mercure":{"subscribe":["https://example.com/users/1/{?topic}","https://example.com/books/{id}"]}}`
	for _, alg := range []struct {
		name string
		keys auth.Keys
		key  any
	}{
		{"HS256", mustKeys(b, subscriberSecret, "HS256"), []byte(subscriberSecret)},
		{"ES256", mustKeys(b, publicPEM(b, s.es256.Public()), "ES256"), s.es256},
	} {
		token := sign(b, fmt.Sprintf(`{"alg":%q,"typ":"JWT"}`, alg.name), claims, alg.name, alg.key)
		r := get("/hub?topic=https%3A%2F%2Fexample.com%2Fbooks%2F1", "Authorization: Bearer "+token)
		b.Run(alg.name+"/cached", func(b *testing.B) {
			j := newAuth(b, func(o *auth.Options) { o.Subscriber = alg.keys })
			b.ReportAllocs()
			for b.Loop() {
				if _, err := j.Authorize(r, spec.ActionSubscribe); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(alg.name+"/uncached", func(b *testing.B) {
			j := newAuth(b, func(o *auth.Options) { o.Subscriber = alg.keys; o.CacheEntries = 1 })
			other := get("/hub", "Authorization: Bearer "+sign(b, `{"alg":"`+alg.name+`"}`, claims, alg.name, alg.key))
			b.ReportAllocs()
			for b.Loop() { // two tokens drive each other out of a cache of one
				for _, request := range []*http.Request{r, other} {
					if _, err := j.Authorize(request, spec.ActionSubscribe); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
