package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

func publishFieldCases() []Case {
	return []Case{
		{"publish/topic-characters", []string{"PUB-06"}, "A topic is non-empty text without control and format characters.", fieldTopic, OfEach},
		{"publish/private", []string{"PUB-11", "CLA-02"}, "The name private alone makes an update private.", fieldPrivate, OfEach},
		{"publish/id", []string{"PUB-12", "SSE-W7", "G-13"}, "An id that a header could not carry, or that is reserved, is refused.", fieldID, OfEach},
		{"publish/id-kept", []string{"PUB-14"}, "A publisher's id is kept.", fieldIDKept, OfEach},
		{"publish/id-reused", []string{"PUB-15"}, "A reused id is delivered again.", fieldIDReused, OfEach},
		{"publish/type", []string{"PUB-16", "PUB-17", "SSE-W7", "G-12", "G-13", "SEC-02"}, "A type with control characters, or the reserved one, is refused.", fieldType, OfEach},
		{"publish/retry", []string{"PUB-18", "SSE-W7"}, "retry is ASCII digits that fit 64 bits; empty and 0 are nothing.", fieldRetry, OfEach},
		{"publish/data", []string{"PUB-19", "SEC-14"}, "data is any UTF-8, or absent.", fieldData, OfEach},
		{"publish/unknown-fields", []string{"PUB-20"}, "Unknown fields are ignored.", fieldUnknown, OfEach},
		{"publish/first-value-wins", []string{"PUB-21"}, "Of a repeated field the first value counts.", fieldRepeated, OfEach},
		{"publish/target", []string{"S15"}, "An update with targets, which are not supported, is refused instead of being shown to everybody.", fieldTarget, OfClassic},
	}
}

// refuseRaw publishes a topic and more, already encoded, which must be refused with 400.
func (p *Probe) refuseRaw(ctx context.Context, s *stream, topic, more string) {
	p.refuse(ctx, s, topic, http.StatusBadRequest, more, func() answer {
		return p.postRaw(ctx, bearer(p.publisher("*")), "topic="+url.QueryEscape(topic)+"&data=x&"+more)
	})
}

func fieldTopic(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	p.refuseRaw(ctx, s, topic, "topic=")
	for _, bad := range badText {
		p.refuseRaw(ctx, s, topic, "topic="+url.QueryEscape(p.topic("b"))+bad+"c")
	}
	for _, good := range []string{" ", "é", "日本/🚀", `"<>\^{}|`, "a b", "100%", "a%2Fb", "a&b=c#d"} {
		t := p.topic(good)
		g := p.subscribe(ctx, p.topics(t), bearer(p.subscriber(t)))
		p.publish(ctx, "topic", t, "data", good, "private", "on")
		g.want(good)
		g.Close()
	}
}

func fieldPrivate(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	granted := p.subscribe(ctx, p.topics(topic), bearer(p.subscriber(topic)))
	public := p.subscribe(ctx, p.topics(topic), bearer(p.subscriber()))
	for _, private := range []string{"private=on", "private=", "private", "private=off", "private=0", "private=false", "%70rivate=x"} {
		a := p.postRaw(ctx, bearer(p.publisher("*")), form("topic", topic, "data", private)+"&"+private)
		p.wantStatus(a, http.StatusOK, "%s", private)
		granted.want(private)
	}
	for _, other := range []string{"Private=on", "privat=on", "data=private"} {
		a := p.postRaw(ctx, bearer(p.publisher("*")), form("topic", topic, "data", other)+"&"+other)
		p.wantStatus(a, http.StatusOK, "%s", other)
		if e := public.next(); e.data != other {
			p.Errorf("a subscriber without a grant got %q, want %q", e.data, other)
		}
	}
}

func fieldID(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, bad := range badText {
		p.refuseRaw(ctx, s, topic, "id=a"+bad+"b")
	}
	for _, bad := range []string{"#a", "#", "earliest", " a", "a ", "  "} {
		p.refuseRaw(ctx, s, topic, form("id", bad))
	}
	p.refuseRaw(ctx, s, topic, form("id", "x\nevent: evil"))
	p.refuseRaw(ctx, s, topic, form("id", "x\r\rdata: evil\r\r"))
}

func fieldIDKept(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, id := range []string{"urn:x:1", "1", "a b", "é-日本", "Earliest", "a#b", strings.Repeat("i", 1024), `"quoted" \ , ;`, "100%"} {
		id = p.nonce + id
		if len(id) > 1024 {
			id = id[:1024]
		}
		a := p.post(ctx, bearer(p.publisher("*")), "topic", topic, "data", "x", "id", id)
		if !p.wantStatus(a, http.StatusOK, "id %.40q", id) {
			continue
		}
		if e := s.next(); e.id != id || a.body != id {
			p.Errorf("id %.40q: the publisher was told %.40q, the subscriber %.40q", id, a.body, e.id)
		}
	}
	a := p.post(ctx, bearer(p.publisher("*")), "topic", topic, "data", "x", "id", "")
	if !generatedID.MatchString(a.body) {
		p.Errorf("an empty id: status %d, body %q, want an id made by the hub", a.status, a.body)
	}
}

func fieldIDReused(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for i := range 3 {
		p.publish(ctx, "topic", topic, "data", fmt.Sprint(i), "id", p.nonce)
	}
	for _, e := range s.want("0", "1", "2") {
		if e.id != p.nonce {
			p.Errorf("id %q, want %q", e.id, p.nonce)
		}
	}
}

func fieldType(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, bad := range badText {
		p.refuseRaw(ctx, s, topic, "type=a"+bad+"b")
	}
	p.refuseRaw(ctx, s, topic, "type=mercure")
	p.refuseRaw(ctx, s, topic, form("type", "x\ndata: evil"))
	for _, good := range []string{"a", "évt", "Mercure", "mercure2", "a b:c", "message"} {
		p.publish(ctx, "topic", topic, "data", good, "type", good)
		if e := s.want(good)[0]; e.typ != good {
			p.Errorf("type %q arrived as %q", good, e.typ)
		}
	}
	p.publish(ctx, "topic", topic, "data", "none", "type", "")
	if e := s.want("none")[0]; strings.Contains(e.raw, "event:") {
		p.Errorf("an empty type made %q", e.raw)
	}
}

func fieldRetry(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, bad := range []string{
		"abc", "-1", "+1", "1.5", "5000abc", "1e3", " 1", "1 ", "0x10", "1_000", "١", "１", "1\n", "18446744073709551616", "99999999999999999999999",
	} {
		p.refuseRaw(ctx, s, topic, form("retry", bad))
	}
	for in, want := range map[string]string{"": "", "0": "", "00": "", "1500": "1500", "18446744073709551615": "18446744073709551615"} {
		p.publish(ctx, "topic", topic, "data", "r"+in, "retry", in)
		if e := s.want("r" + in)[0]; e.retry != want || (want == "" && strings.Contains(e.raw, "retry")) {
			p.Errorf("retry=%s made %q, want the retry %q", in, e.raw, want)
		}
	}
}

func fieldData(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, bad := range []string{"%FF", "%C3%28", "%ED%A0%80", "%C0%80"} {
		p.refuse(ctx, s, topic, http.StatusBadRequest, bad, func() answer {
			return p.postRaw(ctx, bearer(p.publisher("*")), "topic="+url.QueryEscape(topic)+"&data=a"+bad)
		})
	}
	jwe := "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.OKOawDo13gRp2ojaHV7LFpZ.48V1_ALb6US04U3b.5eym8TW_c8SuK0ltJ3rpYIzOeDQz7TALvtu6UG9oMo4vpzs9tX_EFShS8iB7j6ji.XFBoMYUZodetZdvTiFvSkQ"
	for _, data := range []string{"x", "\x00\x01\x7f", "\u0085\u202e\ufeff", `{"a":[1,2]}`, "\ufeffbom", "🚀", jwe} {
		p.publish(ctx, "topic", topic, "data", data)
		s.want(data)
	}
	p.publish(ctx, "topic", topic)
	s.want("")
}

func fieldUnknown(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	p.publish(ctx, "foo", "bar", "topic", topic, "data", "x", "event", "evil", "Type", "evil", "match", "y", "lastEventID", "z", "\x01", "\x02")
	if e := s.want("x")[0]; e.typ != "" {
		p.Errorf("an unknown field made the type %q", e.typ)
	}
}

func fieldRepeated(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	id := p.publish(ctx, "topic", topic, "data", "first", "data", "second", "id", p.nonce, "id", "second",
		"type", "first", "type", "second", "retry", "1", "retry", "2")
	e := s.next()
	if e.data != "first" || e.id != p.nonce || e.typ != "first" || e.retry != "1" || id != p.nonce {
		p.Errorf("got %q (the publisher was told %q), want the first values", e.raw, id)
	}
}

func fieldTarget(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, target := range []string{"target=https%3A%2F%2Fexample.com%2Fgroup", "target=", "target", "private=on&target=x"} {
		p.refuseRaw(ctx, s, topic, target)
	}
}
