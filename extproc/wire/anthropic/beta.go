package anthropic

import (
	"bytes"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// sortBetas splits the beta flags of a client of this dialect into those that are passed to the provider, and those that the provider does
// not know, according to its configuration or its own error.
func sortBetas(req *chat.Request, at provider.Endpoint, without policy.Without) (passed, dropped []string) {
	if req.Dialect != chat.Anthropic {
		return nil, nil
	}
	if at.Betas == nil && len(without.Betas) == 0 {
		return req.Betas, nil
	}
	for _, flag := range req.Betas {
		if at.Betas != nil && !slices.Contains(at.Betas, flag) || slices.Contains(without.Betas, flag) {
			dropped = append(dropped, flag)
			continue
		}
		passed = append(passed, flag)
	}
	return passed, dropped
}

// isContextManagement reports whether a flag is the one that context_management requires.
func isContextManagement(flag string) bool { return strings.HasPrefix(flag, "context-management-") }

// interleavedThinking is the flag that lets models with a thinking budget think between tool calls. Adaptive models always do.
const interleavedThinking = "interleaved-thinking-2025-05-14"

// Interleave sets the flag for clients of other formats, which have no equivalent, if the model is known to support it. Clients of this
// format set it themselves.
func Interleave(call *provider.Call, req *chat.Request, to policy.Resolution) {
	if req.Dialect == chat.Anthropic || to.AdaptiveThinking || !slices.Contains(to.Features, policy.InterleavedThinking) {
		return
	}
	if bytes.Contains(call.Body, []byte(`"thinking":{"type":"enabled"`)) && bytes.Contains(call.Body, []byte(`"tools":[`)) {
		call.Header = append(call.Header, header.Field{Name: "anthropic-beta", Value: interleavedThinking})
	}
}
