package child

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
)

// Subscribe sends a bare HTTP/1.1 subscription and returns the connection, from which nothing was read yet.
func (h *Hub) Subscribe(topic string) *net.TCPConn {
	h.tb.Helper()
	u, err := url.Parse(h.URL)
	if err != nil {
		h.tb.Fatal(err)
	}
	c, err := (&net.Dialer{}).DialContext(h.tb.Context(), "tcp", u.Host)
	if err != nil {
		h.tb.Fatalf("connect to the hub: %v", err)
	}
	h.tb.Cleanup(func() { _ = c.Close() })
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		h.tb.Fatalf("%T is no TCP connection", c)
	}
	_ = tcp.SetReadBuffer(16 << 10)
	request := fmt.Sprintf("GET %s?topic=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", u.Path, url.QueryEscape(topic), u.Host, Token(h.tb))
	if _, err := io.WriteString(c, request); err != nil {
		h.tb.Fatalf("subscribe: %v", err)
	}
	return tcp
}

// stalledBytes is more than the kernel keeps for a connection that nobody reads.
const stalledBytes = 24 << 20

// Stall subscribes and takes nothing, while more is published than the kernel's buffers hold.
func (h *Hub) Stall(topic string) *net.TCPConn {
	h.tb.Helper()
	c := h.Subscribe(topic)
	head := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 200" {
		h.tb.Fatalf("subscribe: %q, %v", head, err)
	}
	block := strings.Repeat("x", 800<<10)
	for range stalledBytes / len(block) {
		h.Must(topic, block)
	}
	return c
}
