// Package guardrail lets an operator's own services inspect requests before a provider gets them, and answers before the client does (B-08). A service, called
// a hook, allows, refuses, or replaces texts. It sees what a provider would see: masked texts are masked for it, too. The layer calls hooks through Envoy, as
// providers are called. It does not know the configuration or the formats of requests.
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
	MaxBytes  int  // of a request to the hook, and of its answer
	OnError   Mode // for a hook that fails, or may not see the request
	Shadow    bool // its answers are only recorded
	Private   bool // it may see private requests
	Requests  bool // it inspects requests
	Responses bool // it inspects answers

	Profiles   []string   // pipeline profiles whose requests it inspects; empty: all
	Subsystems rule.Names // empty: all
	Keys       rule.Names // ids or names of API keys; empty: all
}

// Mode is what happens to a request whose hook fails.
type Mode string

// The modes.
const (
	Refuse Mode = "refuse" // it ends with an error; "" is the same
	Allow  Mode = "allow"  // it continues
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
	_ pipeline.Demanding  = Layer{}
)

// Name is "guardrail".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: each hook has its own list of profiles.
func (Layer) Profiles() []string { return profiles }

// Protects implements pipeline.Protecting.
func (Layer) Protects() {}

// Demands implements pipeline.Demanding.
func (l Layer) Demands(x *pipeline.Exchange) string {
	for i := range l.Hooks {
		if h := &l.Hooks[i]; !h.Shadow && (h.Requests || h.Responses) && h.applies(x) {
			return "the guardrail " + h.Name + " has to inspect them (pipeline.guardrails)"
		}
	}
	return ""
}

// Applies reports whether a hook inspects the request or its answer.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return l.Client != nil && slices.ContainsFunc(l.Hooks, func(h Hook) bool { return h.concerns(x) })
}

// Waits reports whether a hook inspects the request, which waits for the verdict.
func (l Layer) Waits(x *pipeline.Exchange) bool {
	return l.Client != nil && slices.ContainsFunc(l.Hooks, func(h Hook) bool { return h.Requests && h.concerns(x) })
}

func (h *Hook) concerns(x *pipeline.Exchange) bool {
	if x.Request.Op != chat.Generate && !h.Requests { // only generations have answers with texts
		return false
	}
	return h.applies(x)
}

// applies reports whether the hook is for the exchange's profile, subsystem and key.
func (h *Hook) applies(x *pipeline.Exchange) bool {
	return (len(h.Profiles) == 0 || slices.Contains(h.Profiles, x.Profile)) &&
		(len(h.Subsystems) == 0 || h.Subsystems.Match(x.Hints.Subsystem) || h.Subsystems.Match(x.Intent.Subsystem)) &&
		(len(h.Keys) == 0 || h.Keys.Match(string(x.Principal.Account)) || x.Principal.Name != "" && h.Keys.Match(x.Principal.Name))
}

// maySee reports whether a hook may see a request. Requests that are private, have a privacy tier or are for an enclave are only for private hooks (D-05).
func (h *Hook) maySee(x *pipeline.Exchange) bool {
	return h.Private || !x.KeepsToPrivate()
}

// answer holds an exchange's answer until it is complete.
type answer struct {
	events []chat.Event
	hooks  []*Hook // that inspect the answer
}

var slot = pipeline.NewSlot[answer]()

// Request has the hooks inspect the request, one after the other, and registers those that inspect the answer.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	x.Log = append(x.Log, pipeline.Entry{Layer: Name})
	var after []*Hook
	for i := range l.Hooks {
		h := &l.Hooks[i]
		if !h.concerns(x) {
			continue
		}
		if h.Requests {
			if err := l.checkRequest(ctx, x, h); err != nil {
				return err
			}
		}
		if h.Responses && x.Request.Op == chat.Generate && !x.Unread {
			if !h.maySee(x) && h.OnError != Allow && !h.Shadow { // refused now, since its answer would be refused after it was paid for
				return h.refusePrivate(x, policy.StageRequest)
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

// checkRequest has one hook inspect the request.
func (l Layer) checkRequest(ctx context.Context, x *pipeline.Exchange, h *Hook) error {
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

// ask has a hook inspect texts. The verdict is nil unless texts are to be replaced; the error is a fault.
func (l Layer) ask(ctx context.Context, x *pipeline.Exchange, h *Hook, stage policy.TagStage, texts []text) (*verdict, error) {
	if !h.maySee(x) {
		if h.OnError == Allow || h.Shadow {
			h.tag(x, stage, policy.DecisionSkipped, "private")
			return nil, nil //nolint:nilnil // nothing is to be replaced
		}
		return nil, h.refusePrivate(x, stage)
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

// refusePrivate refuses a request that the hook must inspect and may not see.
func (h *Hook) refusePrivate(x *pipeline.Exchange, stage policy.TagStage) *fault.Fault {
	h.tag(x, stage, policy.DecisionRefused, "private")
	return fault.Newf(fault.GuardrailRefused, "the guardrail %q has to look at every request, and may not see private ones: its operator can set private: true, or on_error: allow", h.Name)
}

// refusal is the client's error, with the hook's message as such.
func (h *Hook) refusal(stage policy.TagStage, v *verdict) *fault.Fault {
	subject := "request"
	if stage == policy.StageResponse {
		subject = "model's answer"
	}
	text := fmt.Sprintf("the guardrail %q refused the %s", h.Name, subject)
	if message := strings.ToValidUTF8(v.Message, ""); message != "" {
		text += ": " + message
	}
	f := fault.New(fault.GuardrailRefused, text, nil)
	f.Quiet = true
	return f
}

// failed records that a hook gave no verdict. The error refuses the request, if it may not continue.
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
