package extproc

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// keptReasoning is GET /v1/requests/{id}/reasoning.
type keptReasoning struct {
	RequestID string          `json:"request_id"`
	ExpiresAt time.Time       `json:"expires_at"`
	Reasoning json.RawMessage `json:"reasoning"` // a reasoning.Chain
}

// keepReasoning keeps an answer's reasoning for its own account, where the surface may ask for it afterwards.
func (x *exchange) keepReasoning(a *answer) {
	if a == nil || a.shown == nil || !a.shown.view.Keeps() || !x.mayKeep() {
		return
	}
	c := a.chain()
	if c.Visibility == reasoning.None {
		return
	}
	b, err := json.Marshal(c)
	if err != nil {
		x.gw.Log.Error("an answer's reasoning cannot be kept", "request", x.ID, "error", err)
		return
	}
	x.gw.reasonings.put(x.ID, x.Principal.Account, b)
}

// mayKeep reports whether anything of the answer may be kept: nothing is of callers without an account, and nothing of what is confidential
// (D-05) or in any way asked to be private (D-44).
func (x *exchange) mayKeep() bool {
	in := &x.Intent
	return x.Principal.Account != "" && in.Security == policy.SecurityStandard && in.PrivacyTier == policy.PrivacyUnsaid &&
		!intent.IsTaskClass(x.Hints.TaskClass) && !slices.ContainsFunc(in.Require, isSecret) && !slices.ContainsFunc(in.Prefer, isSecret)
}

// isSecret reports whether who wants a feature wants nothing to be retained.
func isSecret(f policy.Feature) bool {
	return f == policy.Privacy || f == policy.NoLog || f == policy.TEEAttested || f == policy.EndToEndEncryption
}

// showReasoning is what was kept of one answer's reasoning.
func showReasoning(_ context.Context, x *exchange) (stream.Reply, error) {
	id := strings.TrimSuffix(x.arg("/v1/requests/"), "/reasoning")
	k := x.gw.reasonings.get(id, x.Principal.Account)
	if k == nil {
		return stream.Reply{}, fault.Newf(fault.NotFound, "no reasoning of request %q is kept for this key: it is for ten minutes, of requests with the surface discord", clipped(id))
	}
	body, err := json.Marshal(keptReasoning{id, k.over.UTC(), k.json})
	r := x.jsonReply(body)
	r.Header = append(r.Header, header.Field{Name: "cache-control", Value: "no-store"})
	return r, err
}
