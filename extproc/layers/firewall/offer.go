package firewall

import (
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// What of a request offers tools: definitions, and members that switch a provider's own tools on, by the names that rules know them by.

// memberTools are members that offer a tool of the provider's beside the list of tools.
var memberTools = []struct{ member, tool string }{{"mcp_servers", "mcp"}, {"web_search_options", "web_search"}}

// choices are the members that say how tools are to be used, in the formats that have them.
var choices = [...]string{"tool_choice", "function_call", "toolConfig", "tool_config"}

// maxRemovedTags bounds the tags of one request's removed tools: a request may offer thousands.
const maxRemovedTags = 32

// offer removes the tools that the rules do not let be offered, and counts them. The error is a fault: the request insists on one of them.
func (s *state) offer(x *pipeline.Exchange) (removed int, err error) {
	if !s.restrictsNames() || !x.Request.Member("tools", "functions", "mcp_servers", "web_search_options").Exists() {
		return 0, nil
	}
	t, err := x.Transcript()
	if err != nil {
		return 0, err
	}
	gone := map[string]bool{}
	left := 0
	for i := range t.Tools {
		name := toolName(&t.Tools[i])
		if !s.objects(x, name) {
			left++
			continue
		}
		gone[name] = true
		t.RemoveTool(i)
		removed++
	}
	for _, m := range memberTools {
		if !x.Request.Member(m.member).IsNull() && s.objects(x, m.tool) {
			t.Drop(m.member)
			removed++
		}
	}
	if removed == 0 {
		return 0, nil
	}
	if err := insists(t, gone, left); err != nil {
		return 0, err
	}
	if left == 0 {
		for _, member := range [...]string{"tools", "functions", "parallel_tool_calls", "tool_choice", "function_call", "toolConfig", "tool_config"} {
			t.Drop(member)
		}
	}
	return removed, x.Change(t)
}

// restrictsNames reports whether a rule has a list of tools.
func (s *state) restrictsNames() bool {
	for _, r := range s.rules {
		if r.Allow != nil || len(r.Deny) > 0 {
			return true
		}
	}
	return false
}

// objects reports whether a tool must not be offered, and records it. What a rule in shadow would do is recorded, too.
func (s *state) objects(x *pipeline.Exchange, tool string) bool {
	for _, r := range s.rules {
		why := r.objection(tool)
		if why == "" {
			continue
		}
		shadow := s.shadow || r.Shadow
		if len(x.Tags) < maxRemovedTags {
			tag(x, policy.Tag{Rule: r.ID, Stage: policy.StageTools, Tool: fault.Clip(tool), Decision: policy.DecisionRemoved, Reason: why, Shadow: shadow})
		}
		if !shadow {
			return true
		}
	}
	return false
}

// toolName is a tool's name; of a provider's own tool without a name its type, or the member that it is.
func toolName(t *transcript.Tool) string {
	if t.Name != "" {
		return t.Name
	}
	if kind, ok := t.Value.Get("type").Str(); ok {
		return kind
	}
	for key := range t.Value.Members {
		return string(key)
	}
	return ""
}

// insists is the error of a request whose model has to call a tool that is removed.
func insists(t *transcript.Transcript, gone map[string]bool, left int) error {
	for _, key := range choices {
		choice := t.Doc().Get(key)
		for v, isName := range choice.Strings {
			name, ok := v.Str()
			if ok && !isName && gone[name] {
				f := refusal("%s names the tool %q, which this gateway's rules do not let this caller offer", key, fault.Clip(name))
				f.Param = key
				return f
			}
		}
		if left == 0 && forces(choice) {
			f := refusal("%s requires a call of a tool, and this gateway's rules do not let this caller offer any of the request's tools", key)
			f.Param = key
			return f
		}
	}
	return nil
}

// forces reports whether a choice requires a call of some tool.
func forces(choice jsonx.Value) bool {
	for v, isName := range choice.Strings {
		if s, ok := v.Str(); ok && !isName && (s == "required" || s == "any" || s == "ANY") {
			return true
		}
	}
	return false
}
