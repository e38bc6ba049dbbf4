package conformance

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// conn is a bare connection to the hub, for what an HTTP library hides.
type conn struct {
	net.Conn
	p    *Probe
	br   *bufio.Reader
	host string
	path string
}

// headOf is the head of a response as it stood on the wire.
type headOf struct {
	proto  string
	status int
	header http.Header
	raw    string
}

// dial connects with HTTP/1.1 in mind.
func (p *Probe) dial(ctx context.Context) *conn {
	u, err := url.Parse(p.URL)
	if err != nil {
		p.Fatalf("%v", err)
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	var c net.Conn
	d := &net.Dialer{Timeout: p.Wait}
	if u.Scheme == "https" {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12}
		if tr, ok := p.HTTP.Transport.(*http.Transport); ok && tr.TLSClientConfig != nil {
			cfg = tr.TLSClientConfig.Clone()
		}
		cfg.NextProtos = []string{"http/1.1"}
		c, err = (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext(ctx, "tcp", addr)
	} else {
		c, err = d.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		p.Fatalf("connect to %s: %v", addr, err)
	}
	p.closers = append(p.closers, func() { _ = c.Close() })
	_ = c.SetDeadline(p.within())
	return &conn{Conn: c, p: p, br: bufio.NewReaderSize(c, 4<<10), host: u.Host, path: u.EscapedPath()}
}

// target is the hub's path with a query.
func (c *conn) target(query string) string { return c.path + query }

func (c *conn) send(s string) {
	_ = c.SetDeadline(c.p.within())
	if _, err := io.WriteString(c, s); err != nil {
		c.p.Fatalf("send: %v", err)
	}
}

// readHead reads a response's head, and nothing of its body.
func (c *conn) readHead() headOf {
	var h headOf
	var b strings.Builder
	for {
		line, err := c.br.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			c.p.Fatalf("read a response head: %v, after %.200q", err, b.String())
		}
		if line == "\r\n" {
			break
		}
	}
	h.raw = b.String()
	first, rest, _ := strings.Cut(h.raw, "\r\n")
	proto, status, _ := strings.Cut(first, " ")
	h.proto = proto
	h.status, _ = strconv.Atoi(status[:min(3, len(status))])
	fields, err := textproto.NewReader(bufio.NewReader(strings.NewReader(rest))).ReadMIMEHeader()
	if err != nil {
		c.p.Fatalf("a response head that is none: %v in %.300q", err, h.raw)
	}
	h.header = http.Header(fields)
	return h
}

// ask sends one request, "METHOD target" first and header lines after it, and reads the head of the answer.
func (c *conn) ask(request string, lines ...string) headOf {
	all := append([]string{request, "Host: " + c.host}, lines...)
	c.send(strings.Join(all, "\r\n") + "\r\n\r\n")
	return c.readHead()
}

// readFor reads what comes until the deadline, the end, or n bytes.
func (c *conn) readFor(d time.Duration, n int) string {
	_ = c.SetReadDeadline(time.Now().Add(d))
	b, _ := io.ReadAll(io.LimitReader(c.br, int64(n)))
	return string(b)
}
