package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

func publishCases() []Case {
	return []Case{
		{"publish/form-post", []string{"PUB-01", "PUB-13", "PUB-22"}, "POST of a form answers 200 and the id, nothing else.", publishForm, OfEach},
		{"publish/media-type", []string{"PUB-02"}, "Another media type is refused; parameters and case do not matter.", publishMediaType, OfEach},
		{"publish/body-is-whatwg", []string{"PUB-03", "X-06"}, "The body is read with the WHATWG parser.", publishWHATWG, OfEach},
		{"publish/topic-required", []string{"PUB-04"}, "A publication without a topic is refused.", publishNoTopic, OfEach},
		{"publish/alternates", []string{"PUB-04", "PUB-05", "SEC-05"}, "Subscribers of any of the topics get the update, once.", publishAlternates, OfEach},
		{"publish/reserved-namespace", []string{"PUB-07", "PUB-08", "PUB-09", "G-11", "SEC-02", "X-10"}, "No topic may lie below the hub's path; plain words and fragments are free.", publishReserved, OfEach},
		{"publish/wildcard-topic", []string{"PUB-10", "MAT-17"}, "The topic * is refused.", publishWildcard, OfEach},
		{"publish/stored-before-200", []string{"PUB-24"}, "An update whose publisher was told 200 is there for everybody who comes after.", publishStored, OfEach},
		{"publish/publisher-leaves", []string{"PUB-25"}, "A publisher that leaves once its request is sent has published.", publishLeaves, OfEach},
		{"publish/every-topic-granted", []string{"PUB-27", "PUB-30", "CLA-11", "G-14"}, "Without a grant for each topic nothing is dispatched.", publishGranted, OfEach},
		{"publish/order-of-checks", []string{"PUB-28"}, "Size comes before the token, the token before the form, the form before the grant.", publishOrder, OfEach},
		{"publish/query-is-no-form", []string{"PUB-04", "PUB-11"}, "Fields in the URL of a publication do not count.", publishQuery, OfEach},
	}
}

var generatedID = regexp.MustCompile(`^(#.|[A-Za-z][A-Za-z0-9+.-]*:.)`)

func publishForm(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	seen := map[string]bool{}
	for range 3 {
		a := p.post(ctx, bearer(p.publisher(topic)), "topic", topic, "data", "x")
		if !p.wantStatus(a, http.StatusOK, "publish") {
			return
		}
		if ct := a.header.Get("Content-Type"); !strings.EqualFold(ct, "text/plain; charset=utf-8") {
			p.Errorf("Content-Type: %q, want text/plain; charset=utf-8", ct)
		}
		if !generatedID.MatchString(a.body) || strings.TrimSpace(a.body) != a.body {
			p.Errorf("the body %q is not just an IRI or a fragment", a.body)
		}
		if e := s.next(); e.id != a.body {
			p.Errorf("the stream's id is %q, the publisher was told %q", e.id, a.body)
		}
		if seen[a.body] {
			p.Errorf("the id %q was made twice", a.body)
		}
		seen[a.body] = true
	}
}

// refuse sends a publication that must be refused with the status and must not reach anyone.
func (p *Probe) refuse(ctx context.Context, s *stream, topic string, want int, what string, send func() answer) answer {
	a := send()
	p.wantStatus(a, want, "%s", what)
	p.publish(ctx, "topic", topic, "data", "sentinel")
	if e := s.next(); e.data != "sentinel" {
		p.Errorf("%s: it was dispatched: %.200q", what, e.raw)
		s.next()
	}
	return a
}

func publishMediaType(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for ct, body := range map[string]string{
		"application/json":                      `{"topic":"` + topic + `","data":"x"}`,
		"text/plain":                            form("topic", topic, "data", "x"),
		"multipart/form-data; boundary=b":       "--b\r\nContent-Disposition: form-data; name=\"topic\"\r\n\r\n" + topic + "\r\n--b--\r\n",
		"application/x-www-form-urlencoded+xml": form("topic", topic),
	} {
		p.refuse(ctx, s, topic, http.StatusUnsupportedMediaType, ct, func() answer {
			h := bearer(p.publisher("*"))
			h.Set("Content-Type", ct)
			return p.do(ctx, http.MethodPost, "", h, body)
		})
	}
	for _, ct := range []string{"application/x-www-form-urlencoded; charset=UTF-8", "Application/X-WWW-Form-Urlencoded", "application/x-www-form-urlencoded;charset=utf-8"} {
		h := bearer(p.publisher("*"))
		h.Set("Content-Type", ct)
		p.wantStatus(p.do(ctx, http.MethodPost, "", h, form("topic", topic, "data", ct)), http.StatusOK, "%s", ct)
		s.want(ct)
	}
}

func publishWHATWG(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for raw, want := range map[string]string{
		"data=a;b": "a;b", "data=100%": "100%", "data=%zz": "%zz", "data=%4": "%4", "data=a+b": "a b", "data=a%2Bb": "a+b",
		"data=a=b": "a=b", "data": "", "data=": "", "&&data=x&": "x", "a;data=no&data=yes": "yes", "d%61ta=x": "x", "data=é": "é",
	} {
		a := p.postRaw(ctx, bearer(p.publisher("*")), "topic="+url.QueryEscape(topic)+"&"+raw)
		if p.wantStatus(a, http.StatusOK, "body …&%s", raw) {
			if e := s.next(); e.data != want {
				p.Errorf("body …&%s: data %q, want %q", raw, e.data, want)
			}
		}
	}
}

func publishNoTopic(ctx context.Context, p *Probe) {
	for _, body := range []string{"", "data=x", "Topic=a&data=x", "topics=a", "topic=", "topic", "topic%00=a"} {
		a := p.postRaw(ctx, bearer(p.publisher("*")), body)
		if p.wantStatus(a, http.StatusBadRequest, "body %q", body) && !strings.Contains(a.body, "topic") {
			p.Errorf("body %q: the answer %.200q does not name the field", body, a.body)
		}
	}
}

func publishAlternates(ctx context.Context, p *Probe) {
	a, b, c := p.topic("a"), p.topic("b"), p.topic("c")
	one, other := p.listen(ctx, a), p.listen(ctx, c, b)
	onlyB := p.subscribe(ctx, p.topics(a), bearer(p.subscriber(b)))
	p.publish(ctx, "topic", a, "topic", b, "topic", c, "data", "x", "private", "1")
	p.publish(ctx, "topic", b, "data", "y")
	p.publish(ctx, "topic", a, "data", "z")
	one.want("x", "z")
	other.want("x", "y")
	onlyB.want("x", "z") // the audience of a private update is that of any of its topics
}

func publishReserved(ctx context.Context, p *Probe) {
	u, _ := url.Parse(p.URL)
	path := u.Path
	dir, word := path[:strings.LastIndex(path, "/")+1], path[strings.LastIndex(path, "/")+1:]
	for _, topic := range []string{
		path + "/subscriptions/x", path + "/subscriptions/a/b", path + "/x", p.URL + "/subscriptions/x", "https://any.example" + path + "/x",
		"//any.example" + path + "/x", dir + "x/../" + word + "/y", dir + "./" + word + "/y", strings.ReplaceAll(path, "/", `\`) + `\x`,
		dir + fmt.Sprintf("%%%02X", word[0]) + word[1:] + "/x", dir + fmt.Sprintf("%%%02x", word[0]) + word[1:] + "/x", path + "/x?y#z", word + "/x",
	} {
		p.wantStatus(p.post(ctx, bearer(p.publisher("*")), "topic", topic), http.StatusBadRequest, "the topic %s", topic)
		p.wantStatus(p.post(ctx, bearer(p.publisher("*")), "topic", p.topic("a"), "topic", topic), http.StatusBadRequest, "the alternate topic %s", topic)
	}
	plain := []string{"#" + p.nonce, "?" + p.nonce, word, "#general"} // each of which resolves to the hub's URL (PUB-08, G-11)
	free := []string{path + "s/" + p.nonce, "/" + p.nonce + path + "/x", "http://["}
	if p.gen == draft08 {
		for _, topic := range append(plain, path, p.URL, "https://any.example"+path) {
			p.wantStatus(p.post(ctx, bearer(p.publisher("*")), "topic", topic), http.StatusBadRequest, "the topic %s", topic)
		}
		plain = nil
	}
	for _, topic := range append(plain, free...) {
		s := p.listen(ctx, topic)
		data := p.nonce + topic
		if p.wantStatus(p.post(ctx, bearer(p.publisher("*")), "topic", topic, "data", data), http.StatusOK, "the topic %s", topic) {
			for s.next().data != data { // another run may use the same plain word
				continue
			}
		}
		s.Close()
	}
}

func publishWildcard(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for _, kv := range [][]string{{"topic", "*"}, {"topic", topic, "topic", "*"}} {
		p.refuse(ctx, s, topic, http.StatusBadRequest, fmt.Sprint(kv), func() answer {
			return p.post(ctx, bearer(p.publisher("*")), append(kv, "data", "x")...)
		})
	}
}

func publishStored(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	last := p.publish(ctx, "topic", topic, "data", "0")
	for i := range 5 {
		data := fmt.Sprint(i + 1)
		id := p.publish(ctx, "topic", topic, "data", data)
		s := p.subscribe(ctx, p.topics(topic)+"&"+p.gen.cursor+"="+url.QueryEscape(last), bearer(p.subscriber()))
		if e := s.next(); e.data != data || e.id != id {
			p.Errorf("after 200 the log has %q %q, want %q %q", e.id, e.data, id, data)
		}
		s.Close()
		last = id
	}
}

func publishLeaves(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	for i := range 5 {
		body := form("topic", topic, "data", fmt.Sprint("left ", i))
		c := p.dial(ctx)
		c.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
			c.path, c.host, p.publisher("*"), len(body), body))
		_ = c.Close()
		s.want(fmt.Sprint("left ", i))
	}
	// Half a request is none.
	c := p.dial(ctx)
	half := form("topic", topic, "data", "half")
	c.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
		c.path, c.host, p.publisher("*"), len(half)+10, half))
	_ = c.Close()
	p.publish(ctx, "topic", topic, "data", "whole")
	s.want("whole")
}

func publishGranted(ctx context.Context, p *Probe) {
	mine, other := p.topic("mine"), p.topic("other")
	s := p.listen(ctx, mine, other)
	narrow := p.publisher(p.topic("mine"), p.anyBelow(p.topic("m/")))
	for what, kv := range map[string][]string{
		"another topic":    {"topic", other},
		"the alternate":    {"topic", mine, "topic", other},
		"the canonical":    {"topic", other, "topic", mine},
		"private":          {"topic", mine, "topic", other, "private", "on"},
		"beyond a pattern": {"topic", p.topic("m/1/2")},
	} {
		p.refuse(ctx, s, mine, http.StatusForbidden, what, func() answer { return p.post(ctx, bearer(narrow), append(kv, "data", "x")...) })
	}
	p.wantStatus(p.post(ctx, bearer(narrow), "topic", mine, "topic", p.topic("m/1"), "data", "granted"), http.StatusOK, "topics that are granted")
	s.want("granted")
}

func publishOrder(ctx context.Context, p *Probe) {
	u, _ := url.Parse(p.URL)
	reserved := u.Path + "/subscriptions/x"
	narrow := bearer(p.publisher(p.topic("mine")))
	big := strings.Repeat("x", 1<<20)
	p.wantStatus(p.tooBig(ctx, nil, "topic", p.topic("a"), "data", big), http.StatusRequestEntityTooLarge, "too big, and no token")
	p.wantStatus(p.post(ctx, nil, "data", "no topic"), http.StatusUnauthorized, "no token and no topic")
	p.wantStatus(p.post(ctx, bearer("a.b.c"), "topic", reserved), http.StatusUnauthorized, "a bad token and a reserved topic")
	p.wantStatus(p.post(ctx, narrow, "data", "no topic"), http.StatusBadRequest, "no topic and no grant")
	p.wantStatus(p.post(ctx, narrow, "topic", reserved), http.StatusBadRequest, "a reserved topic and no grant")
	p.wantStatus(p.post(ctx, narrow, "topic", p.topic("other"), "retry", "x"), http.StatusBadRequest, "a bad field and no grant")
	p.wantStatus(p.post(ctx, narrow, "topic", p.topic("other")), http.StatusForbidden, "no grant")
}

func publishQuery(ctx context.Context, p *Probe) {
	topic := p.topic("a")
	s := p.listen(ctx, topic)
	h := bearer(p.publisher("*"))
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	query := "?" + form("topic", topic, "data", "from the URL", "private", "on", "id", p.nonce)
	p.refuse(ctx, s, topic, http.StatusBadRequest, "all fields in the URL", func() answer { return p.do(ctx, http.MethodPost, query, h, "") })
	public := p.subscribe(ctx, p.topics(topic), bearer(p.subscriber()))
	p.wantStatus(p.do(ctx, http.MethodPost, query, h, form("topic", topic, "data", "from the body")), http.StatusOK, "a whole body")
	if e := public.next(); e.data != "from the body" || e.id == p.nonce {
		p.Errorf("got %q, want what the body says", e.raw)
	}
}
