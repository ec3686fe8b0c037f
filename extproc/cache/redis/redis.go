// Package redis keeps stored answers in Redis, where several gateways share them: those of the exact cache, the questions by which the semantic cache finds
// them, and the providers of conversations. It implements cache.Shared, semantic.Shared and affinity's Shared. It knows neither requests nor who may store what.
//
// What is stored is encrypted, and the keys of Redis are keyed hashes: nobody without the secret can tell whose an entry is, or what it is about. Gateways with
// another secret, or of another version, see nothing of each other. A tenant has an index of its entries, by which they are found, listed and deleted: an entry that
// is not in the index is served by nobody. Each step that must be seen as a whole is a script of lua/.
package redis

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/redislink"
	"bardo.money/gateway/policy"
)

// DefaultTimeout is how long a lookup may take. Redis beside the gateway answers in a fraction of a millisecond, and in another zone in two or three; a stored
// answer saves some hundred milliseconds at least.
const DefaultTimeout = 10 * time.Millisecond

// workTime is the time limit of one command of the writer's, of a listing, of a deletion.
const workTime = 2 * time.Second

// Lives of what is stored of a tenant beside its entries.
const (
	indexLife = cache.MaxStale + time.Hour
	banLife   = 30 * 24 * time.Hour
)

// Options of a store.
type Options struct {
	URL      *url.URL // redis:// or rediss:// with user, password, host and number of the database; or unix:// with a path
	Secret   []byte   // of any length; entries are encrypted with a key that is derived from it
	Timeout  time.Duration
	MaxBytes int64 // of the entries of all gateways together
	Log      *slog.Logger
	TLS      *tls.Config // of rediss://; nil: the system's authorities

	Lost   func(entries int)    // is told of entries that were not written; nil for nothing
	Looked func(result Outcome) // is told of each lookup; nil for nothing
}

// Outcome is what came of a lookup.
type Outcome string

// The outcomes.
const (
	Found   Outcome = "found"
	Absent  Outcome = "absent"
	Failed  Outcome = "failed"  // Redis did not answer in time, or with an error
	Unasked Outcome = "skipped" // it has not answered before, and was left out
)

// Store is what gateways share. Safe for concurrent use.
type Store struct {
	o      Options
	prefix string
	mac    []byte
	aead   cipher.AEAD

	link *redislink.Link
	work *redigo.Pool

	questions *semantic.Index
	queue     queue
	writing   sync.Mutex // held while a batch is written
	wake      chan struct{}
	closing   chan struct{}
	done      sync.WaitGroup
	once      sync.Once
}

// Open makes a store and connects to Redis. When Redis is away the store begins as after an outage.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = cache.DefaultMaxBytes
	}
	if o.Lost == nil {
		o.Lost = func(int) {}
	}
	if o.Looked == nil {
		o.Looked = func(Outcome) {}
	}
	s := &Store{o: o, wake: make(chan struct{}, 1), closing: make(chan struct{})}
	if err := s.keys(); err != nil {
		return nil, err
	}
	s.queue.init()
	var err error
	s.link, err = redislink.Open(ctx, redislink.Options{
		URL: o.URL, TLS: o.TLS, Timeout: o.Timeout, Log: o.Log,
		Away: "the shared store of answers is away: requests go on without it", Back: "the shared store of answers is back",
	})
	if err != nil {
		return nil, err
	}
	s.work, err = s.link.Pool(workTime)
	return s, err
}

// Start has the store write the questions of an index with their answers, and begins to write. It is called once, before the store is used.
func (s *Store) Start(questions *semantic.Index) {
	s.questions = questions
	s.done.Add(1)
	guard.Go(func() { defer s.done.Done(); s.write() })
}

// keys derives the keys.
func (s *Store) keys() error {
	s.mac = s.derive("names")
	block, err := aes.NewCipher(s.derive("content"))
	if err != nil {
		return err
	}
	if s.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return err
	}
	s.prefix = "bardo:answers:" + s.name(8, "store", strconv.Itoa(cache.Version)) + ":"
	return nil
}

func (s *Store) derive(what string) []byte {
	m := hmac.New(sha256.New, s.o.Secret)
	m.Write([]byte("shared answers: " + what))
	return m.Sum(nil)
}

// Secret is a secret of all gateways that share the store, for the hashes of conversations.
func (s *Store) Secret() []byte { return s.derive("conversations") }

// name is a keyed hash of values, in hexadecimal digits.
func (s *Store) name(digits int, values ...string) string {
	m := hmac.New(sha256.New, s.mac)
	var n [8]byte
	for _, v := range values {
		binary.LittleEndian.PutUint64(n[:], uint64(len(v)))
		m.Write(n[:])
		m.Write([]byte(v))
	}
	return hex.EncodeToString(m.Sum(nil))[:digits]
}

func (s *Store) tenant(name policy.Account) string { return s.name(32, "tenant", string(name)) }

func (s *Store) entry(name policy.Account, k cache.Key) string {
	return s.name(32, "entry", string(name), string(k[:]))
}

func (s *Store) place(name policy.Account, p semantic.Place) string {
	return s.name(32, "place", string(name), string(p[:]))
}

// seal encrypts a value, which open decrypts for the same use alone.
func (s *Store) seal(plain []byte, use ...string) []byte {
	return s.aead.Seal(nil, nil, plain, []byte(strings.Join(use, "|"))) //nolint:gosec // it draws the nonce itself
}

func (s *Store) open(sealed []byte, use ...string) ([]byte, error) {
	return s.aead.Open(nil, nil, sealed, []byte(strings.Join(use, "|")))
}

// fail notes a failure.
func (s *Store) fail(err error) { s.link.Failed(err) }

// Problem is why lookups are skipped; nil while Redis answers.
func (s *Store) Problem() error { return s.link.Problem() }

// lookup asks Redis something within the time limit of a lookup.
func (s *Store) lookup(ctx context.Context, do func(redigo.Conn) (any, error)) (any, error) {
	out, err := s.link.Ask(ctx, do)
	switch {
	case err == nil:
	case errors.Is(err, redislink.ErrUnasked):
		s.o.Looked(Unasked)
	default:
		s.o.Looked(Failed)
	}
	return out, err
}

//go:embed lua
var sources embed.FS

// script is one of lua/. All have the prefix and the tenant as their first arguments, and no keys.
func script(name string) *redigo.Script {
	read := func(name string) string {
		b, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) //nolint:forbidigo // the files are part of the program
		}
		return string(b)
	}
	return redigo.NewScript(0, read("common")+read(name))
}

var (
	lookupScript = script("lookup")
	rowsScript   = script("rows")
	putScript    = script("put")
	countScript  = script("count")
	listScript   = script("list")
	removeScript = script("remove")
	flushScript  = script("flush")
	banScript    = script("ban")
	vectorScript = script("vector")
)

// ms is a time in milliseconds, at least one.
func ms(d time.Duration) int64 { return max(1, d.Milliseconds()) }

// Close writes what waits, at most until ctx is done, and ends the connections.
func (s *Store) Close(ctx context.Context) error {
	s.once.Do(func() { close(s.closing) })
	ended := make(chan struct{})
	guard.Go(func() { defer close(ended); s.done.Wait() })
	select {
	case <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	_ = s.work.Close() // both never fail
	return s.link.Close()
}
