package jetstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"time"
)

// Options configures a log. Dir is required; the zero value of everything else is usable.
type Options struct {
	Dir          string        // data directory, made if it is missing; one process at a time
	SyncAlways   bool          // every update is synced to the disk before it is acknowledged
	SyncInterval time.Duration // else the disk is synced this often; 0 = 1s. Only a power cut can lose the tail

	MaxMessages int64         // updates retained, 0 = no limit
	MaxBytes    int64         // bytes retained on disk, 0 = no limit
	MaxAge      time.Duration // age of the oldest update, 0 = no limit, else at least 100ms
	MinFree     int64         // bytes to leave free on the disk; 0 = 16 MiB, or an eighth of a disk smaller than 128 MiB

	PublishTimeout time.Duration // how long an update is sent again before it is ErrUnavailable; 0 = 10s
	MaxUpdateBytes int64         // an update whose texts have this many bytes always fits; 0 = 1 MiB, at most 30 MiB
	WindowBytes    int64         // bound of recent history kept in memory for those who resume; 0 = 64 MiB
	NoIDIndex      bool          // publishers' ids are found in recent history only
	MaxIDs         int64         // publishers' ids in the index, oldest forgotten first; 0 = 250,000 (some 56 MB of memory)

	HubURL *url.URL     // the hub's own URL; topics below it share one subject. nil = no topic is below it
	Prefix string       // of stream and subject names: letters, digits, _ and -; empty = "cinnabar"
	Logger *slog.Logger // nil = discard
}

const (
	defaultPrefix         = "cinnabar"
	defaultPublishTimeout = 10 * time.Second
	defaultMaxUpdateBytes = 1 << 20
	maxMaxUpdateBytes     = 30 << 20 // twice of it is what nats-server takes at most
	defaultWindowBytes    = 64 << 20
	defaultMaxIDs         = 250_000
	minMaxAge             = 100 * time.Millisecond
	duplicatesWindow      = 30 * time.Second // longer than any PublishTimeout that is not set by hand
)

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// withDefaults returns o with its zero fields filled in, or an error that names the field.
func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("jetstream: no data directory")
	}
	for name, v := range map[string]int64{
		"SyncInterval": int64(o.SyncInterval), "MaxMessages": o.MaxMessages, "MaxBytes": o.MaxBytes, "MaxAge": int64(o.MaxAge),
		"MinFree": o.MinFree, "PublishTimeout": int64(o.PublishTimeout), "MaxUpdateBytes": o.MaxUpdateBytes,
		"WindowBytes": o.WindowBytes, "MaxIDs": o.MaxIDs,
	} {
		if v < 0 {
			return o, fmt.Errorf("jetstream: %s is negative", name)
		}
	}
	if o.MaxAge > 0 && o.MaxAge < minMaxAge {
		return o, fmt.Errorf("jetstream: MaxAge is %v, at least %v is needed", o.MaxAge, minMaxAge)
	}
	if o.MaxUpdateBytes > maxMaxUpdateBytes {
		return o, fmt.Errorf("jetstream: MaxUpdateBytes is %d, at most %d is possible", o.MaxUpdateBytes, maxMaxUpdateBytes)
	}
	if o.Prefix != "" && !validPrefix.MatchString(o.Prefix) {
		return o, fmt.Errorf("jetstream: prefix %q is not made of letters, digits, _ and -", o.Prefix)
	}
	o.SyncInterval = orElse(o.SyncInterval, time.Second)
	o.PublishTimeout = orElse(o.PublishTimeout, defaultPublishTimeout)
	o.MaxUpdateBytes = orElse(o.MaxUpdateBytes, defaultMaxUpdateBytes)
	o.WindowBytes = orElse(o.WindowBytes, defaultWindowBytes)
	o.MaxIDs = orElse(o.MaxIDs, defaultMaxIDs)
	o.Prefix = orElse(o.Prefix, defaultPrefix)
	o.Logger = orElse(o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}

// orElse returns v, or def if v is the zero value.
func orElse[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// maxPayload is the server's limit on a message. Quotes and backslashes in topics, id and type double in
// the envelope; headers need some room.
func (o Options) maxPayload() int32 { return int32(2*o.MaxUpdateBytes + 64<<10) } //nolint:gosec // bounded by withDefaults
