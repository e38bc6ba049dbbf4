package jetstream

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/eventid"
)

// How an update stands in the stream:
//
//	Cinnabar-Update: {"topics":["https://example.com/a"],"type":"t"}
//	Nats-Msg-Id: nonce
//
//	data, byte for byte
//
// One JSON header, because a header's value loses leading and trailing blanks and topics may have them. The
// store takes 64 KiB of headers; a longer envelope goes before the data, and the header holds its length.
// The nonce serves retries, and its hash is the check value in the hub's event id. It is never the
// publisher's id, which may be used again (PUB-15).
const (
	headerEnvelope = "Cinnabar-Update"
	headerNonce    = nats.MsgIdHdr
	maxHeader      = 48 << 10 // leaves room for the other headers
)

type envelope struct {
	Topics  []string `json:"topics"`
	ID      string   `json:"id,omitempty"`
	Type    string   `json:"type,omitempty"`
	Retry   uint64   `json:"retry,omitempty"`
	Private bool     `json:"private,omitempty"`
}

// newNonce returns 128 random bits.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// encode makes the message for u, without its reply subject.
func encode(subject, nonce string, u *spec.Update) (*nats.Msg, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // topics are full of &
	if err := enc.Encode(envelope{Topics: u.Topics, ID: u.ID, Type: u.Type, Retry: u.Retry, Private: u.Private}); err != nil {
		return nil, fmt.Errorf("jetstream: encode update: %w", err)
	}
	head := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	m := &nats.Msg{Subject: subject, Header: nats.Header{headerNonce: {nonce}}}
	if len(head) <= maxHeader {
		m.Header[headerEnvelope] = []string{string(head)}
		m.Data = []byte(u.Data)
		return m, nil
	}
	m.Header[headerEnvelope] = []string{strconv.Itoa(len(head))}
	m.Data = make([]byte, 0, len(head)+len(u.Data))
	m.Data = append(append(m.Data, head...), u.Data...)
	return m, nil
}

var errEnvelope = errors.New("not an update of a hub")

// decode reads the entry at pos from a stored message. Its event id is the publisher's or made by codec.
func decode(codec *eventid.Codec, pos transport.Position, header nats.Header, data []byte) (transport.Entry, error) {
	var head string
	if v := header[headerEnvelope]; len(v) == 1 {
		head = v[0]
	}
	text := []byte(head)
	if !strings.HasPrefix(head, "{") {
		n, err := strconv.Atoi(head)
		if err != nil || n < 0 || n > len(data) {
			return transport.Entry{}, fmt.Errorf("jetstream: position %d: %w", pos, errEnvelope)
		}
		text, data = data[:n], data[n:]
	}
	var v envelope
	if err := json.Unmarshal(text, &v); err != nil || len(v.Topics) == 0 {
		return transport.Entry{}, fmt.Errorf("jetstream: position %d: %w", pos, errEnvelope)
	}
	u := &spec.Update{Topics: v.Topics, ID: v.ID, Type: v.Type, Retry: v.Retry, Private: v.Private, Data: string(data)}
	if u.ID == "" {
		u.ID = codec.Encode(uint64(pos), eventid.Check(header.Get(headerNonce)))
	}
	return transport.Entry{Pos: pos, Update: u}, nil
}
