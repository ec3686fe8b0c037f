// Package guardrail has an operator's own services look at requests before a provider gets them, and at answers before a client does (B-08). A service, called
// a hook, allows, refuses, or replaces texts. It sees what a provider would see: texts that are masked are masked for it, too. The layer calls hooks through
// Envoy, as providers are called. It does not know the configuration or the formats of requests.
package guardrail

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// Name is the layer's name in X-Bardo-Pipeline, and in tags.
const Name = policy.ByGuardrail

// Hook is one service.
type Hook struct {
	Name      string
	Cluster   string // of Envoy
	Host      string // with its port, for the Host header
	Path      string
	Token     secret.Text // sent as a bearer token, if it is set
	Timeout   time.Duration
	MaxBytes  int  // of what is sent, and of the answer
	OnError   Mode // when it does not answer, or may not be asked
	Shadow    bool // its answers are recorded, and nothing else
	Private   bool // it may see private requests
	Requests  bool // it looks at requests
	Responses bool // it looks at answers

	Profiles   []string   // pipeline profiles whose requests it looks at; empty: all
	Subsystems rule.Names // empty: all
	Keys       rule.Names // ids or names of API keys; empty: all
}

// Mode is what happens to a request whose hook fails.
type Mode string

// The modes.
const (
	Refuse Mode = "refuse" // it ends with an error; "" is the same
	Allow  Mode = "allow"  // it goes on
)

// Layer calls hooks. The zero value has none. Safe for concurrent use.
type Layer struct {
	Hooks  []Hook
	Client *http.Client  // of Envoy's egress listener, or of its clusters; nil: no hook is called
	Secret func() string // of the egress listener
}

var (
	_ pipeline.Layer      = Layer{}
	_ pipeline.Selective  = Layer{}
	_ pipeline.Waiting    = Layer{}
	_ pipeline.Responder  = Layer{}
	_ pipeline.Protecting = Layer{}
)

// Name is "guardrail".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: a hook names the profiles that it looks at by itself.
func (Layer) Profiles() []string { return profiles }

// Protects implements pipeline.Protecting.
func (Layer) Protects() {}

// Applies reports whether a hook looks at the request, or at its answer.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return l.Client != nil && slices.ContainsFunc(l.Hooks, func(h Hook) bool { return h.concerns(x) })
}

// Waits reports whether a hook looks at the request: its answer is waited for.
func (l Layer) Waits(x *pipeline.Exchange) bool {
	return l.Client != nil && slices.ContainsFunc(l.Hooks, func(h Hook) bool { return h.Requests && h.concerns(x) })
}

func (h *Hook) concerns(x *pipeline.Exchange) bool {
	if x.Request.Op != chat.Generate && !h.Requests { // nothing else has an answer of texts
		return false
	}
	return (len(h.Profiles) == 0 || slices.Contains(h.Profiles, x.Profile)) &&
		(len(h.Subsystems) == 0 || h.Subsystems.Match(x.Hints.Subsystem) || h.Subsystems.Match(x.Intent.Subsystem)) &&
		(len(h.Keys) == 0 || h.Keys.Match(string(x.Principal.Account)) || x.Principal.Name != "" && h.Keys.Match(x.Principal.Name))
}

// mayAsk reports whether a hook may see a request: one that is private, has a privacy tier or is for an enclave, only a hook that is private itself (D-05).
func (h *Hook) mayAsk(x *pipeline.Exchange) bool {
	return h.Private || !x.KeepsToPrivate()
}

// answer is what the layer holds of an exchange's answer.
type answer struct {
	events []chat.Event
	hooks  []*Hook // that look at the answer
}

var slot = pipeline.NewSlot[answer]()

// Request has the hooks look at the request, one after the other, and has the answer held for those that look at answers.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	x.Log = append(x.Log, pipeline.Entry{Layer: Name})
	var after []*Hook
	for i := range l.Hooks {
		h := &l.Hooks[i]
		if !h.concerns(x) {
			continue
		}
		if h.Requests {
			if err := l.lookAtRequest(ctx, x, h); err != nil {
				return err
			}
		}
		if h.Responses && x.Request.Op == chat.Generate && !x.Unread {
			if !h.mayAsk(x) && h.OnError != Allow && !h.Shadow { // no answer could be given: none is paid for
				return h.unseen(x, policy.StageRequest)
			}
			after = append(after, h)
		}
	}
	if len(after) > 0 {
		slot.Of(x).hooks = after
		x.WholeAnswer = true
		x.Watch(Name, l)
	}
	return nil
}

// lookAtRequest has one hook look at the request.
func (l Layer) lookAtRequest(ctx context.Context, x *pipeline.Exchange, h *Hook) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	v, err := l.ask(ctx, x, h, policy.StageRequest, textsOf(t))
	if err != nil || v == nil || len(v.Texts) == 0 {
		return err
	}
	if err := replaceIn(t, v.Texts); err != nil {
		return h.failed(x, policy.StageRequest, "bad_replacement")
	}
	if err := x.Change(t); err != nil {
		return h.failed(x, policy.StageRequest, "bad_replacement")
	}
	h.tag(x, policy.StageRequest, policy.DecisionReplaced, v.Reason)
	return nil
}

// ask has a hook look at texts. The verdict is nil where nothing is to be replaced; the error is a fault.
func (l Layer) ask(ctx context.Context, x *pipeline.Exchange, h *Hook, stage policy.TagStage, texts []text) (*verdict, error) {
	if !h.mayAsk(x) {
		if h.OnError == Allow || h.Shadow {
			h.tag(x, stage, policy.DecisionSkipped, "private")
			return nil, nil //nolint:nilnil // nothing is to be replaced
		}
		return nil, h.unseen(x, stage)
	}
	v, why := l.call(ctx, x, h, stage, texts)
	switch {
	case why != "" && stage == policy.StageRequest && errors.Is(ctx.Err(), context.Canceled): // the client has disconnected
		return nil, context.Cause(ctx)
	case why != "":
		return nil, h.failed(x, stage, why)
	case v.Action == actionRefuse:
		h.tag(x, stage, policy.DecisionRefused, v.Reason)
		if !h.Shadow {
			return nil, h.refusal(stage, v)
		}
	case v.Action == actionReplace && !h.Shadow:
		return v, nil
	case v.Action == actionReplace:
		h.tag(x, stage, policy.DecisionReplaced, v.Reason)
	default:
		h.tag(x, stage, policy.DecisionAllowed, v.Reason)
	}
	return nil, nil //nolint:nilnil // as above
}

// unseen refuses a request that the hook would have to look at and may not see.
func (h *Hook) unseen(x *pipeline.Exchange, stage policy.TagStage) *fault.Fault {
	h.tag(x, stage, policy.DecisionRefused, "private")
	return fault.Newf(fault.GuardrailRefused, "the guardrail %q has to look at every request, and may not see private ones: its operator can set private: true, or on_error: allow", h.Name)
}

// refusal is what the client is told. The hook's own words are shown as such.
func (h *Hook) refusal(stage policy.TagStage, v *verdict) *fault.Fault {
	what := "request"
	if stage == policy.StageResponse {
		what = "model's answer"
	}
	text := fmt.Sprintf("the guardrail %q refused the %s", h.Name, what)
	if said := strings.ToValidUTF8(v.Message, ""); said != "" {
		text += ": " + said
	}
	f := fault.New(fault.GuardrailRefused, text, nil)
	f.Quiet = true
	return f
}

// failed is what becomes of a request whose hook gave no verdict.
func (h *Hook) failed(x *pipeline.Exchange, stage policy.TagStage, why string) error {
	h.tag(x, stage, policy.DecisionFailed, why)
	if h.OnError == Allow || h.Shadow {
		return nil
	}
	return fault.Newf(fault.GuardrailDown, "the guardrail %q gave no verdict, and no request passes without it", h.Name)
}

// tag records what a hook decided.
func (h *Hook) tag(x *pipeline.Exchange, stage policy.TagStage, decision, reason string) {
	x.Tag(policy.Tag{By: Name, Rule: h.Name, Stage: stage, Decision: decision, Reason: reason, Shadow: h.Shadow})
}
