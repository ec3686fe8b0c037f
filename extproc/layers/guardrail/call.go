package guardrail

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// protocolVersion is the version of requests to hooks. It changes when a member gets another meaning, not when one is added.
const protocolVersion = 1

// hookRequest is the body of a request to a hook. docs/guardrails.md describes it.
type hookRequest struct {
	Version       int             `json:"version"`
	ID            string          `json:"id"`
	Hook          string          `json:"hook"`
	Direction     policy.TagStage `json:"direction"`
	Dialect       string          `json:"dialect"`
	Model         string          `json:"model"`
	Stream        bool            `json:"stream"`
	Key           string          `json:"key,omitempty"`
	Tier          string          `json:"tier,omitempty"`
	Subsystem     string          `json:"subsystem,omitempty"`
	GolemID       string          `json:"golem_id,omitempty"`
	SessionID     string          `json:"session_id,omitempty"`
	SecurityClass string          `json:"security_class"`
	Shadow        bool            `json:"shadow"`
	Texts         []text          `json:"texts"`
}

// text is a text of a request or an answer, by its index.
type text struct {
	Index int    `json:"index"`
	Role  string `json:"role"`
	Kind  string `json:"kind"`
	Tool  string `json:"tool,omitempty"` // of arguments in an answer
	Text  string `json:"text"`
}

// The actions of a hook.
const (
	actionAllow   = "allow"
	actionRefuse  = "refuse"
	actionReplace = "replace"
)

// verdict is a hook's answer.
type verdict struct {
	Action  string        `json:"action"`
	Message string        `json:"message"` // of a refusal, for the client
	Reason  string        `json:"reason"`  // for the record, see reasonForm
	Texts   []replacement `json:"texts"`   // of a replacement
}

type replacement struct {
	Index *int    `json:"index"`
	Text  *string `json:"text"`
}

// maxMessage is the longest message of a refusal that a client gets, in bytes.
const maxMessage = 1024

// reasonForm matches reasons that may be in a record: a word, which is no content.
var reasonForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)

// call sends texts to a hook. why is the reason why there is no verdict; "" if there is one.
func (l Layer) call(ctx context.Context, x *pipeline.Exchange, h *Hook, stage policy.TagStage, texts []text) (v *verdict, why string) {
	body, err := json.Marshal(hookRequest{
		Version: protocolVersion, ID: x.ID, Hook: h.Name, Direction: stage, Dialect: string(x.Request.Dialect), Model: x.Request.Model, Stream: x.Request.Stream,
		Key: string(x.Principal.Account), Tier: string(x.Principal.Tier), Subsystem: x.Hints.Subsystem, GolemID: x.Hints.GolemID, SessionID: x.Hints.SessionID,
		SecurityClass: x.Hints.SecurityClass.String(), Shadow: h.Shadow, Texts: texts,
	})
	switch {
	case err != nil:
		return nil, "unwritable"
	case len(body) > h.MaxBytes:
		return nil, "too_large"
	}
	callCtx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	answer, why := l.post(callCtx, x, h, body)
	if why != "" {
		return nil, why
	}
	return readVerdict(answer, len(texts))
}

// post sends a request, and returns the answer's body.
func (l Layer) post(ctx context.Context, x *pipeline.Exchange, h *Hook, body []byte) (answer []byte, why string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://egress"+h.Path, bytes.NewReader(body))
	if err != nil {
		return nil, "unwritable"
	}
	req.Host = h.Host
	req.Header.Set("Content-Type", header.JSON)
	req.Header.Set("User-Agent", "bardo-guardrail/1")
	if h.Token.IsSet() {
		req.Header.Set("Authorization", "Bearer "+h.Token.Reveal())
	}
	req.Header.Set(state.HeaderCluster, h.Cluster)
	req.Header.Set(state.HeaderExchange, l.Secret()+"."+x.ID)
	res, err := l.Client.Do(req)
	if err != nil {
		return nil, reasonOf(ctx, "unreachable")
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.Header.Get(state.HeaderFailure) != "":
		return nil, "unreachable"
	case res.StatusCode != http.StatusOK:
		return nil, "bad_status"
	}
	answer, err = io.ReadAll(io.LimitReader(res.Body, int64(h.MaxBytes)+1))
	switch {
	case err != nil:
		return nil, reasonOf(ctx, "broken_off")
	case len(answer) > h.MaxBytes:
		return nil, "answer_too_large"
	}
	return answer, ""
}

// reasonOf is why a call failed: "timeout" if its time limit has passed.
func reasonOf(ctx context.Context, otherwise string) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "timeout"
	}
	return otherwise
}

// readVerdict parses a hook's answer about n texts. why is what is wrong with it; "" if it is valid.
func readVerdict(b []byte, n int) (v *verdict, why string) {
	v = &verdict{}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, "bad_answer"
	}
	if !reasonForm.MatchString(v.Reason) {
		v.Reason = ""
	}
	v.Message = v.Message[:min(len(v.Message), maxMessage)]
	switch v.Action {
	case actionAllow, actionRefuse:
		return v, ""
	case actionReplace:
		for _, r := range v.Texts {
			if r.Index == nil || r.Text == nil || *r.Index < 0 || *r.Index >= n {
				return nil, "bad_replacement"
			}
		}
		if len(v.Texts) == 0 {
			v.Action = actionAllow
		}
		return v, ""
	}
	return nil, "bad_answer"
}
