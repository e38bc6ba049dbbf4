package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec/client"
)

const maxHead = 64 << 10

var errHead = errors.New("the head of the answer is longer than 64 KiB")

// dial connects to e, from source if that is valid, and has answerPatience for it.
func (e *endpoint) dial(ctx context.Context, source netip.Addr) (net.Conn, error) {
	d := net.Dialer{Timeout: answerPatience, KeepAlive: -1}
	if source.IsValid() {
		d.LocalAddr = &net.TCPAddr{IP: source.AsSlice()}
	}
	c, err := d.DialContext(ctx, "tcp", e.address)
	if err != nil || e.tls == nil {
		return c, err
	}
	t := tls.Client(c, e.tls)
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return t, nil
}

// failed wraps err with what was being done, in the shape that net/http gives it.
func (e *endpoint) failed(op string, err error) error {
	return &url.Error{Op: op, URL: bare(e.url), Err: err}
}

// head is what comes before an answer's body.
type head struct {
	status  int
	header  http.Header
	chunked bool
	length  int64 // of the body, -1 = not known
}

// readHead reads the head of the answer to a GET, whose body is still to come from the connection, after rest.
// Reading by hand keeps the connection to the one buffer that the decoder of events has anyway.
func readHead(c net.Conn) (h head, rest []byte, err error) {
	b := make([]byte, 0, 1<<10)
	for {
		if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 {
			r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b[:i+4])), nil)
			if err != nil {
				return head{}, nil, err
			}
			_ = r.Body.Close() // which is not here
			b = b[i+4:]
			if r.StatusCode >= http.StatusOK {
				return head{r.StatusCode, r.Header, len(r.TransferEncoding) > 0, r.ContentLength}, bytes.Clone(b), nil
			}
			continue // a 1xx comes before the answer
		}
		if len(b) > maxHead {
			return head{}, nil, errHead
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := c.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil && n == 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return head{}, nil, err
		}
	}
}

// refusal is the error of an answer that is not the one asked for. It reads some of the body.
func refusal(h head, body io.Reader) error {
	e := &client.Error{Status: h.status}
	text := make([]byte, 1<<10)
	if h.length >= 0 {
		text = text[:min(h.length, int64(len(text)))]
	}
	n, _ := io.ReadFull(body, text)
	if strings.HasPrefix(h.header.Get("Content-Type"), "text/plain") {
		words := strings.Join(strings.Fields(string(text[:n])), " ")
		e.Detail = strings.TrimPrefix(strings.Trim(fmt.Sprintf("%q", words), `"`), http.StatusText(e.Status)+": ")
	}
	return e
}

// body is an answer's body: it takes the chunked framing off in the reader's own buffer.
type body struct {
	conn    net.Conn
	rest    []byte // read along with the head
	chunked bool
	part    part
	left    int64
}

// part is the part of the framing that the next byte belongs to.
type part uint8

const (
	chunkSize part = iota
	chunkExtension
	chunkData
	chunkBreak // after the data
	chunkEnd   // trailers, which are not read
)

func (b *body) Read(p []byte) (n int, err error) {
	for {
		if b.part == chunkEnd { // the connection may stay open
			return 0, io.EOF
		}
		if len(b.rest) > 0 {
			n = copy(p, b.rest)
			if b.rest = b.rest[n:]; len(b.rest) == 0 {
				b.rest = nil
			}
		} else if n, err = b.conn.Read(p); n == 0 {
			return 0, err
		}
		if b.chunked {
			n = b.strip(p[:n])
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// strip moves the content in p to its start and returns how much it is.
func (b *body) strip(p []byte) int {
	n := 0
	for i := 0; i < len(p) && b.part != chunkEnd; {
		if b.part == chunkData {
			k := int(min(int64(len(p)-i), b.left))
			n += copy(p[n:], p[i:i+k])
			i += k
			if b.left -= int64(k); b.left == 0 {
				b.part = chunkBreak
			}
			continue
		}
		b.frame(p[i])
		i++
	}
	return n
}

// frame takes one byte that is not content.
func (b *body) frame(c byte) {
	switch {
	case c == '\n' && b.part == chunkBreak:
		b.part = chunkSize
	case c == '\n' && b.left == 0:
		b.part = chunkEnd
	case c == '\n':
		b.part = chunkData
	case b.part != chunkSize || c == '\r':
	case c == ';' || c == ' ':
		b.part = chunkExtension
	default:
		b.left = b.left<<4 | int64(hexDigit(c))
		if b.left > 1<<40 || hexDigit(c) < 0 {
			b.part, b.left = chunkEnd, 0 // nonsense ends the stream
		}
	}
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// patience gives everything on c time until then.
func patience(c net.Conn, d time.Duration) error {
	if d == 0 {
		return c.SetDeadline(time.Time{})
	}
	return c.SetDeadline(time.Now().Add(d))
}
