package hub

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestResumeDepth: streams with a cursor that is known are counted by what they were given from the log.
func TestResumeDepth(t *testing.T) {
	n := startNode(t, nil)
	first := n.publish("topic", "a", "data", "0")
	for range 4 {
		n.publish("topic", "a", "data", "1")
		n.publish("topic", "b", "data", "of another topic")
	}
	n.followed(9)                                     // or the rest would come live
	n.subscribe("topic=a")                            // no cursor: no resume
	n.subscribe("topic=a", "Last-Event-ID", "urn:no") // unknown: nothing is replayed
	n.subscribe("topic=a", "Last-Event-ID", first).want("1", "1", "1", "1")
	n.subscribe("topic=a", "Last-Event-ID", "earliest").want("0", "1", "1", "1", "1")
	n.subscribe("topic=c", "Last-Event-ID", first) // missed nothing
	n.stop()
	const want = `
# HELP cinnabar_resume_depth Updates replayed to a stream that was opened with a cursor, before its first live one.
# TYPE cinnabar_resume_depth histogram
cinnabar_resume_depth_bucket{le="0"} 1
cinnabar_resume_depth_bucket{le="1"} 1
cinnabar_resume_depth_bucket{le="3"} 1
cinnabar_resume_depth_bucket{le="10"} 3
cinnabar_resume_depth_bucket{le="30"} 3
cinnabar_resume_depth_bucket{le="100"} 3
cinnabar_resume_depth_bucket{le="300"} 3
cinnabar_resume_depth_bucket{le="1000"} 3
cinnabar_resume_depth_bucket{le="10000"} 3
cinnabar_resume_depth_bucket{le="100000"} 3
cinnabar_resume_depth_bucket{le="+Inf"} 3
cinnabar_resume_depth_sum 9
cinnabar_resume_depth_count 3
`
	if err := testutil.CollectAndCompare(n.metrics.ResumeDepth, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestMatchedEntriesAreCounted: an entry counts once however many select it, and not when nobody does.
func TestMatchedEntriesAreCounted(t *testing.T) {
	n := startNode(t, nil)
	n.publish("topic", "a", "data", "too early")
	n.followed(1)
	one, two := n.subscribe("topic=a"), n.subscribe("topic=*")
	n.publish("topic", "a", "data", "1")
	one.want("1")
	two.want("1")
	_ = two.res.Body.Close()
	n.publish("topic", "a", "topic", "b", "data", "2")
	one.want("2")
	n.stop()
	if got := testutil.ToFloat64(n.metrics.FollowerMatched); got != 2 {
		t.Errorf("%v entries matched", got)
	}
}
