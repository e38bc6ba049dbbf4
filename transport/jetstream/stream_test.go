package jetstream

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestOnlyLimitsThatDifferAreChanged(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	for i := range 10 {
		add(t, l, update(i))
	}
	stream, err := l.js.Stream(t.Context(), "cinnabar")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Description, config.MaxConsumers = "changed by the operator", -1
	config.Duplicates = time.Minute
	if _, err := l.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	epoch := l.identity.Load().epoch
	for _, o := range []Options{
		{Dir: dir},
		{Dir: dir, MaxMessages: 4, MaxBytes: 1 << 20, MaxAge: 10 * time.Second},
		{Dir: dir},
	} {
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l = open(t, o)
		if l.identity.Load().epoch != epoch {
			t.Errorf("epoch %d became %d", epoch, l.identity.Load().epoch)
		}
		stream, err := l.js.Stream(t.Context(), "cinnabar")
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		if c.Description != "changed by the operator" {
			t.Errorf("description is %q", c.Description)
		}
		if c.MaxMsgs != unlimited(o.MaxMessages) || c.MaxBytes != unlimited(o.MaxBytes) || c.MaxAge != o.MaxAge {
			t.Errorf("limits are %d, %d, %v; want %+v", c.MaxMsgs, c.MaxBytes, c.MaxAge, o)
		}
	}
	if stream, err = l.js.Stream(t.Context(), "cinnabar"); err != nil {
		t.Fatal(err)
	}
	if d := stream.CachedInfo().Config.Duplicates; d != duplicatesWindow {
		t.Errorf("shortened with the age, the duplicates window has remained at %v", d)
	}
	s, err := l.Span(t.Context())
	if err != nil || s.First != 7 || s.Last != 10 {
		t.Errorf("span is %+v, %v; want what 4 messages left", s, err)
	}
}

func TestAForeignStreamIsNotTakenOver(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	if _, err := l.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "other", Subjects: []string{"other.u.>"}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir, Prefix: "other"}); err == nil || !strings.Contains(err.Error(), "not a hub's") {
		t.Errorf("a stream of another program: %v", err)
	}
	open(t, Options{Dir: dir}) // the failed opening has given everything back
}

func TestNewLogIsConfiguredAsDesigned(t *testing.T) {
	c := logConfig(Options{Prefix: "p", PublishTimeout: time.Second, MaxAge: time.Hour, MaxBytes: 7})
	if c.Duplicates != duplicatesWindow || !c.AllowDirect || c.MaxMsgs != -1 || c.MaxBytes != 7 || c.Discard != jetstream.DiscardOld ||
		c.RePublish != nil || c.Metadata[metaEpoch] == "" || c.Metadata[metaKey] == "" {
		t.Errorf("%+v", c)
	}
	if c := logConfig(Options{PublishTimeout: time.Minute}); c.Duplicates != 2*time.Minute {
		t.Errorf("an update may be sent again for a minute, duplicates are known for %v", c.Duplicates)
	}
	if c := logConfig(Options{MaxAge: time.Second}); c.Duplicates != time.Second {
		t.Errorf("duplicates are known for %v, longer than updates", c.Duplicates)
	}
	for name, meta := range map[string]map[string]string{
		"none":       nil,
		"no key":     {metaEpoch: "1"},
		"long epoch": {metaEpoch: "16777216", metaKey: newMetadata()[metaKey]},
		"short key":  {metaEpoch: "1", metaKey: "AAAA"},
	} {
		if _, err := readIdentity("s", meta); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
