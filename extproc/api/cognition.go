package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy/ledger"
)

// Endpoints that show the private provider's calls for the caller. None shows content, and each caller sees only its own calls.

// Paths of the stream of events.
const (
	StreamPath      = "/venice/stream"
	StreamTokenPath = "/venice/stream-token"
)

// StreamLife is the maximum duration of a stream; clients of event streams reconnect automatically.
const StreamLife = 15 * time.Minute

// Numbers of records without ?limit.
const (
	usualRecords = 100
	usualTokens  = 50
)

// VeniceStatus is GET /venice/status.
func (s *Server) VeniceStatus(_ context.Context, c *Caller) (stream.Reply, error) {
	if _, err := c.query(); err != nil {
		return stream.Reply{}, err
	}
	out := s.Plane.Status(c.Principal.Account)
	if c.Cognition.Mock {
		out = c.Cognition.MockStatus()
	}
	return c.uncached(out)
}

// uncached returns an answer that must not be cached.
func (c *Caller) uncached(v any) (stream.Reply, error) {
	body, err := json.Marshal(v)
	r := c.Head.JSON(body)
	r.Header = append(r.Header, header.Field{Name: "cache-control", Value: "no-store"})
	return r, err
}

// telemetry is the answer to GET /venice/telemetry.
type telemetry struct {
	Object string             `json:"object"`
	Mock   bool               `json:"mock"`
	Data   []cognition.Record `json:"data"`
}

// VeniceTelemetry is GET /venice/telemetry.
func (s *Server) VeniceTelemetry(_ context.Context, c *Caller) (stream.Reply, error) {
	limit, err := c.limit(usualRecords)
	if err != nil {
		return stream.Reply{}, err
	}
	out := telemetry{Object: "list", Mock: c.Cognition.Mock}
	if out.Mock {
		out.Data = c.Cognition.MockRecords(limit)
	} else {
		out.Data = s.Plane.Records(c.Principal.Account, limit)
	}
	return c.uncached(out)
}

// limit parses ?limit=, a number from 1 to cognition.MaxRecords.
func (c *Caller) limit(byDefault int) (int, error) {
	q, err := c.query("limit")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(byDefault)))
	if err != nil || n < 1 || n > cognition.MaxRecords {
		return 0, fault.Newf(fault.InvalidRequest, "limit: expected a number from 1 to %d", cognition.MaxRecords)
	}
	return n, nil
}

// maxScanned is the maximum number of tokens that are scanned for one caller's.
const maxScanned = 500

// VeniceAttestations is GET /venice/attestations.
func (s *Server) VeniceAttestations(ctx context.Context, c *Caller) (stream.Reply, error) {
	limit, err := c.limit(usualTokens)
	if err != nil {
		return stream.Reply{}, err
	}
	out := attestations{Object: "list", Mock: c.Cognition.Mock, Data: []cognition.Attested{}}
	switch {
	case out.Mock:
		out.Data = c.Cognition.MockTokens(limit)
	case s.Attestations != nil:
		if out.Data, err = s.tokensOf(ctx, c, limit); err != nil {
			return stream.Reply{}, err
		}
	}
	return c.uncached(out)
}

// attestations is the answer to GET /venice/attestations.
type attestations struct {
	Object string               `json:"object"`
	Mock   bool                 `json:"mock"`
	Data   []cognition.Attested `json:"data"`
}

// tokensOf returns the caller's latest tokens. The store of tokens does not know their owners; the requests' records do.
func (s *Server) tokensOf(ctx context.Context, c *Caller, limit int) ([]cognition.Attested, error) {
	tokens, err := s.Attestations.Latest(ctx, maxScanned)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the attestations cannot be read at the moment", err)
	}
	list := []cognition.Attested{}
	for i := range tokens {
		if len(list) == limit {
			break
		}
		t := &tokens[i]
		switch _, err := s.Ledger.Request(ctx, c.Principal.Account, t.RequestID); {
		case errors.Is(err, ledger.ErrUnknownRequest): // another account's, or its record has expired
			continue
		case err != nil:
			return nil, fault.New(fault.Unavailable, "the records of requests cannot be read at the moment", err)
		}
		list = append(list, cognition.Attested{Token: *t, Verified: t.Holds(c.Cognition.Attested[t.Provider])})
	}
	return list, nil
}

// streamToken is the query parameter of the stream's token.
const streamToken = "token"

// StreamToken returns the token in an address's query; "" if there is none.
func StreamToken(query string) string {
	q, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	return q.Get(streamToken)
}

// VeniceStreamToken is POST /venice/stream-token: it exchanges a key for a token that is valid for a few minutes. On the gateway's machine, where no
// key is needed, the token does not expire, and gives access to the events of callers without a key.
func (s *Server) VeniceStreamToken(_ context.Context, c *Caller) (stream.Reply, error) {
	if _, err := c.query(); err != nil {
		return stream.Reply{}, err
	}
	t := cognition.Token{Account: c.Principal.Account, Expires: time.Now().Add(cognition.TokenLife).Unix()}
	if c.Principal.Anonymous {
		t = cognition.Token{Local: true}
	}
	out := struct {
		Token   string `json:"token"`
		Expires *int64 `json:"expires_at"` // Unix time; null: never
		Local   bool   `json:"development"`
	}{Token: s.Tokens.Issue(t), Local: t.Local}
	if !t.Local {
		out.Expires = &t.Expires
	}
	return c.uncached(out)
}

// VeniceStream is GET /venice/stream.
func (s *Server) VeniceStream(_ context.Context, c *Caller) (r stream.Reply, err error) {
	if _, err := c.query(streamToken); err != nil {
		return r, err
	}
	r = eventStream()
	if c.Head.Method == http.MethodHead {
		return r, nil
	}
	f, err := s.Plane.Follow(c.Principal.Account, c.Head.Header.Get("last-event-id"), c.Cognition)
	if err == nil {
		c.Follow = f
	}
	return r, err
}
