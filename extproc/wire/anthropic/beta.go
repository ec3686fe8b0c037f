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

// sortBetas sorts the flags of beta features that a client of this dialect asks for: those that the provider gets to see, and
// those that it does not know, by its configuration or by its own word.
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

// isContextManagement reports whether a flag is the one without which a body may not hold context_management.
func isContextManagement(flag string) bool { return strings.HasPrefix(flag, "context-management-") }

// interleavedThinking is the flag by which models with a budget think between their calls of tools, too. Those that adapt do so anyway.
const interleavedThinking = "interleaved-thinking-2025-05-14"

// Interleave sets it for clients of other formats, who have no word for it, at models that are known to heed it. Clients of this format
// ask for it themselves.
func Interleave(call *provider.Call, req *chat.Request, to policy.Resolution) {
	if req.Dialect == chat.Anthropic || to.AdaptiveThinking || !slices.Contains(to.Features, policy.InterleavedThinking) {
		return
	}
	if bytes.Contains(call.Body, []byte(`"thinking":{"type":"enabled"`)) && bytes.Contains(call.Body, []byte(`"tools":[`)) {
		call.Header = append(call.Header, header.Field{Name: "anthropic-beta", Value: interleavedThinking})
	}
}
