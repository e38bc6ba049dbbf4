package eventid

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func testCodec(t testing.TB, key byte, epoch uint32) *Codec {
	t.Helper()
	c, err := New(bytes.Repeat([]byte{key}, KeySize), epoch)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryPartSurvivesTheRoundTrip(t *testing.T) {
	edges := func(bits int) []uint64 {
		e := []uint64{0, 1, 2, 1<<bits - 1, 1<<bits - 2, 1 << (bits - 1)}
		for i := range bits {
			e = append(e, 1<<i)
		}
		return e
	}
	for _, epoch := range []uint32{0, 1, 1<<EpochBits - 1, 0x5a5a5a} {
		c := testCodec(t, 7, epoch)
		for _, pos := range edges(PositionBits) {
			for _, check := range edges(CheckBits) {
				gotPos, gotCheck, ok := c.Decode(c.Encode(pos, check))
				if !ok || gotPos != pos || gotCheck != check {
					t.Fatalf("epoch %d: (%d, %d) came back as (%d, %d, %v)", epoch, pos, check, gotPos, gotCheck, ok)
				}
			}
		}
	}
}

func TestIDIsAVersion8UUIDURN(t *testing.T) {
	shape := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	c := testCodec(t, 1, 99)
	for range 1000 {
		if id := c.Encode(rand.Uint64(), rand.Uint64()); !shape.MatchString(id) {
			t.Fatalf("%q is not a lower-case version 8 UUID URN", id)
		}
	}
}

func TestNeighboursShareNothingVisible(t *testing.T) {
	c := testCodec(t, 3, 5)
	ids := make([]string, 2000)
	seen := map[string]bool{}
	for i := range ids {
		ids[i] = c.Encode(uint64(i+1), 0)
		if seen[ids[i]] {
			t.Fatalf("%s made twice", ids[i])
		}
		seen[ids[i]] = true
	}
	ascending, flipped := 0, 0
	for i := 1; i < len(ids); i++ {
		if ids[i] > ids[i-1] {
			ascending++
		}
		a, b, _ := parse(ids[i])
		x, y, _ := parse(ids[i-1])
		flipped += ones(a^x) + ones(b^y)
	}
	if ascending < 850 || ascending > 1150 {
		t.Errorf("%d of 1999 neighbours ascend, want about half", ascending)
	}
	if mean := float64(flipped) / 1999; mean < 59 || mean > 63 {
		t.Errorf("neighbours differ in %.1f of 122 bits, want about 61", mean)
	}
	sorted := slices.Sorted(slices.Values(ids))
	if slices.Equal(ids, sorted) {
		t.Error("ids sort by position")
	}
}

func ones(x uint64) (n int) {
	for ; x != 0; x &= x - 1 {
		n++
	}
	return n
}

func TestForeignIDsDoNotDecode(t *testing.T) {
	c := testCodec(t, 1, 77)
	own := c.Encode(42, 4711)
	for name, id := range map[string]string{
		"empty":               "",
		"bare UUID":           own[len("urn:uuid:"):],
		"upper case":          "urn:uuid:" + strings.ToUpper(own[len("urn:uuid:"):]),
		"upper-case prefix":   "URN:UUID:" + own[len("urn:uuid:"):],
		"too long":            own + "0",
		"too short":           own[:len(own)-1],
		"dash moved":          strings.Replace(own, "-", "0", 1),
		"not hexadecimal":     own[:len(own)-1] + "g",
		"version 4":           own[:len("urn:uuid:")+14] + "4" + own[len("urn:uuid:")+15:],
		"other variant":       own[:len("urn:uuid:")+19] + "c" + own[len("urn:uuid:")+20:],
		"other epoch":         testCodec(t, 1, 78).Encode(42, 4711),
		"other key":           testCodec(t, 2, 77).Encode(42, 4711),
		"fragment":            "#" + own,
		"random version 4":    "urn:uuid:f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
		"all zero version 8":  "urn:uuid:00000000-0000-8000-8000-000000000000",
		"publisher's own IRI": "https://example.com/books/1",
	} {
		t.Run(name, func(t *testing.T) {
			if pos, _, ok := c.Decode(id); ok {
				t.Errorf("%q decodes to %d", id, pos)
			}
		})
	}
}

func TestKeyHasOneSize(t *testing.T) {
	if _, err := New(make([]byte, 16), 1); err == nil {
		t.Error("a key of 16 bytes is accepted")
	}
	if a, b := NewRandom().Encode(1, 0), NewRandom().Encode(1, 0); a == b {
		t.Error("two random codecs make the same id")
	}
}

func TestCheckFitsItsBits(t *testing.T) {
	for _, nonce := range []string{"", "a", "b", "a longer one"} {
		if Check(nonce) >= 1<<CheckBits {
			t.Errorf("Check(%q) is wider than %d bits", nonce, CheckBits)
		}
	}
	if Check("a") == Check("b") {
		t.Error("two nonces have the same check value")
	}
}

func FuzzIDIsABijection(f *testing.F) {
	f.Add(uint32(0), uint64(0), uint64(0))
	f.Add(uint32(1<<24-1), uint64(1<<56-1), uint64(1<<42-1))
	f.Fuzz(func(t *testing.T, epoch uint32, pos, check uint64) {
		pos, check = pos&(1<<PositionBits-1), check&(1<<CheckBits-1)
		c := testCodec(t, 9, epoch)
		gotPos, gotCheck, ok := c.Decode(c.Encode(pos, check))
		if !ok || gotPos != pos || gotCheck != check {
			t.Fatalf("(%d, %d) came back as (%d, %d, %v)", pos, check, gotPos, gotCheck, ok)
		}
	})
}

func FuzzDecodeTakesOnlyWhatEncodeMakes(f *testing.F) {
	f.Add("urn:uuid:00000000-0000-8000-8000-000000000000")
	f.Add("urn:uuid:f81d4fae-7dec-81d0-a765-00a0c91e6bf6")
	f.Fuzz(func(t *testing.T, id string) {
		left, right, ok := parse(id)
		if ok && format(left, right) != id {
			t.Fatalf("%q is read as %q", id, format(left, right))
		}
		c := testCodec(t, 9, 1)
		if pos, check, ok := c.Decode(id); ok && c.Encode(pos, check) != id {
			t.Fatalf("%q decodes but is not what Encode makes", id)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	c := NewRandom()
	b.ReportAllocs()
	for b.Loop() {
		c.Encode(123456, 789)
	}
}

func BenchmarkDecode(b *testing.B) {
	c := NewRandom()
	id := c.Encode(123456, 789)
	b.ReportAllocs()
	for b.Loop() {
		c.Decode(id)
	}
}
