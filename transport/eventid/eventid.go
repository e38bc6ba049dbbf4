// Package eventid makes the event ids that a hub gives to updates published without one. An id is an
// ordinary version-8 UUID URN whose 122 free bits are a keyed permutation of (epoch, position, check):
// whoever has the key reads the position from the id, so that no index is stored, and nobody else learns
// anything from it, neither order nor rate (REC-17). A UUID made elsewhere, or by another epoch of the log,
// does not decode.
//
//	122 bits:  epoch (24) | position (56) | check (42)
//	           └── 61 bits left ──┴── 61 bits right ──┘   ten Feistel rounds, AES as round function
package eventid

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Widths of the three parts.
const (
	EpochBits    = 24
	PositionBits = 56
	CheckBits    = 42
)

// KeySize is the length of a key in bytes.
const KeySize = 32

const (
	prefix  = "urn:uuid:"
	length  = len(prefix) + 36
	rounds  = 10 // more than the four a strong round function needs; they cost 20 ns each
	half    = 61
	halfMax = 1<<half - 1
)

// Codec turns positions into ids and back. It is immutable and safe for concurrent use.
type Codec struct {
	block cipher.Block
	epoch uint64
}

// New makes a codec from a secret key of KeySize bytes and an epoch, of which the lowest EpochBits count.
func New(key []byte, epoch uint32) (*Codec, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("eventid: key of %d bytes, want %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("eventid: %w", err)
	}
	return &Codec{block: block, epoch: uint64(epoch) & (1<<EpochBits - 1)}, nil
}

// NewRandom makes a codec whose key and epoch are random: for logs that end with the process.
func NewRandom() *Codec {
	var b [KeySize + 4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	c, err := New(b[:KeySize], binary.BigEndian.Uint32(b[KeySize:]))
	if err != nil {
		panic(err) // the key has the right size
	}
	return c
}

// Check returns the check value of a nonce: CheckBits of its hash.
func Check(nonce string) uint64 {
	sum := sha256.Sum256([]byte(nonce))
	return binary.BigEndian.Uint64(sum[:8]) >> (64 - CheckBits)
}

// Encode returns the id of pos, of which the lowest PositionBits count, and check, of which the lowest
// CheckBits count: "urn:uuid:" and a lower-case version-8 UUID (RFC 9562 §5.8).
func (c *Codec) Encode(pos, check uint64) string {
	pos &= 1<<PositionBits - 1
	check &= 1<<CheckBits - 1
	// left = epoch and the upper 37 bits of the position, right = its lower 19 bits and check
	const low = half - CheckBits
	left, right := c.epoch<<(PositionBits-low)|pos>>low, (pos&(1<<low-1))<<CheckBits|check
	var b [aes.BlockSize]byte
	for r := range byte(rounds) {
		left, right = right, left^c.round(&b, r, right)
	}
	return format(left, right)
}

// Decode returns what was encoded into id, and false if id is not an id of this codec's key and epoch.
// A foreign UUID passes with a probability of 2^-24: compare check with what is stored at pos.
func (c *Codec) Decode(id string) (pos, check uint64, ok bool) {
	left, right, ok := parse(id)
	if !ok {
		return 0, 0, false
	}
	var b [aes.BlockSize]byte
	for r := byte(rounds); r > 0; r-- {
		left, right = right^c.round(&b, r-1, left), left
	}
	const low = half - CheckBits
	if left>>(PositionBits-low) != c.epoch {
		return 0, 0, false
	}
	pos = (left&(1<<(PositionBits-low)-1))<<low | right>>CheckBits
	return pos, right & (1<<CheckBits - 1), true
}

// round is the round function: 61 bits of AES over the round's number and the half. b is scratch space.
func (c *Codec) round(b *[aes.BlockSize]byte, r byte, x uint64) uint64 {
	binary.BigEndian.PutUint64(b[:], uint64(r))
	binary.BigEndian.PutUint64(b[8:], x)
	c.block.Encrypt(b[:], b[:])
	return binary.BigEndian.Uint64(b[:8]) & halfMax
}

// format lays the two halves around the version and variant bits: 48 bits, version, 12 bits, variant, 62 bits.
func format(left, right uint64) string {
	var b [16]byte
	hi, lo := left>>1, (left&1)<<half|right // 60 and 62 bits
	binary.BigEndian.PutUint64(b[:8], hi>>12<<16|0x8000|hi&0xfff)
	binary.BigEndian.PutUint64(b[8:], 1<<63|lo)
	var s [length]byte
	copy(s[:], prefix)
	u := s[len(prefix):]
	hex.Encode(u[0:8], b[0:4])
	hex.Encode(u[9:13], b[4:6])
	hex.Encode(u[14:18], b[6:8])
	hex.Encode(u[19:23], b[8:10])
	hex.Encode(u[24:36], b[10:16])
	u[8], u[13], u[18], u[23] = '-', '-', '-', '-'
	return string(s[:])
}

// parse undoes format. It accepts nothing but what format writes: an event id is a string, not a UUID.
func parse(id string) (left, right uint64, ok bool) {
	if len(id) != length || id[:len(prefix)] != prefix {
		return 0, 0, false
	}
	var w [2]uint64
	n := 0
	for i, c := range []byte(id[len(prefix):]) {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return 0, 0, false
			}
			continue
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, 0, false
		}
		w[n/16] = w[n/16]<<4 | uint64(c)
		n++
	}
	if w[0]>>12&0xf != 8 || w[1]>>62 != 2 {
		return 0, 0, false
	}
	hi, lo := w[0]>>16<<12|w[0]&0xfff, w[1]&(1<<62-1)
	return hi<<1 | lo>>half, lo & halfMax, true
}
