package conformance

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/cinnabar-hub/cinnabar/spec"
)

func limitCases() []Case {
	return []Case{
		{"limit/body", []string{"LIM-01", "PUB-26"}, "A publication has at most 1 MiB.", limitBody, OfEach},
		{"limit/topics", []string{"LIM-02", "PUB-26"}, "A publication has at most 100 topics.", limitTopics, OfEach},
		{"limit/topic-length", []string{"LIM-03", "PUB-26"}, "A topic has at most 2048 bytes.", limitTopicLength, OfEach},
		{"limit/id-and-type-length", []string{"LIM-04", "PUB-26"}, "An id and a type have at most 1024 bytes.", limitFieldLength, OfEach},
		{"limit/selectors", []string{"LIM-05", "SUB-18"}, "A subscription has at most 100 selectors.", limitSelectors, OfEach},
		{"limit/selector-length", []string{"LIM-06", "SUB-19"}, "A selector has at most 4096 bytes.", limitSelectorLength, OfEach},
		{"limit/request-head", []string{"LIM-13"}, "A request head has at most 64 KiB.", limitHead, OfEach},
	}
}

// tooBig publishes a body that the hub may stop reading: an answer that came before the connection
// broke counts.
func (p *Probe) tooBig(ctx context.Context, h http.Header, kv ...string) answer {
	all := merged(h, head("Content-Type", spec.MediaTypeForm))
	a, err := p.try(ctx, http.MethodPost, "", all, strings.NewReader(form(kv...)))
	if err != nil {
		p.Fatalf("no answer to a big publication: %v", err)
	}
	return a
}

func limitBody(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	h := bearer(p.publisher("*"))
	prefix := form("topic", topic) + "&data="
	full := prefix + strings.Repeat("x", 1<<20-len(prefix))
	p.wantStatus(p.postRaw(ctx, h, full), http.StatusOK, "1 MiB")
	if e := s.next(); len(e.data) != 1<<20-len(prefix) {
		p.Errorf("%d bytes arrived, want %d", len(e.data), 1<<20-len(prefix))
	}
	p.refuse(ctx, s, topic, http.StatusRequestEntityTooLarge, "a byte more", func() answer { return p.postRaw(ctx, h, full+"x") })
	p.refuse(ctx, s, topic, http.StatusRequestEntityTooLarge, "a byte more of unknown length", func() answer {
		all := merged(h, head("Content-Type", spec.MediaTypeForm))
		a, err := p.try(ctx, http.MethodPost, "", all, io.MultiReader(strings.NewReader(full), strings.NewReader("x")))
		if err != nil {
			p.Errorf("no answer to a big publication: %v", err)
		}
		return a
	})
}

func (p *Probe) manyTopics(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("t", i)
	}
	return p.topics(list...)
}

func limitTopics(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	kv := []string{"data", "x", "topic", topic}
	for i := range 99 {
		kv = append(kv, "topic", p.topic(fmt.Sprint(i)))
	}
	p.wantStatus(p.post(ctx, bearer(p.publisher("*")), kv...), http.StatusOK, "100 topics")
	s.want("x")
	p.refuse(ctx, s, topic, http.StatusRequestEntityTooLarge, "101 topics", func() answer {
		return p.post(ctx, bearer(p.publisher("*")), append(kv, "topic", p.topic("one more"))...)
	})
}

func limitTopicLength(ctx context.Context, p *Probe) {
	h := bearer(p.publisher("*"))
	long := p.topic("")
	long += strings.Repeat("x", 2048-len(long))
	s := p.listen(ctx, long)
	p.wantStatus(p.post(ctx, h, "topic", long, "data", "x"), http.StatusOK, "2048 bytes")
	s.want("x")
	p.wantStatus(p.post(ctx, h, "topic", long+"x"), http.StatusRequestEntityTooLarge, "2049 bytes")
	p.wantStatus(p.post(ctx, h, "topic", p.topic("a"), "topic", long+"x"), http.StatusRequestEntityTooLarge, "2049 bytes of an alternate")
}

func limitFieldLength(ctx context.Context, p *Probe) {
	h := bearer(p.publisher("*"))
	for _, field := range []string{"id", "type"} {
		fits := p.nonce + strings.Repeat("x", 1024-len(p.nonce))
		p.wantStatus(p.post(ctx, h, "topic", p.topic("a"), field, fits), http.StatusOK, "%s of 1024 bytes", field)
		p.wantStatus(p.post(ctx, h, "topic", p.topic("a"), field, fits+"x"), http.StatusRequestEntityTooLarge, "%s of 1025 bytes", field)
	}
}

func limitSelectors(ctx context.Context, p *Probe) {
	p.wantStatus(p.get(ctx, p.manyTopics(100), bearer(p.subscriber())), http.StatusOK, "100 selectors")
	p.wantStatus(p.get(ctx, p.manyTopics(101), bearer(p.subscriber())), http.StatusBadRequest, "101 selectors")
}

func limitSelectorLength(ctx context.Context, p *Probe) {
	fits := strings.Repeat("x", 4096)
	p.wantStatus(p.get(ctx, p.topics(fits), bearer(p.subscriber())), http.StatusOK, "4096 bytes")
	p.wantStatus(p.get(ctx, p.topics(fits+"x"), bearer(p.subscriber())), http.StatusBadRequest, "4097 bytes")
}

func limitHead(ctx context.Context, p *Probe) {
	small := merged(bearer(p.subscriber()), head("X-Padding", strings.Repeat("x", 40<<10)))
	p.wantStatus(p.get(ctx, p.topics(p.topic("a")), small), http.StatusOK, "a head of 40 KiB")

	c := p.dial(ctx) // raw, since a client library may give up when its writing fails
	_, _ = io.WriteString(c, "GET "+c.target("?"+p.topics(p.topic("a")))+" HTTP/1.1\r\nHost: "+c.host+"\r\nX-Padding: "+strings.Repeat("x", 72<<10)+"\r\n\r\n")
	if h := c.readHead(); h.status != http.StatusRequestHeaderFieldsTooLarge {
		p.Errorf("a head of 72 KiB: status %d, want 431", h.status)
	}
}

func regressionCases() []Case {
	return []Case{
		{"security/topics-are-opaque", []string{"SEC-15"}, "Nothing in the hub dereferences a topic.", securityOpaque, OfEach},
		{"security/still-alive", []string{"SEC-07", "ERR-12", "SUB-21"}, "After odd requests the hub serves as before.", securityAlive, OfEach},
	}
}

func securityOpaque(ctx context.Context, p *Probe) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		p.Skipf("cannot listen: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			p.Errorf("the hub connected to a topic's address")
		}
	}()
	defer func() {
		_ = ln.Close()
		<-done
	}()
	topic := "http://" + ln.Addr().String() + "/" + p.nonce
	s := p.listen(ctx, topic, p.anyBelow(topic+"/"))
	p.publish(ctx, "topic", topic, "data", topic, "id", topic)
	s.want(topic)
}

func securityAlive(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, junk := range []string{
		"GET " + strings.Repeat("/", 3000) + " HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz\r\n",
		"GET ? HTTP/1.1\r\nHost:\r\n\r\n", "POST /.well-known/mercure HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
	} {
		c := p.dial(ctx)
		_, _ = io.WriteString(c, junk)
		_ = c.readFor(p.Wait/50, 64<<10)
		_ = c.Close()
	}
	p.publish(ctx, "topic", topic, "data", "alive")
	s.want("alive")
}
