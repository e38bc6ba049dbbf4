package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// certificatePoll is how often the files of a certificate are looked at. Looking beats being told: it
// works for renamed files, swapped symbolic links and network file systems alike.
const certificatePoll = 5 * time.Second

// certificate serves the newest valid pair of two files.
type certificate struct {
	// static after construction
	certFile, keyFile string
	log               *slog.Logger

	mu   sync.RWMutex
	pair *tls.Certificate // guarded by mu
	seen string           // guarded by mu: state of the files when they were last read
}

func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// reload reads both files; the pair in use stays when they do not fit.
func (c *certificate) reload() error {
	seen := c.state()
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = seen
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair = &pair
	return nil
}

// check reads the files again if they look different from when they were last read, and reports whether
// it did. A pair caught while being written is read again once it has settled.
func (c *certificate) check() bool {
	c.mu.RLock()
	unchanged := c.seen == c.state()
	c.mu.RUnlock()
	if unchanged {
		return false
	}
	if err := c.reload(); err != nil {
		c.log.Error("new certificate refused, the old one stays in use", "error", err)
		return true
	}
	c.log.Info("certificate reloaded", "certificate", c.certFile)
	return true
}

// watch checks the files until ctx ends.
func (c *certificate) watch(ctx context.Context) {
	tick := time.NewTicker(certificatePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.check()
		}
	}
}

func (c *certificate) state() string {
	var s strings.Builder
	for _, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			s.WriteString("missing;")
			continue
		}
		fmt.Fprintf(&s, "%d %d;", info.ModTime().UnixNano(), info.Size())
	}
	return s.String()
}

// config is the TLS configuration of a listener that serves the newest pair.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.mu.RLock()
			defer c.mu.RUnlock()
			return c.pair, nil
		},
	}
}
