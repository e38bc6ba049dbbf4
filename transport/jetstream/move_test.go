package jetstream

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/spec/topic"
	"github.com/cinnabar-hub/cinnabar/transport"
)

// A log moves from one node into an embedded cluster whose nodes are running, and back into a directory: on every
// node every id is where it was, and nothing of the history is taken for new.
func TestALogMovesIntoAClusterAndBack(t *testing.T) {
	t.Parallel()
	alone := t.TempDir()
	kept, gone := fillHistory(t, alone, true)
	file := saved(t, alone)

	for _, mode := range []Mode{FollowAll, FollowInterest} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			moveIntoAClusterAndBack(t, mode, file, slices.Clone(kept), gone)
		})
	}
}

func moveIntoAClusterAndBack(t *testing.T, mode Mode, file []byte, kept, gone []transport.Entry) {
	t.Helper()
	logs := openCluster(t, 3, Options{Follow: mode})
	var followers []*collector
	for _, l := range logs {
		c := &collector{}
		in, err := l.Follow(t.Context(), c.take)
		if err == nil {
			_, err = in.Add(t.Context(), topic.Selector{Kind: topic.Classic, Pattern: "*"})
		}
		if err != nil {
			t.Fatal(err)
		}
		followers = append(followers, c)
	}
	cut := file[:bytes.Index(file, []byte("updates/00000001"))+600]
	if _, err := logs[0].Restore(t.Context(), bytes.NewReader(cut), nil); !errors.Is(err, transport.ErrBackup) || !strings.Contains(err.Error(), "the target is empty") {
		t.Errorf("a part was restored: %v", err)
	}
	if _, err := logs[1].Restore(t.Context(), bytes.NewReader(file), nil); err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		mustHoldNow(t, l, kept, gone)
	}
	e := add(t, logs[0], update(0))
	if e.Pos != 101 {
		t.Errorf("the next position is %d", e.Pos)
	}
	for i, f := range followers {
		if got := f.until(t, 101); len(got) != 1 {
			t.Errorf("node %d was handed %d entries of the backup", i, len(got)-1)
		}
		mustLocate(t, logs[i], e.Update.ID, e.Pos)
	}
	if _, err := logs[2].Restore(t.Context(), bytes.NewReader(file), nil); !errors.Is(err, transport.ErrNotEmpty) {
		t.Errorf("restored over updates: %v", err)
	}

	var back bytes.Buffer
	if _, err := logs[2].Backup(t.Context(), &back, nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store := openStore(t, dir)
	_, err := store.Restore(t.Context(), &back, nil)
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	l := open(t, Options{Dir: dir})
	mustHoldNow(t, l, append(kept, e), gone)
}

// mustHoldNow is mustHold for a log that a restore has replaced under a hub.
func mustHoldNow(t *testing.T, l *Log, kept, gone []transport.Entry) {
	t.Helper()
	eventually(t, "the node to read the restored log", func() bool {
		s, err := l.Span(t.Context())
		return err == nil && s.Last >= kept[len(kept)-1].Pos
	})
	mustBeSame(t, "scan", scan(t, l, kept[0].Pos-1, 1000), kept)
	for _, e := range kept {
		mustLocate(t, l, e.Update.ID, e.Pos)
	}
	for _, e := range gone[:max(len(gone)-1, 0)] {
		if _, err := l.Locate(t.Context(), e.Update.ID); !errors.Is(err, transport.ErrTrimmed) {
			t.Fatalf("locate %s, which was trimmed: %v", e.Update.ID, err)
		}
	}
}

// A hub that is alone takes a backup while it runs: at once, and for itself.
func TestALogIsRestoredUnderAHub(t *testing.T) {
	from := t.TempDir()
	kept, _ := fillHistory(t, from, false)
	file := saved(t, from)
	to := t.TempDir()
	l := open(t, Options{Dir: to})
	c := follow(t, l)
	if _, err := l.Restore(t.Context(), bytes.NewReader(file[:len(file)*2/3]), nil); err == nil {
		t.Fatal("a part was restored")
	}
	if s, err := l.Span(t.Context()); err != nil || s.Last != 0 {
		t.Errorf("after a restore that failed: %+v, %v", s, err)
	}
	m, err := l.Restore(t.Context(), bytes.NewReader(file), nil)
	if err != nil || m.Updates().Last != 100 {
		t.Fatalf("%+v, %v", m, err)
	}
	mustHoldNow(t, l, kept, nil)
	kept = append(kept, add(t, l, update(0)))
	if kept[len(kept)-1].Pos != 101 {
		t.Errorf("the next position is %d", kept[len(kept)-1].Pos)
	}
	if got := c.until(t, 101); len(got) != 1 {
		t.Errorf("%d entries of the backup were handed out", len(got)-1)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustHoldNow(t, open(t, Options{Dir: to}), kept, nil)
}

// Two at a time would each delete what the other has made.
func TestOneRestoreAtATime(t *testing.T) {
	from := t.TempDir()
	fillHistory(t, from, false)
	file := saved(t, from)
	l := open(t, Options{Dir: t.TempDir()})
	var second error
	first := true
	r := readerFunc(func([]byte) (int, error) {
		if first {
			first = false
			_, second = l.Restore(t.Context(), bytes.NewReader(file), nil)
		}
		return 0, io.EOF
	})
	if _, err := l.Restore(t.Context(), io.MultiReader(bytes.NewReader(file[:2000]), r, bytes.NewReader(file[2000:])), nil); err != nil {
		t.Error(err)
	}
	if !errors.Is(second, transport.ErrRestoring) {
		t.Errorf("the second: %v", second)
	}
}

// External servers make the streams as a hub would, with copies; the hubs that come later find them.
func TestALogMovesToServersThatAreThere(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	fillHistory(t, from, true)
	s, prefix := sharedServers(t)
	o := Options{Prefix: prefix, Servers: &Servers{URLs: s.urls(0)}}
	// the prefix is a part of every subject, so it is the same on both sides
	here := open(t, Options{Dir: t.TempDir(), Prefix: prefix})
	var want []transport.Entry
	for i := range 30 {
		want = append(want, add(t, here, update(i)))
	}
	var file bytes.Buffer
	if _, err := here.Backup(t.Context(), &file, nil); err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), bytes.NewReader(saved(t, from)), nil); !errors.Is(err, transport.ErrBackup) {
		t.Errorf("a backup of another prefix: %v", err)
	}
	_, err = store.Restore(t.Context(), &file, nil)
	var lines bytes.Buffer
	n, err2 := store.Export(t.Context(), &lines, transport.ExportOptions{})
	if err := errors.Join(err, err2, store.Close()); err != nil || n != 30 {
		t.Fatalf("%d lines, %v", n, err)
	}
	mustHoldNow(t, openExternal(t, s, Options{Prefix: prefix}), want, nil)
}
