package hub

import (
	"runtime"
	"strings"
	"testing"
)

// A stream that keeps its handler's goroutine waits where nothing of the way through the wrappers is on the stack.
func TestStreamsWaitAtTheSurface(t *testing.T) {
	n := startNode(t, nil)
	n.noHijack = true
	conn, _, _ := n.rawStream("HTTP/1.1", "topic=a", 64<<10)
	defer func() { _ = conn.Close() }()
	eventually(t, "a stream that waits", func() bool {
		all := make([]byte, 1<<20)
		for one := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
			if strings.Contains(one, ".(*consumer).run(") && !strings.Contains(one, "recoverPanics") && !strings.Contains(one, "aside(") {
				return true
			}
		}
		return false
	})
}

func TestAsidePanicsInTheCaller(t *testing.T) {
	defer func() {
		if v := recover(); v != "a defect" {
			t.Errorf("recovered %v", v)
		}
	}()
	aside(func() { panic("a defect") })
}
