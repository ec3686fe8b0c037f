package firewall

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// A request offers tools by definitions, and by members that enable a provider's own tools.

// memberTools are the members outside of the list of tools that offer a provider's tool, with the names of these tools in rules.
var memberTools = []struct{ member, tool string }{
	{"mcp_servers", "mcp"}, {"web_search_options", webSearch}, {"search_options", webSearch}, {"search_parameters", webSearch}, {"enable_search", webSearch}, {"plugins", "plugins"},
}

// webSearch is the name of a provider's web search in rules, however a request enables it.
const webSearch = "web_search"

// offeringMembers are the members by which a request may offer tools.
var offeringMembers = []string{
	"tools", "functions", "mcp_servers", "web_search_options", "search_options", "search_parameters", "enable_search", "plugins", "venice_parameters", "input", "generateContentRequest",
	"generate_content_request",
}

// choiceMembers are the members that select how tools are used, of all formats.
var choiceMembers = [...]string{"tool_choice", "function_call", "toolConfig", "tool_config"}

// maxRemovedTags bounds the tags of one request's removed tools: a request may offer thousands.
const maxRemovedTags = 32

// filterTools removes the tools that the rules do not allow to be offered, and counts them. The error is a fault: the request requires one of them.
func (s *state) filterTools(x *pipeline.Exchange) (removed int, err error) {
	if !s.restrictsNames() {
		return 0, nil
	}
	removed = s.dropSearch(x)
	if !x.Request.Member(offeringMembers...).Exists() {
		return removed, nil
	}
	t, err := x.Transcript()
	if err != nil {
		return 0, err
	}
	if err := s.checkLoaded(x, t); err != nil {
		return 0, err
	}
	refused := map[string]bool{}
	listed, left := s.filterListed(x, t, refused)
	changed := listed + s.dropMembers(x, t)
	if changed == 0 {
		return removed, nil
	}
	if err := checkChoice(t, refused, left); err != nil {
		return 0, err
	}
	if left == 0 && listed > 0 {
		for _, member := range [...]string{"tools", "functions", "parallel_tool_calls", "tool_choice", "function_call", "toolConfig", "tool_config"} {
			t.Drop(member)
		}
	}
	return removed + changed, x.Change(t)
}

// dropSearch disables a web search that the request's profile or hints enable, and returns the number of disabled tools.
func (s *state) dropSearch(x *pipeline.Exchange) int {
	p := x.Request.Profile
	enables := func(p *chat.Params) bool { return p.WebSearch != nil && *p.WebSearch }
	if p == nil || !enables(&p.Default) && !enables(&p.Locked) || !s.objects(x, webSearch) {
		return 0
	}
	r := *x.Request
	r.Profile = p.Without([]string{webSearch})
	x.Request = &r
	return 1
}

// filterListed removes tools from the lists of tools, and adds their names to refused.
func (s *state) filterListed(x *pipeline.Exchange, t *transcript.Transcript, refused map[string]bool) (removed, left int) {
	for i := range t.Tools {
		tool := &t.Tools[i]
		switch all, some := s.refusedIn(x, t, tool, refused); {
		case all:
			t.RemoveTool(i)
			removed++
		case some:
			removed++
			left++
		default:
			left++
		}
	}
	return removed, left + s.filterKeyed(x, t, refused, &removed)
}

// refusedIn reports whether an element of the list may not be offered. some: a part of it may not, and was disabled. It adds the refused tools to names.
func (s *state) refusedIn(x *pipeline.Exchange, t *transcript.Transcript, tool *transcript.Tool, names map[string]bool) (all, some bool) {
	toolNames := namesOf(tool, x.Request.Dialect)
	for _, name := range toolNames {
		if s.objects(x, name) {
			names[name], all = true, true
		}
	}
	if x.Request.Dialect != chat.Gemini || !tool.Builtin {
		return all, false
	}
	onlyRefused := true // Google's tools are members of the element
	for key, m := range tool.Value.Members {
		if m.IsNull() {
			continue
		}
		if !s.objectsToKey(x, string(key)) {
			onlyRefused = false
			continue
		}
		names[string(key)], some = true, true
		t.Replace(m, jsonx.Raw("null"))
	}
	return some && onlyRefused, some
}

// filterKeyed disables Google's tools that are in one element with functions. It returns the number of tools that are left.
func (s *state) filterKeyed(x *pipeline.Exchange, t *transcript.Transcript, refused map[string]bool, removed *int) (left int) {
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
				refused[name] = true
				*removed++
				t.Replace(m, jsonx.Raw("null"))
			default:
				left++
			}
		}
	}
	return left
}

// objectsToKey is objects for a tool of Google, whose name has two spellings: googleSearch and google_search.
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

// dropMembers removes or disables members outside of the lists that offer refused tools, and counts them.
func (s *state) dropMembers(x *pipeline.Exchange, t *transcript.Transcript) (removed int) {
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

// checkLoaded refuses a request whose conversation offers a refused tool: in the Responses API, the result of a tool search has definitions. They are not
// removed, since conversations are not changed.
func (s *state) checkLoaded(x *pipeline.Exchange, t *transcript.Transcript) error {
	if x.Request.Dialect != chat.Responses {
		return nil
	}
	for item := range elements(t.Doc().Get("input")) {
		if item.Get("type").Equal("mcp_list_tools") { // the tools of a server, which the tool mcp offers
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

// objects reports whether a tool must not be offered, and records it. Objections of rules in shadow are only recorded.
func (s *state) objects(x *pipeline.Exchange, tool string) bool {
	for _, r := range s.rules {
		if s.objected(x, r, tool, r.objection(tool)) {
			return true
		}
	}
	return false
}

// objected records why a rule objects to a tool, unless why is "", and reports whether the rule is enforced.
func (s *state) objected(x *pipeline.Exchange, r *Rule, tool, why string) bool {
	if why == "" {
		return false
	}
	shadow := s.inShadow(r)
	if len(x.Tags) < maxRemovedTags {
		tag(x, policy.Tag{Rule: r.ID, Stage: policy.StageTools, Tool: s.recordedName(tool), Decision: policy.DecisionRemoved, Reason: why, Shadow: shadow})
	}
	return !shadow
}

// checkChoice returns a fault if the request requires a call of a refused tool.
func checkChoice(t *transcript.Transcript, refused map[string]bool, left int) error {
	for _, key := range choiceMembers {
		choice := t.Doc().Get(key)
		for v, isName := range choice.Strings {
			name, ok := v.Str()
			if ok && !isName && refused[name] {
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

// forces reports whether a choice requires a call of any tool.
func forces(choice jsonx.Value) bool {
	for v, isName := range choice.Strings {
		if s, ok := v.Str(); ok && !isName && (s == "required" || s == "any" || s == "ANY") {
			return true
		}
	}
	return false
}
