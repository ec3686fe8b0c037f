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
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
)

// DefaultTimeout is how long a lookup may take. Redis beside the gateway answers in a fraction of a millisecond, and in another zone in two or three; a stored
// answer saves some hundred milliseconds at least.
const DefaultTimeout = 10 * time.Millisecond

// Time limits of what is beside requests, and bounds of the connections.
const (
	dialTime = time.Second
	workTime = 2 * time.Second // of one command of the writer's, of a listing, of a deletion
	idleTime = 4 * time.Minute
	maxConns = 64
)

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

	lookups *redigo.Pool
	work    *redigo.Pool
	circuit circuit

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
	s.circuit.init()
	if err := s.keys(); err != nil {
		return nil, err
	}
	var err error
	if s.lookups, err = s.pool(o.Timeout); err != nil {
		return nil, err
	}
	if s.work, err = s.pool(workTime); err != nil {
		return nil, err
	}
	s.queue.init()
	if err := s.probe(ctx); err != nil {
		s.circuit.slow = maxSlow
		s.fail(fmt.Errorf("%w: %w", errFirst, err))
	}
	return s, nil
}

// Start has the store write the questions of an index with their answers, and begins to write. It is called once, before the store is used.
func (s *Store) Start(questions *semantic.Index) {
	s.questions = questions
	s.done.Add(2)
	guard.Go(func() { defer s.done.Done(); s.write() })
	guard.Go(func() { defer s.done.Done(); s.watch() })
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

// pool makes the connections for commands of a time limit.
func (s *Store) pool(limit time.Duration) (*redigo.Pool, error) {
	network, address, options, err := s.target()
	if err != nil {
		return nil, err
	}
	options = append(options, redigo.DialReadTimeout(limit), redigo.DialWriteTimeout(limit), redigo.DialContextFunc(s.connect))
	return &redigo.Pool{
		DialContext: func(ctx context.Context) (redigo.Conn, error) {
			return redigo.DialContext(ctx, network, address, options...)
		},
		MaxIdle: maxConns / 4, MaxActive: maxConns, IdleTimeout: idleTime, Wait: true, TestOnBorrow: s.circuit.borrow,
	}, nil
}

// target reads the URL.
func (s *Store) target() (network, address string, options []redigo.DialOption, err error) {
	u := s.o.URL
	if password, ok := u.User.Password(); ok {
		options = append(options, redigo.DialUsername(u.User.Username()), redigo.DialPassword(password))
	}
	if u.Scheme == "unix" {
		return "unix", u.Path, options, nil
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.Atoi(db)
		if err != nil {
			return "", "", nil, fmt.Errorf("the number of the database: %w", err)
		}
		options = append(options, redigo.DialDatabase(n))
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	return "tcp", net.JoinHostPort(u.Hostname(), port), options, nil
}

// connect dials, and encrypts the connection of a rediss:// address.
func (s *Store) connect(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	if s.o.URL.Scheme != "rediss" {
		return d.DialContext(ctx, network, address)
	}
	own := s.o.TLS.Clone()
	if own == nil {
		own = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if own.ServerName == "" {
		own.ServerName = s.o.URL.Hostname()
	}
	return (&tls.Dialer{NetDialer: &d, Config: own}).DialContext(ctx, network, address)
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
	_ = s.lookups.Close() // both never fail
	return s.work.Close()
}
