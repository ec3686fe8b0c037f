// Package redis keeps the counters of clients in Redis, where gateways count together: it implements quota.Store. It does not know what the counters mean. The
// keys of Redis are keyed hashes, so that nobody without the secret can tell whose counters they are.
package redis

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	_ "embed" // the script
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"bardo.money/gateway/internal/redislink"
	"bardo.money/gateway/policy/quota"
)

// DefaultTimeout is how long one replacement may take.
const DefaultTimeout = 100 * time.Millisecond

// life is how long counters are kept that nobody changes: longer than the day that they count.
const life = 25 * time.Hour

// prefix is that of all keys. It changes with the form of the counters.
const prefix = "bardo:limits:1:"

//go:embed swap.lua
var source string

var swap = redigo.NewScript(1, source)

// Options of a store. URL, Secret and Log are required.
type Options struct {
	URL     *url.URL // as in redislink.Options
	TLS     *tls.Config
	Secret  []byte        // of any length; the same at all gateways that count together
	Timeout time.Duration // of one replacement; zero means DefaultTimeout
	Log     *slog.Logger
}

// Store is counters in Redis. Safe for concurrent use.
type Store struct {
	link *redislink.Link
	mac  []byte
}

var _ quota.Store = (*Store)(nil)

// Open makes a store and connects to Redis. When Redis is away the store begins as after an outage.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	link, err := redislink.Open(ctx, redislink.Options{
		URL: o.URL, TLS: o.TLS, Timeout: o.Timeout, Log: o.Log, Away: "the store of limits is away: gateways do not count together", Back: "the store of limits is back",
	})
	if err != nil {
		return nil, err
	}
	m := hmac.New(sha256.New, o.Secret)
	m.Write([]byte("names of limits"))
	return &Store{link: link, mac: m.Sum(nil)}, nil
}

// Swap implements quota.Store.
func (s *Store) Swap(ctx context.Context, client string, have, next []byte) (now []byte, swapped bool, err error) {
	reply, err := redigo.Values(s.link.Ask(ctx, func(c redigo.Conn) (any, error) {
		return swap.Do(c, s.key(client), have != nil, have, next, life.Milliseconds())
	}))
	if errors.Is(err, redislink.ErrUnasked) {
		return nil, false, fmt.Errorf("%w: %w", quota.ErrAway, err)
	}
	if err != nil {
		return nil, false, err
	}
	_, err = redigo.Scan(reply, &swapped, &now)
	return now, swapped, err
}

// key is the name of a client's counters.
func (s *Store) key(client string) string {
	m := hmac.New(sha256.New, s.mac)
	m.Write([]byte(client))
	return prefix + hex.EncodeToString(m.Sum(nil)[:16])
}

// Problem is why gateways do not count together; nil while they do.
func (s *Store) Problem() error { return s.link.Problem() }

// Close ends the connections.
func (s *Store) Close() error { return s.link.Close() }
