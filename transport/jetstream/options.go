package jetstream

import (
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"time"
)

// Options configures a log. Where it is kept is one of three modes: a server of its own on Dir (standalone),
// a server on Dir that is one of an embedded Cluster, or Servers that are already there. Dir is required
// unless Servers is given, and is not used then; the zero value of everything else is usable.
type Options struct {
	Servers  *Servers // NATS servers that are there already; nil = a server in this process
	Cluster  *Cluster // the server in this process is one of several; nil = it is alone
	Node     string   // this node's name, different on each: letters, digits, _ and -; empty = made from host name and chance; a Cluster needs one
	Replicas int      // copies of the log, 1, 3 or 5; 0 = 3 if there are so many servers with JetStream, else 1, and those of a log that exists
	Follow   Mode     // empty = FollowAuto
	// MaxFilters is how many subjects a follower of what is of interest subscribes to, before it takes wider ones
	// for those of a whole origin; 0 = 20,000 (some 50 MB of memory over the whole cluster).
	MaxFilters int

	Dir          string        // data directory, made if it is missing; one process at a time
	SyncAlways   bool          // every update is synced to the disk before it is acknowledged
	SyncInterval time.Duration // else the disk is synced this often; 0 = 1s. Only a power cut can lose the tail

	MaxMessages int64         // updates retained, 0 = no limit
	MaxBytes    int64         // bytes retained on disk, 0 = no limit
	MaxAge      time.Duration // age of the oldest update, 0 = no limit, else at least 100ms
	MinFree     int64         // bytes to leave free on the disk; 0 = 16 MiB, or an eighth of a disk smaller than 128 MiB. In a Cluster no update is refused for it

	PublishTimeout time.Duration // how long an update is sent again before it is ErrUnavailable; 0 = 10s
	MaxUpdateBytes int64         // an update whose texts have this many bytes always fits, if Servers take it; 0 = 1 MiB, at most 30 MiB
	WindowBytes    int64         // bound of recent history kept in memory for those who resume; 0 = 64 MiB
	NoIDIndex      bool          // publishers' ids are found in recent history only
	MaxIDs         int64         // publishers' ids in the index, oldest forgotten first; 0 = 250,000 (some 56 MB of memory)

	HubURL  *url.URL     // the hub's own URL, against which relative topics are resolved; nodes may differ in it. nil = unknown
	HubPath string       // the path below which the hub publishes, the same on all nodes: these topics share one subject. empty = HubURL's
	Prefix  string       // of stream and subject names: letters, digits, _ and -; empty = "cinnabar"
	Logger  *slog.Logger // nil = discard

	lease leaseTimes // of the directory; zero = defaultLease
}

// Mode says what the follower hears.
type Mode string

// Modes of the follower.
const (
	FollowAuto     Mode = "auto"     // all when the node is alone, else interest
	FollowAll      Mode = "all"      // every update, whether the node has subscribers for it or not
	FollowInterest Mode = "interest" // what the node's subscribers may select
)

// Servers says how to reach NATS servers with JetStream.
type Servers struct {
	URLs     []string // nats://host:port or tls://host:port
	Creds    string   // file of credentials (JWT and seed); empty = none
	User     string   // with Password; empty = none
	Password string
	Token    string // empty = none
	TLSCA    string // PEM file of certificate authorities; empty = the system's
	TLSCert  string // PEM file of a client certificate, with TLSKey; empty = none
	TLSKey   string
}

// Cluster says how the server in this process finds the others. Name the node with Options.Node.
type Cluster struct {
	Listen  string   // host:port where the other nodes connect
	Peers   []string // host:port of every node; this one's own may be among them, and the list may be the same on all nodes
	Secret  string   // that all nodes share
	TLSCert string   // PEM files for mutual TLS between the nodes; all three or none
	TLSKey  string
	TLSCA   string
}

const (
	defaultPrefix         = "cinnabar"
	defaultPublishTimeout = 10 * time.Second
	defaultMaxUpdateBytes = 1 << 20
	defaultMaxFilters     = 20_000
	maxMaxUpdateBytes     = 30 << 20 // twice of it is what nats-server takes at most
	defaultWindowBytes    = 64 << 20
	defaultMaxIDs         = 250_000
	minMaxAge             = 100 * time.Millisecond
	duplicatesWindow      = 30 * time.Second // longer than any PublishTimeout that is not set by hand
)

var (
	validPrefix   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	validReplicas = []int{0, 1, 3, 5}
)

// withDefaults returns o with its zero fields filled in, or an error that names the field.
func (o Options) withDefaults() (Options, error) {
	if err := o.checkPlace(); err != nil {
		return o, err
	}
	if err := o.checkLimits(); err != nil {
		return o, err
	}
	if o.Prefix != "" && !validPrefix.MatchString(o.Prefix) {
		return o, fmt.Errorf("jetstream: Prefix %q is not made of letters, digits, _ and -", o.Prefix)
	}
	if o.mode() == modeExternal {
		o.Dir = ""
	}
	if o.Node == "" {
		o.Node = someNode()
	}
	o.Follow = orElse(o.Follow, FollowAuto)
	o.SyncInterval = orElse(o.SyncInterval, time.Second)
	o.PublishTimeout = orElse(o.PublishTimeout, defaultPublishTimeout)
	o.MaxUpdateBytes = orElse(o.MaxUpdateBytes, defaultMaxUpdateBytes)
	o.WindowBytes = orElse(o.WindowBytes, defaultWindowBytes)
	o.MaxFilters = orElse(o.MaxFilters, defaultMaxFilters)
	o.MaxIDs = orElse(o.MaxIDs, defaultMaxIDs)
	o.Prefix = orElse(o.Prefix, defaultPrefix)
	o.lease = orElse(o.lease, defaultLease)
	o.Logger = orElse(o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}

// checkLimits looks at what is a number.
func (o Options) checkLimits() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"SyncInterval", int64(o.SyncInterval)},
		{"MaxMessages", o.MaxMessages},
		{"MaxBytes", o.MaxBytes},
		{"MaxAge", int64(o.MaxAge)},
		{"MinFree", o.MinFree},
		{"PublishTimeout", int64(o.PublishTimeout)},
		{"MaxUpdateBytes", o.MaxUpdateBytes},
		{"WindowBytes", o.WindowBytes},
		{"MaxIDs", o.MaxIDs},
		{"MaxFilters", int64(o.MaxFilters)},
	} {
		if f.value < 0 {
			return fmt.Errorf("jetstream: %s is negative", f.name)
		}
	}
	if o.MaxAge > 0 && o.MaxAge < minMaxAge {
		return fmt.Errorf("jetstream: MaxAge is %v, at least %v is needed", o.MaxAge, minMaxAge)
	}
	if o.MaxUpdateBytes > maxMaxUpdateBytes {
		return fmt.Errorf("jetstream: MaxUpdateBytes is %d, at most %d is possible", o.MaxUpdateBytes, maxMaxUpdateBytes)
	}
	return nil
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
