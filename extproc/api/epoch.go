package api

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/epoch"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/auth"
)

// MaxEpochBody is the maximum size of the body of POST /venice/cache/advance, in bytes.
const MaxEpochBody = 4 << 10

// maxGolem is the maximum length of an agent's id, in bytes.
const maxGolem = 128

// AdvanceEpoch is POST /venice/cache/advance: the kernel of an agent's prompts has changed, so later ones use another key in the provider's cache.
func (s *Server) AdvanceEpoch(_ context.Context, c *Caller) (stream.Reply, error) {
	if err := auth.MayGenerate(c.Principal); err != nil { // a read-only key
		return stream.Reply{}, err
	}
	if _, err := c.query(); err != nil {
		return stream.Reply{}, err
	}
	if !c.Epochs.On {
		return stream.Reply{}, fault.Newf(fault.NotFound, "this gateway coordinates no keys of prompts (providers.venice.cache)")
	}
	doc, err := jsonx.Unique.Scan(c.Body)
	if err != nil {
		return stream.Reply{}, wire.NotJSON(err)
	}
	if err := onlyMembers(&doc, "golem_id"); err != nil {
		return stream.Reply{}, err
	}
	golem, ok := doc.Get("golem_id").Str()
	if !ok || golem == "" || len(golem) > maxGolem {
		return stream.Reply{}, wire.Invalid("golem_id", "golem_id must be an agent's id, of at most %d characters", maxGolem)
	}
	e := epoch.Advanced{GolemID: golem, Epoch: s.Epochs.Advance(c.Principal.Account, golem, time.Now()), Reason: epoch.Asked}
	if s.Events.On() {
		epoch.EventAdvanced.Emit(s.Events, c.Principal.Account, e)
	}
	return c.uncached(e)
}
