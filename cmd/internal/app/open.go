package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/cinnabar-hub/cinnabar/transport"
	"github.com/cinnabar-hub/cinnabar/transport/jetstream"
	"github.com/cinnabar-hub/cinnabar/transport/memory"
)

// openTransport opens the log that c names.
func openTransport(ctx context.Context, c *Config, p proofs, log *slog.Logger) (transport.Transport, error) {
	if c.Transport == "memory" {
		limit := c.HistoryMaxBytes
		if limit == 0 {
			limit = math.MaxInt64 // memory's own zero is its default
		}
		messages := int(min(c.HistoryMaxMessages, math.MaxInt))
		return memory.New(memory.Options{MaxMessages: messages, MaxBytes: limit, MaxAge: c.HistoryMaxAge})
	}
	l, err := jetstream.Open(ctx, c.jetstreamOptions(p, log))
	if err != nil {
		return nil, explain(err)
	}
	return l, nil
}

// explain names the flags that an error of opening a log in JetStream is about.
func explain(err error) error {
	var flags string
	switch _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); {
	case untrusted:
		flags = "--nats-tls-ca"
	case errors.Is(err, jetstream.ErrCredentials):
		flags = "--nats-creds, --nats-user and --nats-password, or --nats-token"
	case errors.Is(err, jetstream.ErrReplicas):
		flags = "--replicas"
	default:
		return err
	}
	return fmt.Errorf("%s: %w", flags, err)
}

// jetstreamOptions is the configuration of the log in JetStream, wherever that is.
func (c *Config) jetstreamOptions(p proofs, log *slog.Logger) jetstream.Options {
	o := jetstream.Options{
		Dir: c.DataDir, SyncAlways: c.Sync.Always, SyncInterval: c.Sync.Every,
		MaxMessages: c.HistoryMaxMessages, MaxBytes: c.HistoryMaxBytes, MaxAge: c.HistoryMaxAge,
		PublishTimeout: c.PublishTimeout, MaxUpdateBytes: c.MaxBody, // the texts are never longer than the form they came in
		Node: c.NodeName, Replicas: c.Replicas, Follow: jetstream.Mode(c.Follow),
		HubURL: c.base(), HubPath: c.HubPath, Prefix: c.NATSPrefix, Logger: log,
	}
	if len(c.NATSURLs) > 0 {
		o.Dir = ""
		o.Servers = &jetstream.Servers{
			URLs: c.NATSURLs, Creds: c.NATSCreds, User: c.NATSUser, Password: p.natsPassword, Token: p.natsToken,
			TLSCA: c.NATSTLSCA, TLSCert: c.NATSTLSCert, TLSKey: c.NATSTLSKey,
		}
	}
	if c.ClusterListen != "" {
		o.Cluster = &jetstream.Cluster{
			Listen: c.ClusterListen, Peers: c.ClusterPeers, Secret: p.cluster,
			TLSCert: c.ClusterTLSCert, TLSKey: c.ClusterTLSKey, TLSCA: c.ClusterTLSCA,
		}
	}
	return o
}
