package api

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// storedReasoning is GET /v1/requests/{id}/reasoning.
type storedReasoning struct {
	RequestID string          `json:"request_id"`
	ExpiresAt time.Time       `json:"expires_at"`
	Reasoning json.RawMessage `json:"reasoning"` // a reasoning.Chain
}

// Reasoning returns the stored reasoning of one answer.
func (s *Server) Reasoning(_ context.Context, c *Caller) (stream.Reply, error) {
	id := strings.TrimSuffix(c.Head.Arg("/v1/requests/"), "/reasoning")
	k := s.Reasonings.get(id, c.Principal.Account)
	if k == nil {
		return stream.Reply{}, fault.Newf(fault.NotFound, "no reasoning of request %q is kept for this key: it is for ten minutes, of requests with the surface discord", fault.Clip(id))
	}
	body, err := json.Marshal(storedReasoning{id, k.over.UTC(), k.json})
	r := c.Head.JSON(body)
	r.Header = append(r.Header, header.Field{Name: "cache-control", Value: "no-store"})
	return r, err
}
