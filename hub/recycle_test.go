package hub

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A connection whose stream has ended as planned takes the next request, of any kind.
//
// Covers: SUB-27, SUB-37.
func TestConnectionIsServedAfterAPlannedEnd(t *testing.T) {
	n := startNode(t, nil)
	conn, br, head := n.rawStream("HTTP/1.1", "topic=a", 0, "X-Expires", time.Now().Add(300*time.Millisecond).Format(time.RFC3339Nano))
	if got := head.Get("Connection"); got != "keep-alive" {
		t.Fatalf("Connection is %q", got)
	}
	body, err := io.ReadAll(io.LimitReader(br, int64(len("2\r\n:\n\r\n0\r\n\r\n"))))
	if err != nil || !strings.HasSuffix(string(body), "0\r\n\r\n") {
		t.Fatalf("body %q, %v", body, err)
	}
	publish := "topic=a&id=e1&data=x"
	for range 2 {
		fmt.Fprintf(conn, "POST /.well-known/mercure HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", formType, len(publish), publish)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusOK || string(answer) != "e1" {
			t.Fatalf("%d %q", res.StatusCode, answer)
		}
	}
	// … and another stream.
	fmt.Fprint(conn, "GET /.well-known/mercure?topic=a&lastEventID=earliest HTTP/1.1\r\nHost: x\r\n\r\n")
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(res.Body)
	var got []string
	for len(got) < 3 && lines.Scan() {
		got = append(got, lines.Text())
	}
	if want := ": id: e1 data: x"; strings.Join(got, " ") != want {
		t.Errorf("second stream begins %q, want %q", got, want)
	}
}

// Covers: SUB-37.
func TestConnectionIsClosedWhenTheClientAsksForIt(t *testing.T) {
	n := startNode(t, nil)
	_, br, head := n.rawStream("HTTP/1.1", "topic=a", 0, "Connection", "close", "X-Expires", time.Now().Add(300*time.Millisecond).Format(time.RFC3339Nano))
	if got := head.Get("Connection"); got != "close" {
		t.Errorf("Connection is %q", got)
	}
	if body, err := io.ReadAll(br); err != nil || !strings.HasSuffix(string(body), "0\r\n\r\n") {
		t.Errorf("body %q, %v", body, err)
	}
}
