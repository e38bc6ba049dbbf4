package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/transport"
)

// Direct gets are answered by any replica, and one that lags does not know of what others have acknowledged. What
// is asked here, the leader answers; or nobody, while there is none.

const (
	msgGetSubject = "$JS.API.STREAM.MSG.GET."
	codeNoMessage = 10037
	// peerSilence is after how long without a sign of life, which replicas give every second, one does not count
	// for a quorum.
	peerSilence = 4 * time.Second
)

// streamInfo is what the servers tell of a stream.
type streamInfo struct {
	Config struct {
		Metadata map[string]string `json:"metadata"`
		Replicas int               `json:"num_replicas"`
		// RePublish is nil when nobody hears of updates but who reads them
		RePublish *struct{} `json:"republish"`
	} `json:"config"`
	State   streamState  `json:"state"`
	Cluster *clusterInfo `json:"cluster"` // nil when the server is alone
}

// streamState is its extent.
type streamState struct {
	Messages uint64            `json:"messages"`
	Bytes    uint64            `json:"bytes"`
	First    uint64            `json:"first_seq"`
	Last     uint64            `json:"last_seq"`
	Subjects map[string]uint64 `json:"subjects"` // messages of each subject, when asked for
}

// clusterInfo is who keeps it.
type clusterInfo struct {
	Leader   string `json:"leader"` // empty when there is none: then any replica answers for itself
	Replicas []struct {
		Offline bool          `json:"offline"`
		Active  time.Duration `json:"active"` // since the leader last heard of it
	} `json:"replicas"`
}

// led reports whether the leader has answered, who knows all that was acknowledged.
func (i streamInfo) led() bool { return i.Cluster == nil || i.Cluster.Leader != "" }

// quorum reports whether enough replicas are there to acknowledge what is appended. A leader that has lost the
// others goes on answering for a while.
func (i streamInfo) quorum() bool {
	if i.Cluster == nil {
		return true
	}
	if i.Cluster.Leader == "" {
		return false
	}
	there := 1
	for _, r := range i.Cluster.Replicas {
		if !r.Offline && r.Active < peerSilence {
			there++
		}
	}
	return 2*there > max(i.Config.Replicas, len(i.Cluster.Replicas)+1)
}

// apiError is how the servers refuse.
type apiError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

// readInfo asks with options in JSON, nil for none.
func (l *Log) readInfo(ctx context.Context, stream string, ask []byte, p patience) (streamInfo, error) {
	msgs, err := l.inbox.ask(ctx, infoSubject+stream, ask, false, p)
	if err != nil {
		return streamInfo{}, err
	}
	var answer struct {
		Error *apiError `json:"error"`
		streamInfo
	}
	if err := json.Unmarshal(msgs[0].Data, &answer); err != nil {
		return streamInfo{}, fmt.Errorf("%w: stream information: %w", transport.ErrUnavailable, err)
	}
	if answer.Error != nil {
		return streamInfo{}, fmt.Errorf("%w: stream information: %s", transport.ErrUnavailable, answer.Error.Description)
	}
	return answer.streamInfo, nil
}

// storedMessage is a message as the leader has it.
type storedMessage struct {
	Sequence uint64 `json:"seq"`
	Header   []byte `json:"hdrs"`
	Data     []byte `json:"data"`
}

// leaderGet reads one message from the leader, and reports whether it is there. An error means that it is not
// known.
func (l *Log) leaderGet(ctx context.Context, stream string, ask []byte, p patience) (storedMessage, bool, error) {
	msgs, err := l.inbox.ask(ctx, msgGetSubject+stream, ask, false, p)
	if err != nil {
		return storedMessage{}, false, err
	}
	var answer struct {
		Error   *apiError     `json:"error"`
		Message storedMessage `json:"message"`
	}
	if err := json.Unmarshal(msgs[0].Data, &answer); err != nil {
		return storedMessage{}, false, fmt.Errorf("%w: read from the leader: %w", transport.ErrUnavailable, err)
	}
	switch {
	case answer.Error == nil:
		return answer.Message, true, nil
	case answer.Error.Code == codeNoMessage:
		return storedMessage{}, false, nil
	default:
		return storedMessage{}, false, fmt.Errorf("%w: read from the leader: %s", transport.ErrUnavailable, answer.Error.Description)
	}
}

// entry decodes it.
func (l *Log) entry(m storedMessage) (transport.Entry, error) {
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return transport.Entry{}, fmt.Errorf("jetstream: position %d: %w", m.Sequence, errEnvelope)
	}
	return decode(l.identity.Load().codec, transport.Position(m.Sequence), header, m.Data)
}
