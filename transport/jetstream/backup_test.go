package jetstream

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cinnabar-hub/cinnabar/spec"
	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// fillHistory makes a log with hub's and publisher's ids, private updates, and holes: one in the middle and, with
// trim, a beginning that retention has taken. It returns the retained entries and the ids of those that are gone.
func fillHistory(t *testing.T, dir string, trim bool) (kept, gone []transport.Entry) {
	t.Helper()
	o := Options{Dir: dir}
	if trim {
		o.MaxMessages = 60
	}
	l := open(t, o)
	for i := range 100 {
		u := update(i)
		u.Private = i%3 == 0
		if i%4 == 0 {
			u.ID = "publisher-" + u.Data
		}
		if i%10 == 7 {
			u.Type, u.Retry, u.Data = "kind", 1500, "line 1\nline 2\r\x00\u2028\"\\ <&> \U0001F600"
		}
		kept = append(kept, add(t, l, u))
	}
	s, err := l.js.Stream(t.Context(), l.opts.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, pos := range []uint64{70, 71, 72, 100} {
		if err := s.DeleteMsg(t.Context(), pos); err != nil {
			t.Fatal(err)
		}
	}
	if trim {
		kept, gone = kept[40:], kept[:40]
	}
	for _, pos := range []transport.Position{70, 71, 72, 100} {
		kept = slices.DeleteFunc(kept, func(e transport.Entry) bool { return e.Pos == pos })
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kept, gone
}

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// saved takes a backup of a directory whose hub is stopped.
func saved(t *testing.T, dir string) []byte {
	t.Helper()
	s, err := OpenStore(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	m, err := s.Backup(t.Context(), &b, nil)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	verified, err := VerifyBackup(bytes.NewReader(b.Bytes()), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := mustJSON(t, verified), mustJSON(t, m); got != want {
		t.Errorf("the file says %s, the backup %s", got, want)
	}
	return b.Bytes()
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mustHold fails the test unless the log is the one that fillHistory made.
func mustHold(t *testing.T, l *Log, kept, gone []transport.Entry) {
	t.Helper()
	first := kept[0].Pos - 1
	mustBeSame(t, "scan", scan(t, l, first, 1000), kept)
	for i, e := range kept {
		mustLocate(t, l, e.Update.ID, e.Pos)
		if i%10 == 0 {
			mustBeSame(t, "scan after an id", scan(t, l, e.Pos, 1000), kept[i+1:])
		}
	}
	for _, e := range gone[:max(len(gone)-1, 0)] { // after the last one nothing is lost
		if _, err := l.Locate(t.Context(), e.Update.ID); !errors.Is(err, transport.ErrTrimmed) {
			t.Fatalf("locate %s, which was trimmed: %v", e.Update.ID, err)
		}
	}
	if next := add(t, l, update(0)); next.Pos != 101 {
		t.Errorf("the next position is %d", next.Pos)
	}
}

func TestABackupKeepsPositionsAndIDs(t *testing.T) {
	for name, trim := range map[string]bool{"whole": false, "trimmed": true} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			kept, gone := fillHistory(t, from, trim)
			file := saved(t, from)
			var steps []string
			store := openStore(t, to)
			if _, err := store.Restore(t.Context(), iotest.OneByteReader(bytes.NewReader(file)), func(p transport.Progress) {
				if p.Done {
					steps = append(steps, p.Step+" "+p.Part.Name)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if want := []string{"restoring ids", "restoring updates"}; !slices.Equal(steps, want) {
				t.Errorf("progress %q, want %q", steps, want)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{to, from} { // what was saved is as it was, too
				mustHold(t, open(t, Options{Dir: dir}), kept, gone)
			}
		})
	}
}

func TestARestoredLogIsOfThatIdentityInBothPlaces(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	fillHistory(t, from, false)
	if err := open(t, Options{Dir: to}).Close(t.Context()); err != nil { // a hub has been there, and left its own identity
		t.Fatal(err)
	}
	store := openStore(t, to)
	if _, err := store.Restore(t.Context(), bytes.NewReader(saved(t, from)), nil); err != nil {
		t.Fatal(err)
	}
	info, err := store.log.js.Stream(t.Context(), defaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if _, marked := info.CachedInfo().Config.Metadata[metaRestore]; marked {
		t.Error("the stream is still marked")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Options{Dir: to}).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, errA := os.ReadFile(filepath.Join(from, defaultPrefix+identitySuffix))
	b, errB := os.ReadFile(filepath.Join(to, defaultPrefix+identitySuffix))
	if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
		t.Errorf("the identities differ: %s, %s, %v", a, b, err)
	}
}

func TestAnEmptyLogIsSavedAndRestored(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := open(t, Options{Dir: from}).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := openStore(t, to)
	m, err := store.Restore(t.Context(), bytes.NewReader(saved(t, from)), nil)
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	if n := m.Parts[len(m.Parts)-1].Messages; n != 0 {
		t.Errorf("%d messages", n)
	}
	if e := add(t, open(t, Options{Dir: to}), update(0)); e.Pos != 1 {
		t.Errorf("the first position is %d", e.Pos)
	}
}

func TestWhatIsNoBackupIsRefused(t *testing.T) {
	dir := t.TempDir()
	fillHistory(t, dir, false)
	good := saved(t, dir)
	flip := func(at int) []byte {
		b := slices.Clone(good)
		b[at] ^= 0x10
		return b
	}
	at := func(text string) int {
		n := bytes.Index(good, []byte(text))
		if n < 0 {
			t.Fatalf("no %s in the file", text)
		}
		return n
	}
	updates, sums := at("updates/00000001"), at(nameManifest)
	piece := updates + 512 + 300
	other := t.TempDir()
	l := open(t, Options{Dir: other, Prefix: "other"})
	add(t, l, update(0))
	var foreign bytes.Buffer
	if err := errors.Join(errOf(l.streams().backup(t.Context(), &foreign, nil)), l.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	var zip bytes.Buffer
	w := tar.NewWriter(&zip)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "a", Size: 1}), errOf(w.Write([]byte("b"))), w.Close()); err != nil {
		t.Fatal(err)
	}

	target := t.TempDir()
	before := identityIn(t, target)
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"empty":                {nil, "empty"},
		"a text":               {[]byte(strings.Repeat("hello ", 1000)), "not written by cinnabar backup"},
		"another archive":      {zip.Bytes(), "not written by cinnabar backup"},
		"another version":      {bytes.Replace(good, []byte(`"version": 1`), []byte(`"version": 2`), 1), "version 2"},
		"another prefix":       {foreign.Bytes(), `prefix "other"`},
		"a flipped bit":        {flip(piece), "damaged"},
		"a flipped header":     {flip(updates), "damaged"},
		"a flipped count":      {bytes.Replace(good, []byte(`"messages": 96`), []byte(`"messages": 95`), 1), "damaged"},
		"cut in a piece":       {good[:piece], "cut"},
		"cut between pieces":   {good[:updates], "cut"},
		"cut before its sums":  {good[:sums], "cut"},
		"cut within its sums":  {good[:sums+600], "cut"},
		"without its sums":     {slices.Concat(good[:sums], make([]byte, 1024)), "cut"},
		"a piece that is gone": {slices.Concat(good[:updates], good[sums:]), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "another prefix" { // which only the place can tell
				if _, err := VerifyBackup(bytes.NewReader(c.file), nil); !errors.Is(err, transport.ErrBackup) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("verified: %v, want it to say %q", err, c.says)
				}
			}
			store := openStore(t, target)
			_, err := store.Restore(t.Context(), bytes.NewReader(c.file), nil)
			if err == nil {
				t.Fatal("restored")
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if after := identityIn(t, target); after != before {
				t.Errorf("the target is not as it was: %v", err)
			}
		})
	}
	store := openStore(t, target) // and nothing hinders the good one
	if _, err := store.Restore(t.Context(), bytes.NewReader(good), nil); err != nil {
		t.Error(err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// identityIn starts a hub's log in dir, which must hold no updates, and returns its epoch.
func identityIn(t *testing.T, dir string) uint32 {
	t.Helper()
	l := open(t, Options{Dir: dir})
	s, err := l.Span(t.Context())
	if err != nil || s.Last != 0 {
		t.Errorf("the log holds something: %+v, %v", s, err)
	}
	epoch := l.identity.Load().epoch
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return epoch
}

func TestNothingIsOverwritten(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	fillHistory(t, from, false)
	l := open(t, Options{Dir: to})
	e := add(t, l, update(1))
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := openStore(t, to)
	file := saved(t, from)
	_, err := store.Restore(t.Context(), readerFunc(func([]byte) (int, error) {
		t.Error("the backup is read although it has no place")
		return 0, io.EOF
	}), nil)
	if !errors.Is(err, transport.ErrNotEmpty) || !strings.Contains(err.Error(), "nothing has been changed") {
		t.Errorf("restore: %v", err)
	}
	// nor when somebody publishes after that was looked at
	late := &restoring{streams: store.log.streams()}
	b, err := openBackup(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := late.undo(t.Context(), late.run(t.Context(), b, 0, nil)); !errors.Is(err, transport.ErrNotEmpty) || !strings.Contains(err.Error(), "nothing has been changed") {
		t.Errorf("restored late: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, Options{Dir: to})
	mustLocate(t, l, e.Update.ID, e.Pos)
	if next := add(t, l, update(2)); next.Pos != 2 {
		t.Errorf("next position %d", next.Pos)
	}
}

// A restore that ends in the middle, whatever ends it, leaves an empty log, and can be repeated.
func TestAnInterruptedRestoreLeavesNothingBehind(t *testing.T) {
	from := t.TempDir()
	kept, _ := fillHistory(t, from, false)
	file := saved(t, from)
	at := bytes.Index(file, []byte("updates/00000001")) + 600
	for name, how := range map[string]func(ctx context.Context, cancel func()) io.Reader{
		"its sender is gone": func(context.Context, func()) io.Reader {
			return io.MultiReader(bytes.NewReader(file[:at]), iotest.ErrReader(errors.New("reset by peer")))
		},
		"it is called off": func(ctx context.Context, cancel func()) io.Reader {
			return io.MultiReader(bytes.NewReader(file[:at]), readerFunc(func([]byte) (int, error) {
				cancel()
				return 0, ctx.Err()
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			before := identityIn(t, to)
			store := openStore(t, to)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := store.Restore(ctx, how(ctx, cancel), nil)
			if err == nil || !strings.Contains(err.Error(), "the target is empty") {
				t.Errorf("restore: %v", err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if after := identityIn(t, to); after != before {
				t.Error("the target has another identity")
			}
			store = openStore(t, to)
			if _, err := store.Restore(t.Context(), bytes.NewReader(file), nil); err != nil {
				t.Fatal(err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			mustHold(t, open(t, Options{Dir: to}), kept, nil)
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A restore whose process was killed leaves its mark: no hub takes the part for the whole, nor is it saved as a backup.
func TestAKilledRestoreIsNoticed(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	kept, _ := fillHistory(t, from, false)
	file := saved(t, from)
	store := openStore(t, to)
	if _, err := store.Restore(t.Context(), bytes.NewReader(file), nil); err != nil {
		t.Fatal(err)
	}
	s, err := store.log.js.Stream(t.Context(), defaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	killed := &restoring{streams: store.log.streams(), name: "killed"}
	if _, err := store.log.js.UpdateStream(t.Context(), killed.marked(s.CachedInfo().Config, restoreLoading)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Backup(t.Context(), io.Discard, nil); !errors.Is(err, transport.ErrRestoring) {
		t.Errorf("backup: %v", err)
	}
	if _, err := store.Export(t.Context(), io.Discard, transport.ExportOptions{}); !errors.Is(err, transport.ErrRestoring) {
		t.Errorf("export: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: to}); !errors.Is(err, transport.ErrRestoring) {
		t.Fatalf("a hub opens it: %v", err)
	}
	store = openStore(t, to)
	if _, err := store.Restore(t.Context(), bytes.NewReader(file), nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	mustHold(t, open(t, Options{Dir: to}), kept, nil)
}

// One that was killed when the target was closed, and not yet deleted, has nothing to undo; what the target holds counts.
func TestARestoreKilledAtItsBeginningIsRepeated(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	kept, _ := fillHistory(t, from, false)
	file := saved(t, from)
	if err := open(t, Options{Dir: to}).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := openStore(t, to)
	killed := &restoring{streams: store.log.streams(), name: "killed"}
	if err := killed.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: to}); !errors.Is(err, transport.ErrRestoring) {
		t.Errorf("a hub opens it: %v", err)
	}
	store = openStore(t, to)
	if _, err := store.Restore(t.Context(), bytes.NewReader(file), nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	mustHold(t, open(t, Options{Dir: to}), kept, nil)
}

// Updates that come while the backup is taken are in it or not, and so are their ids.
func TestABackupOfARunningHubIsOfOneMoment(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir()})
	var before []transport.Entry
	for i := range 500 {
		u := update(i)
		u.ID = "before-" + u.Data
		before = append(before, add(t, l, u))
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			u := update(i)
			u.ID = "during-" + u.Data
			if _, err := l.Append(context.WithoutCancel(t.Context()), u); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var file bytes.Buffer
	m, err := l.Backup(t.Context(), &file, nil)
	close(stop)
	<-done
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	store := openStore(t, to)
	_, err = store.Restore(t.Context(), &file, nil)
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	restored := open(t, Options{Dir: to})
	last := transport.Position(m.Parts[1].Last)
	all := scan(t, l, 0, last)
	mustBeSame(t, "scan", scan(t, restored, 0, last+1000), all)
	mustBeSame(t, "its beginning", all[:500], before)
	for _, e := range all { // the ones that came between the two streams among them
		mustLocate(t, restored, e.Update.ID, e.Pos)
	}
}

func TestAnExportIsWhatAScanReads(t *testing.T) {
	dir := t.TempDir()
	kept, _ := fillHistory(t, dir, true)
	store := openStore(t, dir)
	lines := func(o transport.ExportOptions) []exported {
		t.Helper()
		var b bytes.Buffer
		n, err := store.Export(t.Context(), &b, o)
		if err != nil {
			t.Fatal(err)
		}
		var got []exported
		for line := range bytes.Lines(b.Bytes()) {
			var e exported
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			got = append(got, e)
		}
		if uint64(len(got)) != n {
			t.Errorf("%d lines, %d are told", len(got), n)
		}
		return got
	}
	same := func(what string, got []exported, want []transport.Entry) {
		t.Helper()
		entries := []transport.Entry{}
		for i, e := range got {
			at, err := time.Parse(time.RFC3339Nano, e.Time)
			if err != nil || time.Since(at) > time.Hour || i > 0 && e.Time < got[i-1].Time && len(e.Time) == len(got[i-1].Time) {
				t.Errorf("line %d is of %q, %v", i, e.Time, err)
			}
			entries = append(entries, transport.Entry{Pos: transport.Position(e.Position), Update: &spec.Update{
				Topics: e.Topics, ID: e.ID, Type: e.Type, Data: e.Data, Retry: e.Retry, Private: e.Private,
			}})
		}
		if got, want := mustJSON(t, entries), mustJSON(t, want); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
		}
	}
	same("everything", lines(transport.ExportOptions{}), kept)
	for _, i := range []int{0, 4, 5, 30, len(kept) - 1} { // a publisher's id, a hub's id, the last one
		same("after "+kept[i].Update.ID, lines(transport.ExportOptions{After: kept[i].Update.ID}), kept[i+1:])
	}
	one := slices.DeleteFunc(slices.Clone(kept), func(e transport.Entry) bool { return e.Update.Topics[0] != update(3).Topics[0] })
	same("one topic", lines(transport.ExportOptions{Topics: []topic.Selector{{Kind: topic.Classic, Pattern: update(3).Topics[0]}}}), one)
	if _, err := store.Export(t.Context(), io.Discard, transport.ExportOptions{After: "unknown"}); !errors.Is(err, transport.ErrUnknown) {
		t.Errorf("after an unknown id: %v", err)
	}
}

func TestDataThatIsNoTextIsExportedWhole(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	add(t, l, &spec.Update{Topics: []string{"a"}, Data: "\xff\x00\xfe"})
	var b bytes.Buffer
	if _, err := l.Export(t.Context(), &b, transport.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	var e exported
	if err := json.Unmarshal(b.Bytes(), &e); err != nil || string(e.Base64) != "\xff\x00\xfe" || e.Data != "" {
		t.Errorf("%s: %v", b.Bytes(), err)
	}
}

// The times are logged: 0.2 s to save and as much to restore, 1 s to export, on two cores.
func TestALargeLogIsMoved(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const n = 50_000
	from, to := t.TempDir(), t.TempDir()
	l := open(t, Options{Dir: from})
	fillConcurrently(t, l, n)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	file := saved(t, from)
	t.Logf("saved and checked in %v: %d bytes", time.Since(began), len(file))
	began = time.Now()
	store := openStore(t, to)
	m, err := store.Restore(t.Context(), bytes.NewReader(file), nil)
	t.Logf("restored in %v", time.Since(began))
	if err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	lines, err := store.Export(t.Context(), io.Discard, transport.ExportOptions{})
	if err != nil || lines != n || m.Parts[1].Messages != n {
		t.Errorf("%d lines, %+v, %v", lines, m, err)
	}
	t.Logf("exported in %v", time.Since(began))
}
