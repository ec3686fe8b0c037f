// Package vectors stores vectors of texts in PostgreSQL, where gateways share them and they survive a restart: a vector computed by one gateway need
// not be computed by another. It knows neither models nor the purpose of the texts. Vectors are looked up by text and model, and never compared
// there: they are encrypted, and each caller compares a bounded number itself.
//
// No caller waits for the database beyond the lookup timeout: while it is down each lookup is an immediate miss, and nothing is stored.
package vectors

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/internal/guard"
)

// Limits.
const (
	DefaultTimeout = 10 * time.Millisecond
	DefaultRows    = 200_000

	workTime   = 2 * time.Second // of one statement
	maxLookups = 4               // concurrent lookups
	maxPending = 4096            // vectors that are not written yet
	maxBatch   = 64              // vectors of one statement
	maxTexts   = 1024            // of one lookup
	maxSlow    = 3               // consecutive lookups that may time out
	maxDims    = 1 << 14
)

// Outcome is the result of a text's lookup.
type Outcome string

// The outcomes.
const (
	Found    Outcome = "found"
	Absent   Outcome = "absent"
	Failed   Outcome = "failed"  // no answer in time, or an error
	Bypassed Outcome = "skipped" // not looked up: the database is down, or busy
)

// Options of a store.
type Options struct {
	DB      *sql.DB       // a PostgreSQL database, whose search path names a schema; the store closes it
	Secret  []byte        // of any length: the keys for names and vectors are derived from it
	Timeout time.Duration // of a lookup; zero means DefaultTimeout
	Rows    int           // maximum; zero means DefaultRows. A vector of 384 numbers takes about 2 kB
	Log     *slog.Logger
	Looked  func(result Outcome, texts int) // called for each lookup; may be nil
}

// Store stores the vectors. Safe for concurrent use.
type Store struct {
	o    Options
	mac  []byte
	aead cipher.AEAD

	asking  chan struct{}
	queue   chan row
	down    atomic.Pointer[error] // why no lookups are sent; nil while the database answers
	slow    atomic.Int32          // consecutive timeouts
	failing chan struct{}         // notified when away is set
	closing chan struct{}
	done    sync.WaitGroup
	once    sync.Once
}

// row is a vector to be written, or, without its vector, one that was used.
type row struct{ id, sealed []byte }

// errStarting is the error of a store that has not connected yet.
var errStarting = errors.New("it has not answered yet")

// Open returns a store, which connects in the background.
func Open(o Options) (*Store, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Rows <= 0 {
		o.Rows = DefaultRows
	}
	if o.Looked == nil {
		o.Looked = func(Outcome, int) {}
	}
	s := &Store{
		o: o, asking: make(chan struct{}, maxLookups), queue: make(chan row, maxPending), failing: make(chan struct{}, 1), closing: make(chan struct{}),
	}
	s.mac = s.derive("names")
	block, err := aes.NewCipher(s.derive("content"))
	if err != nil {
		return nil, err
	}
	if s.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	s.down.Store(&errStarting)
	o.DB.SetMaxOpenConns(maxLookups + 1) // one for writing
	o.DB.SetMaxIdleConns(maxLookups + 1)
	s.done.Add(1)
	guard.Go(func() { defer s.done.Done(); s.keep() })
	return s, nil
}

func (s *Store) derive(what string) []byte {
	m := hmac.New(sha256.New, s.o.Secret)
	m.Write([]byte("kept vectors: " + what))
	return m.Sum(nil)
}

// id returns a keyed hash of a text and the model, so that vectors of different models never mix.
func (s *Store) id(tag, text string) []byte {
	m := hmac.New(sha256.New, s.mac)
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(tag)))
	m.Write(n[:])
	m.Write([]byte(tag))
	m.Write([]byte(text))
	return m.Sum(nil)
}

// seal encrypts a vector for its id.
func (s *Store) seal(id []byte, v []float32) []byte {
	plain := make([]byte, 0, 4*len(v))
	for _, x := range v {
		plain = binary.LittleEndian.AppendUint32(plain, math.Float32bits(x))
	}
	return s.aead.Seal(nil, nil, plain, id) //nolint:gosec // it draws the nonce itself
}

// open decrypts a vector; nil if it is not one of this id and secret.
func (s *Store) open(id, sealed []byte) []float32 {
	plain, err := s.aead.Open(nil, nil, sealed, id)
	if err != nil || len(plain)%4 != 0 || len(plain) > 4*maxDims {
		return nil
	}
	v := make([]float32, len(plain)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(plain[4*i:]))
	}
	return v
}

// Put stores a text's vector from a model. It does not block: if there is no room the vector is dropped.
func (s *Store) Put(tag, text string, vector []float32) {
	if tag == "" || len(vector) == 0 || len(vector) > maxDims || s.Problem() != nil {
		return
	}
	id := s.id(tag, text)
	s.enqueue(row{id, s.seal(id, vector)})
}

func (s *Store) enqueue(r row) {
	select {
	case s.queue <- r:
	default:
	}
}

// Problem returns why no lookups are sent; nil while the database answers.
func (s *Store) Problem() error {
	if why := s.down.Load(); why != nil {
		return *why
	}
	return nil
}

// fail stops lookups until the database answers again.
func (s *Store) fail(err error) {
	if s.down.CompareAndSwap(nil, &err) {
		s.failing <- struct{}{} // has room: it is emptied before away is
	}
}

// Close writes pending vectors until ctx is done, and closes the connections.
func (s *Store) Close(ctx context.Context) error {
	s.once.Do(func() { close(s.closing) })
	ended := make(chan struct{})
	guard.Go(func() { defer close(ended); s.done.Wait() })
	select {
	case <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.o.DB.Close()
}
