package jetstream

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cinnabar-hub/cinnabar/transport/eventid"
)

// What is kept in the stream's metadata, by its creator alone: every node of a hub must make the same ids.
const (
	metaEpoch = "cinnabar.epoch" // decimal, random: tells a recreated stream from the one before
	metaKey   = "cinnabar.key"   // base64, random: the key of the event ids
)

// identity is what makes the ids of one stream.
type identity struct {
	epoch uint32
	key   string
	codec *eventid.Codec
}

func newMetadata() map[string]string {
	var b [eventid.KeySize + 4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return map[string]string{
		metaEpoch: strconv.FormatUint(uint64(binary.BigEndian.Uint32(b[eventid.KeySize:])>>(32-eventid.EpochBits)), 10),
		metaKey:   base64.StdEncoding.EncodeToString(b[:eventid.KeySize]),
	}
}

func readIdentity(name string, meta map[string]string) (identity, error) {
	if err := restored(meta); err != nil {
		return identity{}, fmt.Errorf("jetstream: stream %q: %w", name, err)
	}
	epoch, err := strconv.ParseUint(meta[metaEpoch], 10, eventid.EpochBits)
	if err != nil {
		return identity{}, fmt.Errorf("jetstream: stream %q is not a hub's: no epoch in its metadata", name)
	}
	key, err := base64.StdEncoding.DecodeString(meta[metaKey])
	if err != nil {
		return identity{}, fmt.Errorf("jetstream: stream %q is not a hub's: no key in its metadata", name)
	}
	codec, err := eventid.New(key, uint32(epoch))
	if err != nil {
		return identity{}, fmt.Errorf("jetstream: stream %q: %w", name, err)
	}
	return identity{epoch: uint32(epoch), key: meta[metaKey], codec: codec}, nil
}

// logConfig is the configuration of a new log; see openStream for what is compared of an existing one.
func logConfig(o Options) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:        o.Prefix,
		Description: "updates of a Mercure hub",
		Subjects:    []string{o.Prefix + ".u.>"},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		Storage:     jetstream.FileStorage,
		Replicas:    o.replicas(),
		AllowDirect: true,
		Metadata:    newMetadata(),
	}
	if o.followMode() == FollowInterest {
		// what it costs, a look-up of the subject's last message at each update, is not spent on followers of all
		c.RePublish = &jetstream.RePublish{Source: o.Prefix + ".u.>", Destination: o.Prefix + ".live.>"}
	}
	setLimits(&c, o)
	c.Duplicates = max(duplicatesWindow, 2*o.PublishTimeout)
	if o.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, o.MaxAge)
	}
	return c
}

// replicas is how many copies a new log is to have.
func (o Options) replicas() int {
	switch {
	case o.Replicas > 0:
		return o.Replicas
	case o.mode() == modeExternal, o.mode() == modeCluster && len(o.Cluster.nodes(o.Node)) >= wantedReplicas:
		return wantedReplicas // of servers that are too few for it, one is asked for then
	default:
		return 1
	}
}

const wantedReplicas = 3

func setLimits(c *jetstream.StreamConfig, o Options) {
	c.MaxMsgs, c.MaxBytes, c.MaxAge = unlimited(o.MaxMessages), unlimited(o.MaxBytes), o.MaxAge
}

// unlimited writes "no limit" as the server does.
func unlimited(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// idsConfig is the configuration of a new id index: one message for each publisher's id, and each may
// outlive its update, so that what has been trimmed is known as trimmed.
func idsConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              idsName(o.Prefix),
		Description:       "positions of publishers' event ids",
		Subjects:          []string{o.Prefix + ".ids.>"},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardOld,
		Storage:           jetstream.FileStorage,
		Replicas:          o.replicas(),
		AllowDirect:       true,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           o.MaxIDs,
		MaxBytes:          -1,
		MaxAge:            idsAge(o.MaxAge),
		Duplicates:        minMaxAge, // nothing is deduplicated here
	}
}

// idsAge is how long an id is known when updates are retained for age.
func idsAge(age time.Duration) time.Duration {
	if age > math.MaxInt64/2 {
		return 0 // for centuries: no limit
	}
	return 2 * age
}

func idsName(prefix string) string { return prefix + "-ids" }
