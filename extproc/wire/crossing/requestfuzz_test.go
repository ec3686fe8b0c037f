package crossing_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// FuzzEveryMemberIsSentOrNamed: for any request, the encoded request is valid JSON, and each top-level member changes it or is named as
// degraded; otherwise its value equals its absence.
func FuzzEveryMemberIsSentOrNamed(f *testing.F) {
	for _, dir := range []string{"openai-to-anthropic", "anthropic-to-openai"} {
		all := pairs(f, "testdata/request/"+dir)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f.Add(all[name].file("in.json"), true)
			f.Add(all[name].file("in.json"), false)
		}
	}
	f.Fuzz(func(t *testing.T, body string, fromOpenAI bool) {
		from, to := anthropicSide, openaiSide
		if fromOpenAI {
			from, to = to, from
		}
		checkMembers(t, from, to, body)
	})
}

func checkMembers(t *testing.T, from, to side, body string) {
	t.Helper()
	if a := encodeAcross(t, from, to, body); a != nil {
		for i := range a.r.Doc.Members {
			a.checkMember(t, from, to, a.r.Doc.Members[i].Key)
		}
	}
}

// FuzzEveryMemberIsSentOrNamedAmongOthers checks the same for requests that combine members of many pairs.
func FuzzEveryMemberIsSentOrNamedAmongOthers(f *testing.F) {
	openaiMembers, anthropicMembers := members(f, "openai-to-anthropic"), members(f, "anthropic-to-openai")
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		checkMembers(t, openaiSide, anthropicSide, mixed(seed, openaiMembers))
		checkMembers(t, anthropicSide, openaiSide, mixed(seed, anthropicMembers))
	})
}

// members returns the top-level members of the requests in a folder, with all their values.
func members(f *testing.F, dir string) map[string][]string {
	f.Helper()
	all := map[string][]string{}
	for _, p := range pairs(f, "testdata/request/"+dir) {
		doc, err := jsonx.Scan([]byte(p.file("in.json")))
		if err != nil {
			f.Fatal(err)
		}
		for i := range doc.Members {
			key := doc.Members[i].Key
			all[key] = append(all[key], string(doc.Get(key).Raw))
		}
	}
	for _, values := range all {
		slices.Sort(values)
	}
	return all
}

// mixed returns a request with randomly selected members.
func mixed(seed uint64, members map[string][]string) string {
	r := rand.New(rand.NewPCG(seed, 2))
	var drawn []string
	for _, key := range slices.Sorted(maps.Keys(members)) {
		values := members[key]
		if needed := key == "model" || key == "messages" || key == "input" || key == "max_tokens"; needed || r.IntN(3) == 0 {
			drawn = append(drawn, `"`+key+`":`+values[r.IntN(len(values))])
		}
	}
	r.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return "{" + strings.Join(drawn, ",") + "}"
}

// memberCheck is a request and its encoding in another dialect.
type memberCheck struct {
	r        *chat.Request
	out      string
	degraded []string
}

// encodeAcross encodes a request for the other dialect; nil if the request is refused.
func encodeAcross(t *testing.T, from, to side, body string) *memberCheck {
	t.Helper()
	r, err := from.dialect.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		return nil
	}
	out, degraded, err := to.encode(r)
	if err != nil {
		return nil
	}
	if err := jsonx.Valid(out); err != nil {
		t.Fatalf("%s\nbecame\n%s\nwhich is no JSON: %v", body, out, err)
	}
	for i, name := range degraded {
		if slices.Contains(degraded[:i], name) {
			t.Fatalf("%s\nloses %q twice", body, name)
		}
	}
	return &memberCheck{r, string(out), degraded}
}

func (a *memberCheck) checkMember(t *testing.T, from, to side, key string) {
	t.Helper()
	if slices.Contains(a.degraded, key) || a.r.Doc.Get(key).IsNull() || a.isDefault(key) {
		return
	}
	var e jsonx.Edits
	e.Delete(&a.r.Doc, key)
	without := encodeAcross(t, from, to, string(e.AppendTo(nil, &a.r.Doc)))
	if without != nil && without.out == a.out && slices.Equal(without.degraded, a.degraded) {
		t.Fatalf("%q of\n%s\nis neither carried nor named:\n%s\n%v", key, a.r.Doc.Bytes, a.out, a.degraded)
	}
}

// isDefault reports whether a member may be ignored: only the gateway reads it, its value is the default, or another member has the same
// meaning.
func (a *memberCheck) isDefault(key string) bool {
	v := a.r.Doc.Get(key)
	c, p := a.r.Conv, &a.r.Conv.Params
	number, _ := v.Float()
	if a.r.Dialect == chat.Responses && isResponsesDefault(key, v) {
		return true
	}
	switch key {
	case "bardo", "model", "stream", "stream_options":
		return true
	case "max_tokens", "max_completion_tokens":
		return a.has("max_tokens") && a.has("max_completion_tokens") || number == 4096
	case "system":
		return len(c.System) == 0
	case "tools", "functions", "tool_choice", "function_call", "parallel_tool_calls":
		return a.hasNoTools(key)
	case "reasoning", "reasoning_effort", "thinking":
		off := p.Effort == "" || p.Effort == "none"
		return off && p.ThinkingBudget == 0 || a.has("reasoning_effort") && a.has("reasoning") || p.Thinking != chat.ThinkingUnset
	case "output_config":
		return p.Effort == "" && p.Schema == nil
	case "response_format":
		return v.Get("type").Equal("text")
	case "user", "safety_identifier":
		return p.User == "" || a.has("user") && a.has("safety_identifier")
	case "metadata":
		return p.User == ""
	case "stop", "stop_sequences":
		return len(p.Stop) == 0
	case "n", "top_p", "temperature":
		return number == 1
	}
	return isAbsence(key, v)
}

// isResponsesDefault reports whether a member of Responses has its default value.
func isResponsesDefault(key string, v jsonx.Value) bool {
	switch key {
	case "include":
		for _, e := range v.Each {
			if !e.Equal("reasoning.encrypted_content") {
				return false
			}
		}
		return true
	case "text":
		format, verbosity := v.Get("format"), v.Get("verbosity")
		return (format.IsNull() || format.Get("type").Equal("text")) && (verbosity.IsNull() || verbosity.Equal("medium"))
	case "instructions", "input", "metadata":
		return wire.IsEmpty(v)
	case "max_output_tokens":
		return string(v.Raw) == "4096"
	case "reasoning":
		return v.Get("effort").IsNull() && v.Get("summary").IsNull() && v.Get("generate_summary").IsNull()
	case "background":
		return string(v.Raw) == "false"
	}
	return false
}

// isAbsence reports whether a value is equal to its absence in every format.
func isAbsence(key string, v jsonx.Value) bool {
	number, _ := v.Float()
	switch key {
	case "presence_penalty", "frequency_penalty", "top_logprobs":
		return number == 0
	case "logprobs", "store":
		return string(v.Raw) == "false"
	case "logit_bias", "mcp_servers", "context_management":
		return wire.IsEmpty(v)
	case "modalities":
		return string(v.Raw) == `["text"]`
	case "truncation":
		return v.Equal("disabled")
	case "verbosity", "service_tier":
		return v.Equal("medium") || v.Equal("auto")
	}
	return false
}

// hasNoTools reports whether a member about tools has no effect: there are no tools, or the choice is the default.
func (a *memberCheck) hasNoTools(key string) bool {
	c := a.r.Conv
	functions := slices.ContainsFunc(c.Tools, func(tool chat.Tool) bool { return tool.Raw == nil && c.Allows(&tool) })
	switch key {
	case "tool_choice", "function_call":
		return !functions || c.ToolChoice.Mode == chat.ToolAuto
	case "parallel_tool_calls":
		return !functions || *c.ParallelTools || c.ToolChoice.Mode == chat.ToolNone
	}
	for _, tool := range c.Tools { // named as degraded
		kind, _ := jsonx.Value{Raw: tool.Raw}.Get("type").Str()
		if slices.Contains(a.degraded, kind) || !c.Allows(&tool) {
			return true
		}
	}
	return len(c.Tools) == 0
}

func (a *memberCheck) has(key string) bool { return a.r.Doc.Find(key) >= 0 }
