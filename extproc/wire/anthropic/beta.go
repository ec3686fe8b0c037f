package anthropic

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
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

// tellsOfEdits reports whether a flag is the one without which a body may not hold context_management.
func tellsOfEdits(flag string) bool { return strings.HasPrefix(flag, "context-management-") }
