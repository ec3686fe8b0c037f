package firewall

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// What of a request offers tools: definitions, and members that switch a provider's own tools on, by the names that rules know them by.

// memberTools are members that offer a tool of the provider's beside the list of tools.
var memberTools = []struct{ member, tool string }{
	{"mcp_servers", "mcp"}, {"web_search_options", webSearch}, {"search_options", webSearch}, {"search_parameters", webSearch}, {"enable_search", webSearch}, {"plugins", "plugins"},
}

// webSearch is a provider's search of the web, as rules know it, however a request asks for it.
const webSearch = "web_search"

// offering are the members with which a request may offer tools.
var offering = []string{
	"tools", "functions", "mcp_servers", "web_search_options", "search_options", "search_parameters", "enable_search", "plugins", "venice_parameters", "input", "generateContentRequest",
	"generate_content_request",
}

// choices are the members that say how tools are to be used, in the formats that have them.
var choices = [...]string{"tool_choice", "function_call", "toolConfig", "tool_config"}

// maxRemovedTags bounds the tags of one request's removed tools: a request may offer thousands.
const maxRemovedTags = 32

// offer removes the tools that the rules do not let be offered, and counts them. The error is a fault: the request insists on one of them.
func (s *state) offer(x *pipeline.Exchange) (removed int, err error) {
	if !s.restrictsNames() {
		return 0, nil
	}
	removed = s.dropSearch(x)
	if !x.Request.Member(offering...).Exists() {
		return removed, nil
	}
	t, err := x.Transcript()
	if err != nil {
		return 0, err
	}
	if err := s.loaded(x, t); err != nil {
		return 0, err
	}
	gone := map[string]bool{}
	listed, left := s.listed(x, t, gone)
	changed := listed + s.members(x, t)
	if changed == 0 {
		return removed, nil
	}
	if err := insists(t, gone, left); err != nil {
		return 0, err
	}
	if left == 0 && listed > 0 {
		for _, member := range [...]string{"tools", "functions", "parallel_tool_calls", "tool_choice", "function_call", "toolConfig", "tool_config"} {
			t.Drop(member)
		}
	}
	return removed + changed, x.Change(t)
}

// dropSearch switches off a search of the web that the request's profile or hints ask for, in whatever way its provider is asked.
func (s *state) dropSearch(x *pipeline.Exchange) int {
	p := x.Request.Profile
	wants := func(p *chat.Params) bool { return p.WebSearch != nil && *p.WebSearch }
	if p == nil || !wants(&p.Default) && !wants(&p.Locked) || !s.objects(x, webSearch) {
		return 0
	}
	r := *x.Request
	r.Profile = p.Without([]string{webSearch})
	x.Request = &r
	return 1
}

// listed removes tools of the lists of tools. gone are the names of those.
func (s *state) listed(x *pipeline.Exchange, t *transcript.Transcript, gone map[string]bool) (removed, left int) {
	for i := range t.Tools {
		tool := &t.Tools[i]
		switch refused, some := s.refused(x, t, tool, gone); {
		case refused:
			t.RemoveTool(i)
			removed++
		case some:
			removed++
			left++
		default:
			left++
		}
	}
	return removed, left + s.keyed(x, t, gone, &removed)
}

// refused reports whether a tool may not be offered. some: a part of it, which is switched off.
func (s *state) refused(x *pipeline.Exchange, t *transcript.Transcript, tool *transcript.Tool, gone map[string]bool) (refused, some bool) {
	names := namesOf(tool, x.Request.Dialect)
	for _, name := range names {
		if s.objects(x, name) {
			gone[name], refused = true, true
		}
	}
	if x.Request.Dialect != chat.Gemini || !tool.Builtin {
		return refused, false
	}
	all := true // of Google's tools, each is a member of the element
	for key, m := range tool.Value.Members {
		if m.IsNull() {
			continue
		}
		if !s.objectsToKey(x, string(key)) {
			all = false
			continue
		}
		gone[string(key)], some = true, true
		t.Replace(m, jsonx.Raw("null"))
	}
	return some && all, some
}

// keyed switches off Google's tools that stand in one element with functions. It returns how many elements have one that stays.
func (s *state) keyed(x *pipeline.Exchange, t *transcript.Transcript, gone map[string]bool, removed *int) (left int) {
	if x.Request.Dialect != chat.Gemini {
		return 0
	}
	for e := range elements(toolsOf(t)) {
		if !hasDeclarations(e) {
			continue
		}
		for key, m := range e.Members {
			switch name := string(key); {
			case isDeclarations(name) || m.IsNull():
			case s.objectsToKey(x, name):
				gone[name] = true
				*removed++
				t.Replace(m, jsonx.Raw("null"))
			default:
				left++
			}
		}
	}
	return left
}

// objectsToKey is objects for a tool of Google's, whose name has two spellings: googleSearch and google_search.
func (s *state) objectsToKey(x *pipeline.Exchange, key string) bool {
	for _, r := range s.rules {
		why, other := r.objection(camel(key)), r.objection(snake(key))
		if why != "denied" && (other == "denied" || other == "") { // one of them is enough for either list
			why = other
		}
		if s.objected(x, r, key, why) {
			return true
		}
	}
	return false
}

// members removes what beside the lists offers a tool.
func (s *state) members(x *pipeline.Exchange, t *transcript.Transcript) (removed int) {
	off := func(v jsonx.Value) bool {
		b, isBool := v.Bool()
		return v.IsNull() || isBool && !b
	}
	for _, m := range memberTools {
		if !off(t.Doc().Get(m.member)) && s.objects(x, m.tool) {
			t.Drop(m.member)
			removed++
		}
	}
	if search := t.Doc().Get("venice_parameters").Get("enable_web_search"); !off(search) && !search.Equal("off") && s.objects(x, webSearch) {
		t.Replace(search, jsonx.Raw(`"off"`))
		removed++
	}
	return removed
}

// loaded refuses a request whose conversation offers a tool that may not be offered: the result of a search for tools brings definitions (Responses). Nothing is
// taken out of a conversation.
func (s *state) loaded(x *pipeline.Exchange, t *transcript.Transcript) error {
	if x.Request.Dialect != chat.Responses {
		return nil
	}
	for item := range elements(t.Doc().Get("input")) {
		if item.Get("type").Equal("mcp_list_tools") { // what a server has: it is offered by the tool mcp
			continue
		}
		for _, name := range innerNames(item, 0) {
			if s.objects(x, name) {
				return refusal("the input offers the tool %q, which this gateway's rules do not let this caller offer", fault.Clip(name))
			}
		}
	}
	return nil
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
		if s.objected(x, r, tool, r.objection(tool)) {
			return true
		}
	}
	return false
}

// objected records why a rule objects to a tool, "" for a rule that does not, and reports whether that has an effect.
func (s *state) objected(x *pipeline.Exchange, r *Rule, tool, why string) bool {
	if why == "" {
		return false
	}
	shadow := s.inShadow(r)
	if len(x.Tags) < maxRemovedTags {
		tag(x, policy.Tag{Rule: r.ID, Stage: policy.StageTools, Tool: s.recorded(tool), Decision: policy.DecisionRemoved, Reason: why, Shadow: shadow})
	}
	return !shadow
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
