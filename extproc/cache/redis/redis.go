// Package redis keeps stored answers in Redis, where several gateways share them: those of the exact cache, the questions by which the semantic cache finds
// them, and the providers of conversations. It implements cache.Shared, semantic.Shared and affinity's Shared. It knows neither requests nor who may store what.
//
// Values are encrypted, and the keys of Redis are keyed hashes: without the secret, neither the account nor the content of an entry can be read. Gateways with
// another secret, or of another version, do not see each other's entries. A tenant has an index of its entries, by which they are found, listed and deleted: an
// entry that is not in the index is never served. Each step that must be atomic is a script of lua/.
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

// DefaultTimeout is the time limit of a lookup. Redis in the same zone answers in a fraction of a millisecond, and in another zone in two or three; a stored
// answer saves at least some hundred milliseconds.
const DefaultTimeout = 10 * time.Millisecond

// workTimeout is the time limit of one command of the writer, of a listing, or of a deletion.
const workTimeout = 2 * time.Second

// Lifetimes of a tenant's index and of its bans.
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

	Lost   func(entries int)    // called with the number of entries that were not written; may be nil
	Looked func(result Outcome) // called with the outcome of each lookup; may be nil
}

// Outcome is the result of a lookup.
type Outcome string

// The outcomes.
const (
	Found    Outcome = "found"
	Absent   Outcome = "absent"
	Failed   Outcome = "failed"  // Redis did not answer in time, or with an error
	Bypassed Outcome = "skipped" // Redis was unreachable before, and was not asked
)

// Store is the store that gateways share. Safe for concurrent use.
type Store struct {
	o      Options
	prefix string
	mac    []byte
	aead   cipher.AEAD

	link     *redislink.Link
	workPool *redigo.Pool

	questions *semantic.Index
	queue     queue
	writing   sync.Mutex // held while a batch is written
	wake      chan struct{}
	closing   chan struct{}
	done      sync.WaitGroup
	once      sync.Once
}

// Open makes a store and connects to Redis. If Redis is unreachable, the store starts in the state of an outage.
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
	s.workPool, err = s.link.Pool(workTimeout)
	return s, err
}

// Start starts the writer, which writes the questions of an index with their answers. It is called once, before the store is used.
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

func (s *Store) derive(purpose string) []byte {
	m := hmac.New(sha256.New, s.o.Secret)
	m.Write([]byte("shared answers: " + purpose))
	return m.Sum(nil)
}

// Secret is the secret for hashes of conversations, which is the same for all gateways that share the store.
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

// seal encrypts a value; open decrypts it only for the same use.
func (s *Store) seal(plain []byte, use ...string) []byte {
	return s.aead.Seal(nil, nil, plain, []byte(strings.Join(use, "|"))) //nolint:gosec // it draws the nonce itself
}

func (s *Store) open(sealed []byte, use ...string) ([]byte, error) {
	return s.aead.Open(nil, nil, sealed, []byte(strings.Join(use, "|")))
}

// fail reports a failure to the link.
func (s *Store) fail(err error) { s.link.Failed(err) }

// Problem is why lookups are skipped; nil while Redis answers.
func (s *Store) Problem() error { return s.link.Problem() }

// lookup sends a command to Redis with the time limit of a lookup.
func (s *Store) lookup(ctx context.Context, do func(redigo.Conn) (any, error)) (any, error) {
	out, err := s.link.Ask(ctx, do)
	switch {
	case err == nil:
	case errors.Is(err, redislink.ErrUnasked):
		s.o.Looked(Bypassed)
	default:
		s.o.Looked(Failed)
	}
	return out, err
}

//go:embed lua
var sources embed.FS

// script reads one of lua/. All scripts have the prefix and the tenant as their first arguments, and no keys.
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

// ms is a duration in milliseconds, at least one.
func ms(d time.Duration) int64 { return max(1, d.Milliseconds()) }

// Close writes what is pending, at most until ctx is done, and closes the connections.
func (s *Store) Close(ctx context.Context) error {
	s.once.Do(func() { close(s.closing) })
	ended := make(chan struct{})
	guard.Go(func() { defer close(ended); s.done.Wait() })
	select {
	case <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	_ = s.workPool.Close() // both never fail
	return s.link.Close()
}
