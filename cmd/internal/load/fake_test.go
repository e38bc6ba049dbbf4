package load_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// fakeHub is a hub with faults: it fans out what is posted, but for what meddle makes of it.
type fakeHub struct {
	*httptest.Server
	// meddle gets what is about to be sent to a stream of topic, and the number of that stream and that update
	// at it, both from 0. What it returns is sent instead.
	meddle func(stream, n int, data string) []string
	answer int // to publications after the first free ones, 0 = 200
	free   int
	posted func(n int) // told of each publication, from 1

	mu      sync.Mutex
	streams []*fakeStream
	posts   int
}

type fakeStream struct {
	topic  string
	seen   int
	events chan string
}

func startFake(t *testing.T, f *fakeHub) *fakeHub {
	t.Helper()
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		f.publish(w, r)
		return
	}
	s := &fakeStream{topic: r.URL.Query().Get("topic"), events: make(chan string, 1<<16)}
	f.mu.Lock()
	f.streams = append(f.streams, s)
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case data := <-s.events:
			if data == "end" {
				return
			}
			_, _ = fmt.Fprintf(w, "id: x\ndata: %s\n\n", data)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func (f *fakeHub) publish(w http.ResponseWriter, r *http.Request) {
	topic, data := r.PostFormValue("topic"), r.PostFormValue("data")
	f.mu.Lock()
	f.posts++
	n := f.posts
	for i, s := range f.streams {
		if s.topic != topic {
			continue
		}
		for _, d := range f.meddle(i, s.seen, data) {
			s.events <- d
		}
		s.seen++
	}
	f.mu.Unlock()
	if f.answer != 0 && n > f.free {
		w.WriteHeader(f.answer)
	}
	if f.posted != nil {
		f.posted(n)
	}
}

// certificate writes a certificate for the loopback and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// serve runs a handler until the test ends.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
