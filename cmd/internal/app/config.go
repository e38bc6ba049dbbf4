package app

import (
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/cinnabar-hub/cinnabar/auth"
	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/transport/jetstream"
)

// Config is everything `serve` can be told. Default gives the defaults, Bind makes the flags, and the
// flag set made by Bind is the schema of the environment and of the file too (see sources.go).
type Config struct {
	Dev        bool
	ConfigFile string

	Listen         string
	ListenUnset    bool   // Listen is the default: sockets that a service manager passed come before it
	AdminListen    string // empty = none
	HubPath        string
	PublicURL      *url.URL // nil = none
	PublicOrigins  []string // nil = any
	TLSCert        string   // file; empty = plain HTTP
	TLSKey         string
	TrustedProxies []netip.Prefix

	PublisherKey      Secret
	PublisherAlg      string
	PublisherJWKS     string
	SubscriberKey     Secret
	SubscriberAlg     string
	SubscriberJWKS    string
	JWKSAllowPrivate  bool
	AllowShortKeys    bool
	Anonymous         bool
	CookieName        string // empty = spec.CookieClassic
	ClassicQueryToken string // off, subscribe, all
	ClassicRequireExp bool

	Classic            bool
	Issuer             string // the one that the flags name, empty = none
	IssuerKey          Secret
	IssuerAlg          string
	IssuerJWKS         string
	Issuers            []Issuer // those of the file, see allIssuers
	ResourceIdentifier string   // empty = PublicURL
	AccessTokenCookie  string   // empty = spec.CookieDraft08
	DefaultGeneration  string   // classic, draft-08

	CORSOrigins    []string
	PublishOrigins []string

	Heartbeat                time.Duration
	Retry                    time.Duration
	MaxConnectionLifetime    time.Duration
	WriteTimeout             time.Duration
	SubscriberBuffer         int64 // bytes
	MaxConnections           int   // 0 = no limit
	MaxConnectionsPerIP      int
	MaxConnectionsPerSubject int
	SoftRefusal              bool
	ReplayOnUnknownCursor    string // none, all
	LegacyCursorParams       bool

	Subscriptions      bool
	SubscriptionEvents string        // native, both
	RejoinGrace        time.Duration // 0 = none

	MaxBody              int64 // bytes
	MaxTopics            int
	MaxTopicLength       int // bytes, as all lengths
	MaxIDLength          int
	MaxSelectors         int
	MaxSelectorLength    int
	MaxTemplateVariables int
	MaxGrantSelectors    int
	MaxGrantMatchers     int
	MaxGrantDetails      int
	MaxTokenLength       int64
	MaxHead              int64

	Transport          string // jetstream, memory
	DataDir            string
	Sync               Sync
	PublishTimeout     time.Duration
	HistoryMaxMessages int64 // 0 = no limit, as the next two
	HistoryMaxBytes    int64
	HistoryMaxAge      time.Duration

	NATSURLs     []string // empty = a server in this process; may hold credentials
	NATSCreds    string   // file
	NATSUser     string
	NATSPassword Secret
	NATSToken    Secret
	NATSTLSCA    string // PEM files
	NATSTLSCert  string
	NATSTLSKey   string
	NATSPrefix   string // of stream and subjects, wherever the log is kept

	ClusterListen  string // empty = no other node
	ClusterPeers   []string
	ClusterSecret  Secret
	ClusterTLSCert string // PEM files, all three or none
	ClusterTLSKey  string
	ClusterTLSCA   string
	NodeName       string // empty = left to the transport
	Replicas       int    // 0 = automatic
	Follow         string // all, interest, auto
	Nodes          int    // in this process, with Dev

	ShutdownTimeout time.Duration
	DrainDelay      time.Duration
	LogFormat       string // auto, text, json
	LogLevel        string // debug, info, warn, error
}

// memoryHistoryBytes is the default of --history-max-bytes for the memory transport.
const memoryHistoryBytes = 64 << 20

// Defaults of a hub that is one of several. A publication may have to wait for the election of a leader, which takes
// seconds; and load balancers have to notice that a node is leaving.
const (
	clusterPublishTimeout = 10 * time.Second
	clusterDrainDelay     = 5 * time.Second
)

// Default returns the configuration of a hub that was told nothing.
func Default() Config {
	l := spec.DefaultLimits()
	return Config{
		Listen: ":3000", AdminListen: "127.0.0.1:3001", HubPath: spec.DefaultHubPath,

		PublisherAlg: auth.DefaultAlgorithm, SubscriberAlg: auth.DefaultAlgorithm, ClassicQueryToken: "subscribe",
		Classic: true, IssuerAlg: auth.DefaultAlgorithm, DefaultGeneration: spec.Classic.Name, SubscriptionEvents: "native",

		Heartbeat: 15 * time.Second, Retry: 3 * time.Second, MaxConnectionLifetime: 10 * time.Minute,
		WriteTimeout: 5 * time.Second, SubscriberBuffer: 1 << 20, SoftRefusal: true,
		ReplayOnUnknownCursor: "none", LegacyCursorParams: true,

		MaxBody: l.BodyBytes, MaxTopics: l.Topics, MaxTopicLength: l.TopicBytes, MaxIDLength: l.IDBytes,
		MaxSelectors: l.Selectors, MaxSelectorLength: l.SelectorBytes, MaxTemplateVariables: l.Variables,
		MaxGrantSelectors: l.GrantSelectors, MaxGrantMatchers: l.GrantMatchers, MaxGrantDetails: l.GrantDetails,
		MaxTokenLength: int64(l.TokenBytes), MaxHead: int64(l.HeadBytes),

		Transport: "jetstream", DataDir: "./cinnabar-data", Sync: Sync{Every: time.Second},
		PublishTimeout: 5 * time.Second, HistoryMaxBytes: 1 << 30, HistoryMaxAge: 168 * time.Hour,

		NATSPrefix: "cinnabar", Follow: string(jetstream.FollowAuto), Nodes: 1,

		ShutdownTimeout: 30 * time.Second, LogFormat: "auto", LogLevel: "info",
	}
}

// Limits returns the limits on what a client may send.
func (c *Config) Limits() spec.Limits {
	return spec.Limits{
		BodyBytes: c.MaxBody, Topics: c.MaxTopics, TopicBytes: c.MaxTopicLength, IDBytes: c.MaxIDLength,
		Selectors: c.MaxSelectors, SelectorBytes: c.MaxSelectorLength, Variables: c.MaxTemplateVariables,
		GrantSelectors: c.MaxGrantSelectors, GrantMatchers: c.MaxGrantMatchers, GrantDetails: c.MaxGrantDetails,
		TokenBytes: int(c.MaxTokenLength), HeadBytes: int(c.MaxHead),
	}
}

// Bind adds one flag per setting to fs. The fields of c are the flags' variables and their present
// values the defaults.
func (c *Config) Bind(fs *pflag.FlagSet) {
	fs.SortFlags = false
	s := &schema{fs: fs}

	s.group("Start")
	s.bool(&c.Dev, "dev", "for a laptop: listen on 127.0.0.1 only, keep random keys in the data directory, print a ready token and curl lines, allow anonymous subscribers and pages on localhost, turn --subscriptions on")
	s.text(&c.ConfigFile, "config", "YAML `file` of settings, named like the flags")

	s.group("Listening")
	s.text(&c.Listen, "listen", "public `address`: host:port, unix:PATH, fd:N, or systemd for socket activation (used by itself when sockets were passed and --listen was not given)")
	s.text(&c.AdminListen, "admin-listen", "`address` for metrics, health and pprof; empty = none; on a loopback address requests must name localhost, an IP address or the host of --public-url")
	add(s, &c.HubPath, "hub-path", "`path` of the hub", "path", parseHubPath, formatText)
	add(s, &c.PublicURL, "public-url", "`URL` of the hub as clients see it", "URL", parseHubURL, formatHubURL)
	addList(s, &c.PublicOrigins, "public-origin", "`origin`, beside that of --public-url, at which clients may reach the hub; requests to any other get 421; without one every Host is served", "origin", parsePublicOrigin, formatText)
	s.text(&c.TLSCert, "tls-cert", "certificate chain, a PEM `file`: serve HTTPS with HTTP/2; read again when it changes")
	s.text(&c.TLSKey, "tls-key", "private key of the certificate, a PEM `file`")
	addList(s, &c.TrustedProxies, "trusted-proxy", "`CIDR` whose Forwarded and X-Forwarded-* headers are believed", "CIDR", parsePrefix, netip.Prefix.String)

	s.group("Authorization")
	s.role("publisher", &c.PublisherKey, &c.PublisherAlg, &c.PublisherJWKS)
	s.role("subscriber", &c.SubscriberKey, &c.SubscriberAlg, &c.SubscriberJWKS)
	s.bool(&c.JWKSAllowPrivate, "jwks-allow-private", "fetch JWK Sets from internal addresses too, such as an identity provider in the same cluster")
	s.bool(&c.AllowShortKeys, "allow-short-keys", "accept HMAC secrets under 32 bytes, with a warning")
	s.bool(&c.Anonymous, "anonymous", "let clients without a token subscribe to public updates")
	s.text(&c.CookieName, "cookie-name", "`name` of the cookie that may carry a classic token (default "+spec.CookieClassic+")")
	s.choice(&c.ClassicQueryToken, "classic-query-token", "where the authorization query parameter is read", "off", "subscribe", "all")
	s.bool(&c.ClassicRequireExp, "classic-require-exp", "refuse classic tokens that never expire")

	s.group(groupGenerations)
	s.bool(&c.Classic, "classic", "serve the classic protocol; --classic=false leaves draft-08 alone, strictly")
	add(s, &c.Issuer, "issuer", "`URL` of who signs draft-08 tokens, their iss; its keys are found by its metadata unless one of the next flags names them; several issuers: issuers in the file of --config", "URL", parseIssuer, formatText)
	s.secret(&c.IssuerKey, "issuer-jwt-key", "`key` of the issuer's tokens: a secret, a PEM public key, or @/path/to/file")
	add(s, &c.IssuerAlg, "issuer-jwt-alg", "`algorithm` of the issuer's tokens", "algorithm", oneOf(algorithms...), formatText)
	add(s, &c.IssuerJWKS, "issuer-jwks-url", "`URL` of a JWK Set with the issuer's keys, https:// or file://", "URL", parseText, redactURL)
	add(s, &c.ResourceIdentifier, "resource-identifier", "`URL` that draft-08 tokens must have in aud; that of --public-url unless given", "URL", parseResource, formatText)
	s.text(&c.AccessTokenCookie, "access-token-cookie", "`name` of the cookie that may carry a draft-08 token (default "+spec.CookieDraft08+")")
	s.choice(&c.DefaultGeneration, "default-generation", "whose form an answer has when the request says neither (draft-08 with --classic=false)", spec.Classic.Name, spec.Draft08.Name)

	s.group("Browsers")
	addList(s, &c.CORSOrigins, "cors-origin", "`origin` whose pages may use the hub; * = any, but then without cookies", "origin", parseOrigin, formatText)
	addList(s, &c.PublishOrigins, "publish-origin", "`origin` whose pages may publish with a cookie, beside the hub's own", "origin", parseOrigin, formatText)

	s.group("Streams")
	s.duration(&c.Heartbeat, "heartbeat", "send a comment when nothing was sent for this long, jittered; 0 = off")
	s.duration(&c.Retry, "retry", "reconnection time that streams open with, a random value around this; 0 = none")
	s.duration(&c.MaxConnectionLifetime, "max-connection-lifetime", "end a stream after this long, jittered downwards; 0 = never")
	s.duration(&c.WriteTimeout, "write-timeout", "cut a client that takes nothing for this long")
	add(s, &c.SubscriberBuffer, "subscriber-buffer", "`bytes` queued per subscriber before it falls back to reading the log", "size", bytesFrom(4<<10), formatBytes)
	s.count(&c.MaxConnections, 0, "max-connections", "streams at a time; 0 = no limit")
	s.count(&c.MaxConnectionsPerIP, 0, "max-connections-per-ip", "streams at a time from one address; 0 = no limit")
	s.count(&c.MaxConnectionsPerSubject, 0, "max-connections-per-subject", "streams at a time of one token subject; 0 = no limit")
	s.bool(&c.SoftRefusal, "soft-refusal", "tell an EventSource to come back later instead of failing it for good")
	s.choice(&c.ReplayOnUnknownCursor, "replay-on-unknown-cursor", "what a client whose last event id is unknown gets of the history", "none", "all")
	s.bool(&c.LegacyCursorParams, "legacy-cursor-params", "also read the cursor from the query parameter Last-Event-ID")

	s.group("Active subscriptions")
	s.bool(&c.Subscriptions, "subscriptions", "keep the list of who is subscribed, one for all nodes: subscription events and the subscription API; the same on all nodes")
	s.choice(&c.SubscriptionEvents, "subscription-events", "in whose form a subscription is told of: its own generation's, or both, where the other one has such a selector", "native", "both")
	s.duration(&c.RejoinGrace, "rejoin-grace", "tell that a subscriber has left only after this long, and not at all if its token's subject is back by then with the same selectors; 0 = tell at once")

	s.group("Limits")
	add(s, &c.MaxBody, "max-body", "size of a publication, `bytes`", "size", bytesFrom(1), formatBytes)
	s.count(&c.MaxTopics, 1, "max-topics", "topics per publication")
	s.count(&c.MaxTopicLength, 1, "max-topic-length", "bytes of a topic")
	s.count(&c.MaxIDLength, 1, "max-id-length", "bytes of an event id or type")
	s.count(&c.MaxSelectors, 1, "max-selectors", "selectors per subscription request")
	s.count(&c.MaxSelectorLength, 1, "max-selector-length", "bytes of a selector")
	s.count(&c.MaxTemplateVariables, 1, "max-template-variables", "variables per URI template, groups per URL pattern")
	s.count(&c.MaxGrantSelectors, 1, "max-grant-selectors", "selectors per classic token")
	s.count(&c.MaxGrantMatchers, 1, "max-grant-matchers", "topics of all authorization_details of a draft-08 token together")
	s.count(&c.MaxGrantDetails, 1, "max-grant-details", "authorization_details for hubs in a draft-08 token")
	add(s, &c.MaxTokenLength, "max-token-length", "size of a token, `bytes`", "size", bytesFrom(256), formatBytes)
	add(s, &c.MaxHead, "max-head", "size of a request's head, `bytes`", "size", bytesFrom(8<<10), formatBytes)

	s.group("History")
	s.choice(&c.Transport, "transport", "where the log is kept", "jetstream", "memory")
	s.text(&c.DataDir, "data-dir", "`directory` of the embedded JetStream, unused with --nats-url; one process at a time")
	add(s, &c.Sync, "sync", "write the log through to the disk at this `interval`, or always", "interval", parseSync, formatSync)
	s.duration(&c.PublishTimeout, "publish-timeout", "answer 503 when a publication could not be stored for this long (10s unless given with --nats-url, --cluster-listen or --nodes)")
	add(s, &c.HistoryMaxMessages, "history-max-messages", "updates kept, a `number`; 0 = no limit", "number", parseCount64, formatCount64)
	add(s, &c.HistoryMaxBytes, "history-max-bytes", "`bytes` kept; 0 = no limit (64MiB unless given with --transport memory)", "size", bytesFrom(0), formatBytes)
	s.duration(&c.HistoryMaxAge, "history-max-age", "how long an update is kept; 0 = no limit")

	c.bindNATS(s)

	s.group("Cluster")
	s.text(&c.ClusterListen, "cluster-listen", "`address`, host:port, where the other nodes of an embedded cluster connect")
	addList(s, &c.ClusterPeers, "cluster-peer", "`address`, host:port, of a node; the list may be the same on all nodes, with or without their own", "address", parseText, formatText)
	s.secret(&c.ClusterSecret, "cluster-secret", "`secret` that all nodes share, at least 16 bytes, or @/path/to/file; read at the start")
	s.text(&c.ClusterTLSCert, "cluster-tls-cert", "certificate of this node towards the others, in both directions, a PEM `file`")
	s.text(&c.ClusterTLSKey, "cluster-tls-key", "private key of that certificate, a PEM `file`")
	s.text(&c.ClusterTLSCA, "cluster-tls-ca", "authorities that the nodes check each other by, a PEM `file`")
	add(s, &c.NodeName, "node-name", "`name` of this node, different on each and the same after a restart; with --cluster-listen the first label of the host name unless given", "name", parseOptionalName, formatText)
	s.count(&c.Replicas, 0, "replicas", "copies of the log: 1, 3 or 5; 0 = 3 if there are so many servers, else 1")
	s.choice(&c.Follow, "follow", "what a node takes from the log: all updates, those its subscribers may select, or auto = all when it is alone, else interest", "all", "interest", "auto")
	s.count(&c.Nodes, 1, "nodes", "with --dev: nodes to run in this process as an embedded cluster, 1 or 3; node 2 listens two ports above node 1, node 3 two above node 2")

	s.group("Shutdown")
	s.duration(&c.ShutdownTimeout, "shutdown-timeout", "how long streams and requests may take to end")
	s.duration(&c.DrainDelay, "drain-delay", "how long to go on serving after readiness turned false, so that load balancers notice (5s unless given with --nats-url or --cluster-listen)")

	s.group("Log")
	s.choice(&c.LogFormat, "log-format", "auto = text on a terminal, else json", "auto", "text", "json")
	s.choice(&c.LogLevel, "log-level", "least level that is logged", "debug", "info", "warn", "error")
}

// bindNATS adds the settings of a log on NATS servers, which more than one command has.
func (c *Config) bindNATS(s *schema) {
	s.group("NATS")
	addList(s, &c.NATSURLs, "nats-url", "`URL` of a NATS server with JetStream, nats:// or tls://: keep the log there; several hubs on the same servers are one", "URL", parseText, redactURL)
	s.text(&c.NATSCreds, "nats-creds", "`file` of NATS credentials (JWT and seed)")
	s.text(&c.NATSUser, "nats-user", "`name` of the NATS user")
	s.secret(&c.NATSPassword, "nats-password", "`password` of the NATS user, or @/path/to/file; read at the start")
	s.secret(&c.NATSToken, "nats-token", "`token` for NATS, or @/path/to/file; read at the start")
	s.text(&c.NATSTLSCA, "nats-tls-ca", "authorities that NATS servers are checked by, a PEM `file`; the system's unless given")
	s.text(&c.NATSTLSCert, "nats-tls-cert", "client certificate for NATS, a PEM `file`")
	s.text(&c.NATSTLSKey, "nats-tls-key", "private key of the client certificate, a PEM `file`")
	add(s, &c.NATSPrefix, "nats-prefix", "`name` that streams and subjects begin with, also without --nats-url; hubs with different ones have nothing to do with each other", "name", parseName, formatText)
}
