// Package redis stores the counters that gateways share in Redis: it implements quota.Store. It does not know the meaning of the values. The
// keys in Redis are HMACs of the clients' names, so that they reveal no client without the secret.
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

// DefaultTimeout is the default timeout of one swap.
const DefaultTimeout = 100 * time.Millisecond

// retention is how long unchanged counters are kept: longer than the day that they count.
const retention = 25 * time.Hour

// prefix is the prefix of all keys, with the version of the values' format.
const prefix = "bardo:limits:1:"

//go:embed swap.lua
var source string

var swap = redigo.NewScript(1, source)

// Options of a store. URL, Secret and Log are required.
type Options struct {
	URL     *url.URL // as in redislink.Options
	TLS     *tls.Config
	Secret  []byte        // of any length; the same at all gateways that share counters
	Timeout time.Duration // of one swap; zero means DefaultTimeout
	Log     *slog.Logger
}

// Store has counters in Redis. Safe for concurrent use.
type Store struct {
	link *redislink.Link
	mac  []byte
}

var _ quota.Store = (*Store)(nil)

// Open returns a store and connects to Redis. If Redis is unreachable, the store starts as during an outage.
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
		return swap.Do(c, s.key(client), have != nil, have, next, retention.Milliseconds())
	}))
	if errors.Is(err, redislink.ErrUnasked) {
		return nil, false, fmt.Errorf("%w: %w", quota.ErrUnavailable, err)
	}
	if err != nil {
		return nil, false, err
	}
	_, err = redigo.Scan(reply, &swapped, &now)
	return now, swapped, err
}

// key is the Redis key of a client's counters.
func (s *Store) key(client string) string {
	m := hmac.New(sha256.New, s.mac)
	m.Write([]byte(client))
	return prefix + hex.EncodeToString(m.Sum(nil)[:16])
}

// Problem is why gateways do not share counters at the moment; nil while they do.
func (s *Store) Problem() error { return s.link.Problem() }

// Close ends the connections.
func (s *Store) Close() error { return s.link.Close() }
