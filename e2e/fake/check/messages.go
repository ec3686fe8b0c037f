package check

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

var anthropicParams = []string{
	"model", "messages", "max_tokens", "cache_control", "container", "diagnostics", "inference_geo", "metadata", "output_config",
	"service_tier", "speed", "stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p",
}

// anthropicBetaParams are parameters that exist only with a flag of the anthropic-beta header.
var anthropicBetaParams = map[string]string{
	"context_management": "context-management-", "mcp_servers": "mcp-client-", "output_format": "structured-outputs-",
}

var betaFlag = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*-\d{4}-?\d{2}-?\d{2}$`)

// betas are the flags of a request, in one list.
func betas(h http.Header) string { return strings.Join(h.Values("Anthropic-Beta"), ",") }

// Messages reads a request of Anthropic's Messages. given says what the provider's earlier answers consisted of.
func Messages(h http.Header, body []byte, p *Provider, given Given) (rawjson.Object, *Refusal) {
	o, e := anthropicObject(h, body, p)
	if e != nil {
		return nil, e
	}
	if !o.Has("max_tokens") {
		return nil, refused("max_tokens: Field required")
	}
	if e := firstOf(o, anthropicRanges, anthropicMembers, anthropicThinking, anthropicModel, anthropicPrefill, anthropicTools, anthropicFormat, anthropicCacheControl); e != nil {
		return nil, e
	}
	if e := anthropicMessages(o, betas(h), p); e != nil {
		return nil, e
	}
	return o, anthropicTurn(o, p.Signer, given)
}

// CountTokens reads a request of Anthropic's count of tokens.
func CountTokens(h http.Header, body []byte, p *Provider) *Refusal {
	o, e := anthropicObject(h, body, p)
	if e != nil {
		return e
	}
	for _, name := range []string{"max_tokens", "stream", "temperature", "metadata", "stop_sequences"} {
		if o.Has(name) {
			return refused("%s: Extra inputs are not permitted", name)
		}
	}
	return anthropicMessages(o, betas(h), p)
}

// anthropicObject checks what both endpoints check: headers, JSON, the model, and unknown parameters.
func anthropicObject(h http.Header, body []byte, p *Provider) (object, *Refusal) {
	if h.Get("Anthropic-Version") == "" {
		return nil, refused("anthropic-version: header is required")
	}
	if v := h.Get("Anthropic-Version"); !slices.Contains([]string{"2023-01-01", "2023-06-01", "2026-10-21"}, v) {
		return nil, refused("anthropic-version: %q is not a valid version", v)
	}
	flags := betas(h)
	for f := range strings.SplitSeq(flags, ",") {
		if f = strings.TrimSpace(f); f != "" && (!betaFlag.MatchString(f) || p.Betas != nil && !slices.Contains(p.Betas, f)) {
			return nil, refused("Unexpected value(s) `%s` for the `anthropic-beta` header. Please consult our documentation at docs.anthropic.com or try again without the header.", f)
		}
	}
	o, err := rawjson.Parse(body)
	if err != nil || !isJSON(h.Get("Content-Type")) {
		return nil, refused("The request body is not valid JSON: %v", err)
	}
	model := o.Str("model")
	if model == "" {
		return nil, refused("model: Field required")
	}
	if len(p.Models) > 0 && !slices.Contains(p.Models, model) {
		return nil, &Refusal{Status: http.StatusNotFound, Kind: "not_found_error", Message: "model: " + model}
	}
	known := append(slices.Clone(anthropicParams), p.Allow...)
	for name, flag := range anthropicBetaParams {
		if strings.Contains(flags, flag) {
			known = append(known, name)
		}
	}
	if name := o.Unknown(known...); name != "" {
		return nil, refused("%s: Extra inputs are not permitted", name)
	}
	return o, nil
}

func anthropicRanges(o object) *Refusal {
	if v, ok := o.Num("max_tokens"); !ok || v < 1 {
		return refused("max_tokens: Input should be greater than or equal to 1")
	}
	for _, name := range []string{"temperature", "top_p"} {
		if v, ok := o.Num(name); ok && (v < 0 || v > 1) {
			return refused("%s: range: 0..1", name)
		}
	}
	if k := o.Object("metadata").Unknown("user_id"); k != "" {
		return refused("metadata.%s: Extra inputs are not permitted", k)
	}
	return nil
}

func anthropicThinking(o object) *Refusal {
	th := o.Object("thinking")
	switch kind := th.Str("type"); kind {
	case "", "disabled":
		return nil
	case "adaptive":
	case "enabled":
		budget, _ := th.Num("budget_tokens")
		most, _ := o.Num("max_tokens")
		if budget < 1024 {
			return refused("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		}
		if most <= budget {
			return refused("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size")
		}
	default:
		return refused("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'", kind)
	}
	if v, ok := o.Num("temperature"); ok && v != 1 {
		return refused("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking")
	}
	if o.Has("top_k") {
		return refused("`top_k` must be unset when thinking is enabled or in adaptive mode.")
	}
	if v, ok := o.Num("top_p"); ok && v < 0.95 {
		return refused("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled or in adaptive mode.")
	}
	if c := o.Object("tool_choice").Str("type"); c == "any" || c == "tool" {
		return refused("Thinking may not be enabled when tool_choice forces tool use.")
	}
	return nil
}

func anthropicTools(o object) *Refusal {
	for i, t := range o.List("tools") {
		if kind := t.Str("type"); kind != "" && kind != "custom" {
			continue // a server tool
		}
		if !validToolName(t.Str("name")) {
			return refused("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		}
		if !t.Has("input_schema") {
			return refused("tools.%d.custom.input_schema: Field required", i)
		}
		if k := t.Object("input_schema").Str("type"); k != "object" {
			return refused("tools.%d.custom.input_schema.type: Input should be 'object'", i)
		}
		if k := t.Unknown("type", "name", "description", "input_schema", "cache_control", "strict", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming"); k != "" {
			return refused("tools.%d.custom.%s: Extra inputs are not permitted", i, k)
		}
	}
	if o.Has("tool_choice") && len(o.List("tools")) == 0 {
		return refused("tool_choice: tool_choice may only be specified while providing tools.")
	}
	return nil
}

func anthropicCacheControl(o object) *Refusal {
	n := 0
	lists := map[string][]object{"tools": o.List("tools"), "system": o.List("system")}
	for i, m := range o.List("messages") {
		lists[fmt.Sprintf("messages.%d.content", i)] = m.List("content")
	}
	if o.Has("cache_control") {
		n++
	}
	for at, blocks := range lists {
		found, e := cacheMarks(blocks, at)
		if n += found; e != nil {
			return e
		}
	}
	if n > 4 {
		return refused("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	return nil
}

func anthropicMessages(o object, betas string, p *Provider) *Refusal {
	if !o.Has("messages") {
		return refused("messages: Field required")
	}
	ms := o.List("messages")
	if len(ms) == 0 {
		return refused("messages: at least one message is required")
	}
	if e := anthropicSystem(o); e != nil {
		return e
	}
	var open []string // ids of calls that wait for their result in the next message
	for i, m := range ms {
		if i > 0 && m.Str("role") == "system" {
			if e := anthropicInstruction(m, ms[i-1].Str("role"), betas, i); e != nil {
				return e
			}
			continue
		}
		if e := anthropicMessage(m, i, &open, p); e != nil {
			return e
		}
		if e := serverTools(m.List("content"), m.Str("role"), i, i == len(ms)-1); e != nil {
			return e
		}
	}
	return nil
}

// instructionFlags are the flags that give system messages another member.
var instructionFlags = map[string]string{
	"mid-conversation-system-clear-at-": "clear_at", "mid-conversation-output-config-": "output_config", "per-turn-control-": "output_config",
}

// anthropicInstruction checks a system message inside the conversation: after the user's, with text, and changes of the tools where
// their flag is set.
func anthropicInstruction(m object, before, betas string, i int) *Refusal {
	if before == "assistant" {
		return refused("messages.%d: a `system` message must follow a `user` message", i)
	}
	known := []string{"role", "content"}
	for flag, member := range instructionFlags {
		if strings.Contains(betas, flag) {
			known = append(known, member)
		}
	}
	if k := m.Unknown(known...); k != "" {
		return refused("messages.%d.%s: Extra inputs are not permitted", i, k)
	}
	for j, b := range m.List("content") {
		kind := b.Str("type")
		changes := kind == "tool_addition" || kind == "tool_removal"
		if kind != "text" && (!changes || !strings.Contains(betas, "mid-conversation-tool-changes-")) {
			return refused("messages.%d.content.%d: Input tag '%s' found using 'type' does not match any of the expected tags: 'text'", i, j, kind)
		}
	}
	return nil
}

func anthropicSystem(o object) *Refusal {
	for i, b := range o.List("system") {
		if b.Str("type") != "text" {
			return refused("system.%d.type: Input should be 'text'", i)
		}
		if b.Str("text") == "" {
			return refused("system: text content blocks must be non-empty")
		}
		if k := b.Unknown("type", "text", "cache_control", "citations"); k != "" {
			return refused("system.%d.%s: Extra inputs are not permitted", i, k)
		}
	}
	return nil
}

func anthropicMessage(m object, i int, open *[]string, p *Provider) *Refusal {
	role := m.Str("role")
	if role != "user" && role != "assistant" {
		return refused("messages: Unexpected role \"%s\". Allowed roles are \"user\" or \"assistant\".", role)
	}
	if i == 0 && role != "user" {
		return refused("messages: first message must use the \"user\" role")
	}
	if k := m.Unknown("role", "content"); k != "" {
		return refused("messages.%d.%s: Extra inputs are not permitted", i, k)
	}
	if !m.Has("content") {
		return refused("messages.%d.content: Field required", i)
	}
	blocks := m.List("content")
	if len(blocks) == 0 && m.Str("content") == "" {
		return refused("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
	}
	if e := results(blocks, i, open); e != nil {
		return e
	}
	if e := anthropicThoughts(blocks, i, p.Signer); e != nil {
		return e
	}
	return anthropicBlocks(blocks, role, i, open)
}

// results checks that the calls of the message before are answered here, all of them and nothing else.
func results(blocks []object, i int, open *[]string) *Refusal {
	left := slices.Clone(*open)
	for j, b := range blocks {
		if b.Str("type") != "tool_result" {
			continue
		}
		id := b.Str("tool_use_id")
		if !slices.Contains(*open, id) {
			return refused("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, j, id)
		}
		left = slices.DeleteFunc(left, func(s string) bool { return s == id })
	}
	if len(left) > 0 {
		return refused("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i-1, strings.Join(left, ", "))
	}
	*open = nil
	return nil
}

var anthropicBlockFields = map[string][]string{
	"text":              {"type", "text", "cache_control", "citations"},
	"image":             {"type", "source", "cache_control"},
	"document":          {"type", "source", "cache_control", "title", "context", "citations"},
	"search_result":     {"type", "source", "title", "content", "cache_control", "citations"},
	"tool_use":          {"type", "id", "name", "input", "cache_control", "caller"},
	"tool_result":       {"type", "tool_use_id", "content", "is_error", "cache_control"},
	"thinking":          {"type", "thinking", "signature"},
	"redacted_thinking": {"type", "data"},

	serverTool:                               {"type", "id", "name", "input", "cache_control", "caller"},
	"web_search_tool_result":                 {"type", "tool_use_id", "content", "cache_control", "caller"},
	"web_fetch_tool_result":                  {"type", "tool_use_id", "content", "cache_control", "caller"},
	"code_execution_tool_result":             {"type", "tool_use_id", "content", "cache_control"},
	"bash_code_execution_tool_result":        {"type", "tool_use_id", "content", "cache_control"},
	"text_editor_code_execution_tool_result": {"type", "tool_use_id", "content", "cache_control"},
	"tool_search_tool_result":                {"type", "tool_use_id", "content", "cache_control"},
}

const serverTool = "server_tool_use"

var serverToolID = regexp.MustCompile(`^srvtoolu_[a-zA-Z0-9_]+$`)

// serverTools checks the calls of the API's own tools in a message and their results: each result follows its call, and each call has one, except in the
// last message, which goes on.
func serverTools(blocks []object, role string, i int, last bool) *Refusal {
	var open []object
	for j, b := range blocks {
		kind, at := b.Str("type"), fmt.Sprintf("messages.%d.content.%d", i, j)
		switch {
		case kind == serverTool && role != "assistant":
			return refused("%s: `server_tool_use` blocks can only be in `assistant` messages", at)
		case kind == serverTool && !serverToolID.MatchString(b.Str("id")):
			return refused("%s.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'", at)
		case kind == serverTool:
			open = append(open, b)
		case strings.HasSuffix(kind, "_tool_result"):
			n := slices.IndexFunc(open, func(call object) bool { return call.Str("id") == b.Str("tool_use_id") })
			if n < 0 {
				return refused("%s: unexpected `tool_use_id` found in `%s` blocks: %s. Each `%s` block must have a corresponding `server_tool_use` block before it.", at, kind, b.Str("tool_use_id"), kind)
			}
			open = slices.Delete(open, n, n+1)
		}
	}
	if len(open) > 0 && !last {
		name := open[0].Str("name")
		return refused("messages.%d: `%s` tool use with id `%s` was found without a corresponding `%s_tool_result` block", i, name, open[0].Str("id"), name)
	}
	return nil
}

func anthropicBlocks(blocks []object, role string, i int, open *[]string) *Refusal {
	for j, b := range blocks {
		kind := b.Str("type")
		at := fmt.Sprintf("messages.%d.content.%d", i, j)
		fields, ok := anthropicBlockFields[kind]
		if !ok {
			return refused("%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'document', 'image', 'redacted_thinking', 'search_result', 'text', 'thinking', 'tool_result', 'tool_use'", at, kind)
		}
		if k := b.Unknown(fields...); k != "" {
			return refused("%s.%s.%s: Extra inputs are not permitted", at, kind, k)
		}
		if e := anthropicBlock(b, kind, role, at); e != nil {
			return e
		}
		if kind == "tool_use" {
			*open = append(*open, b.Str("id"))
		}
	}
	return nil
}

// anthropicThoughts checks that the thinking of a message is this provider's own.
func anthropicThoughts(blocks []object, i int, by Signer) *Refusal {
	for j, b := range blocks {
		kind, at := b.Str("type"), fmt.Sprintf("messages.%d.content.%d", i, j)
		switch {
		case kind == "thinking" && !by.signed(b.Str("thinking"), b.Str("signature")):
			return refused("%s: Invalid `signature` in `thinking` block", at)
		case kind == "redacted_thinking" && by == Unsigned:
			return refused("%s: Input tag 'redacted_thinking' found using 'type' does not match any of the expected tags", at)
		}
	}
	return nil
}

func anthropicBlock(b object, kind, role, at string) *Refusal {
	switch kind {
	case "text":
		if b.Str("text") == "" {
			return refused("messages: text content blocks must be non-empty")
		}
	case "tool_use":
		if role != "assistant" {
			return refused("%s: `tool_use` blocks can only be in `assistant` messages", at)
		}
		if in := b["input"]; len(in) == 0 || in[0] != '{' {
			return refused("%s.tool_use.input: Input should be a valid dictionary", at)
		}
	case "tool_result":
		if role != "user" {
			return refused("%s: `tool_result` blocks can only be in `user` messages", at)
		}
	}
	return nil
}
