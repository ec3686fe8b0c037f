package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

// body is the request without what was said so far; each call makes it anew.
func (v *dialog) body(choice string) func() object {
	volatile := fmt.Sprintf("Tick %d. It is 2026-11-30 12:%02d:00.", v.turn, v.turn)
	return func() object {
		body := object{}
		v.putSystem(body, volatile)
		v.putTools(body, choice)
		switch v.format {
		case inMessages:
			body["max_tokens"] = 4000
			if v.thinks {
				body["thinking"] = object{"type": "enabled", "budget_tokens": 1024}
			}
		case inChat:
			if v.thinks && v.model != "gpt-4.1" {
				body["reasoning_effort"] = "high"
			}
		case inResponses:
			if v.thinks && v.model != "gpt-4.1" {
				body["reasoning"] = object{"effort": "high", "summary": "auto"}
			}
		case inGemini:
			if v.thinks && v.model != "gpt-4.1" {
				body["generationConfig"] = object{"thinkingConfig": object{"includeThoughts": true, "thinkingLevel": "high"}}
			}
		}
		return body
	}
}

func (v *dialog) putSystem(body object, volatile string) {
	c := &dialogClient{format: v.format}
	var parts []dialogPart
	for _, p := range v.system {
		if p.flag == "volatile" {
			p.text = volatile
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return
	}
	switch v.format {
	case inChat:
		body["messages"] = []any{object{"role": "system", "content": c.parts(parts)}}
	case inResponses:
		for _, p := range parts {
			body["instructions"] = asText(body["instructions"]) + p.text
		}
	case inMessages:
		body["system"] = c.parts(parts)
	case inGemini:
		body["systemInstruction"] = object{"parts": c.parts(parts)}
	}
}

func (v *dialog) putTools(body object, choice string) {
	var tools []any
	for _, t := range v.tools {
		switch v.format {
		case inChat:
			tools = append(tools, object{"type": "function", "function": object{"name": t.name, "description": t.says, "parameters": t.schema}})
		case inResponses:
			tools = append(tools, object{"type": "function", "name": t.name, "description": t.says, "parameters": t.schema, "strict": false})
		case inMessages:
			tools = append(tools, object{"name": t.name, "description": t.says, "input_schema": t.schema})
		case inGemini:
			tools = append(tools, object{"name": t.name, "description": t.says, "parametersJsonSchema": t.schema})
		}
	}
	if tools == nil {
		return
	}
	if v.format == inGemini {
		tools = []any{object{"functionDeclarations": tools}}
	}
	if body["tools"] = tools; choice == "" {
		return
	}
	named := choice != "auto" && choice != "none" && choice != "required"
	switch {
	case v.format == inGemini:
		config := object{"mode": map[string]string{"auto": "AUTO", "none": "NONE"}[choice]}
		if config["mode"] == "" {
			config["mode"] = "ANY"
		}
		if named {
			config["allowedFunctionNames"] = []any{choice}
		}
		body["toolConfig"] = object{"functionCallingConfig": config}
	case v.format == inMessages && named:
		body["tool_choice"] = object{"type": "tool", "name": choice}
	case v.format == inMessages:
		body["tool_choice"] = object{"type": strings.Replace(choice, "required", "any", 1)}
	case v.format == inChat && named:
		body["tool_choice"] = object{"type": "function", "function": object{"name": choice}}
	case named:
		body["tool_choice"] = object{"type": "function", "name": choice}
	default:
		body["tool_choice"] = choice
	}
}

var removedNote = regexp.MustCompile(`\[The gateway removed a call of the tool "([^"]*)": its rules do not allow (?:this tool here|these arguments)\.\]`)

// checkAnswer: the client read what the model said, with its own values in place of placeholders, or the answer to an earlier request with the same question.
func (v *dialog) checkAnswer(t *testing.T, i int, call gateway.Call, got gateway.Answer, h parsedTurn) {
	t.Helper()
	s := v.sides[i]
	question := fmt.Sprint(v.key, call.Path, call.Body)
	known := func(was parsedTurn) bool { return was.text == h.text && reflect.DeepEqual(argsOf(was), argsOf(h)) }
	from := got.Header.Get("X-Bardo-Cache")
	if from == "hash" || from == "semantic" {
		v.hits++
		if len(s.said) > 0 || !slices.ContainsFunc(s.stored[question], known) {
			t.Errorf("%s: %s answers what was not asked: %+v, not %+v", v, from, h, s.stored[question])
		}
		return
	}
	if len(s.said) == 0 {
		t.Errorf("%s: no provider was asked: %v", v, got.Header)
		return
	}
	want := v.expected(t, i)
	s.stored[question] = append(s.stored[question], h)
	if said, notes := withoutNotes(h.text); said != strings.Join(strings.Fields(want.text), " ") || !slices.Equal(notes, want.removed) {
		t.Errorf("%s: the client reads\n%q\nnot\n%q\nwithout %q", v, h.text, want.text, want.removed)
	}
	if !reflect.DeepEqual(argsOf(want), argsOf(h)) {
		t.Errorf("%s: the client is asked for\n%v\nnot\n%v", v, argsOf(h), argsOf(want))
	}
	if v.masked() && dialogHolder.MatchString(got.Body+fmt.Sprint(got.Header)) {
		t.Errorf("%s: a placeholder reaches the client: %s %v", v, got.Body, got.Header)
	}
}

func argsOf(h parsedTurn) (all []string) {
	for _, c := range h.calls {
		b, _ := json.Marshal(c.args) // it was JSON before
		all = append(all, c.name+string(b))
	}
	return all
}

// expected is what the client is to read of what the model said in a turn.
func (v *dialog) expected(t *testing.T, i int) (want parsedTurn) {
	t.Helper()
	for k, said := range v.sides[i].said {
		restored := func(text string) string {
			for holder, n := range said.owner {
				text = strings.ReplaceAll(text, holder, v.values[n])
			}
			return text
		}
		if said.b.Text != "" && want.text != "" {
			want.text += "\n\n"
		}
		want.text += restored(said.b.Text)
		for _, c := range said.b.ToolCalls {
			args := parsed(restored(c.Args))
			switch c.Name {
			case "search_tools", "get_tool_schema", "bardo_recall":
				continue
			case "execute_tool":
				want.add(v, parsedCall{name: asText(inside(args, "name")), args: inside(args, "arguments")})
			default:
				want.add(v, parsedCall{name: c.Name, args: args})
			}
		}
		if k < len(v.sides[i].said)-1 && len(want.calls) > 0 {
			t.Errorf("%s: the model was asked again after %+v", v, want.calls)
		}
	}
	if v.extras != nil {
		v.replaceIn(i, &want)
	}
	return want
}

// add adds a call, if no rule takes it out.
func (h *parsedTurn) add(v *dialog, c parsedCall) {
	fate := "allow"
	if v.extras != nil {
		fate = v.fate(c.name, c.args)
	}
	if fate == "remove" || fate == "refuse" {
		h.removed, h.refused = append(h.removed, c.name), h.refused || fate == "refuse"
		return
	}
	h.calls = append(h.calls, c)
}

// withoutNotes is a text without what stands in the place of calls that were taken out, and the names in these.
func withoutNotes(text string) (said string, names []string) {
	for _, m := range removedNote.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return strings.Join(strings.Fields(removedNote.ReplaceAllString(text, " ")), " "), names
}

// masked reports whether values are masked.
func (v *dialog) masked() bool { return v.masks || v.class == "confidential" }

// checkSent looks at what the provider was sent last.
func (v *dialog) checkSent(t *testing.T, i int, call gateway.Call, got gateway.Answer) {
	t.Helper()
	s := v.sides[i]
	did := got.Header.Get("X-Bardo-Pipeline")
	for _, said := range s.said {
		for _, value := range v.values {
			if v.masked() && slices.ContainsFunc(said.seen.texts, func(text string) bool { return strings.Contains(text, value) }) {
				t.Errorf("%s: the provider sees %s: %s", v, value, said.body)
			}
		}
	}
	if len(s.said) == 0 {
		return
	}
	v.checkTaken(t, i)
	first := s.said[0]
	v.checkTools(t, i, &first.seen, did)
	same := v.format == map[string]dialogFormat{"gpt-4.1": inChat, "claude-sonnet-4-5": inMessages, "gemini-3-pro-preview": inGemini, onlyInResponses: inResponses}[v.model]
	adds := v.extras != nil && v.extras.search // what is found
	if in, out := weight([]byte(call.Body), v.values), weight(first.body, v.values); same && out > in && !adds {
		t.Errorf("%s: %d bytes became %d, layers %s", v, in, out, did)
	}
	if failed := verdict(call.Body) == "failed"; !adds && !failed { // then the guardrail, which replaces words, does not
		v.checkPrefix(t, i, &first.seen, did)
	}
	if v.before[i] = &first.seen; strings.Contains(fmt.Sprint(v.record["attempt_log"]), "next:amend") {
		v.before[i] = nil // the provider took it without what it had refused
	}
}

// checkTaken: the provider has refused none of the calls since the last look.
func (v *dialog) checkTaken(t *testing.T, i int) {
	t.Helper()
	for _, r := range v.sides[i].providers[v.model].Generations() {
		if amended := v.extras != nil && strings.Contains(fmt.Sprint(v.record["attempt_log"]), "next:amend"); r.Status != http.StatusOK && !amended { // signed thinking of which a call was taken out
			t.Errorf("%s: the provider refuses with %d: %v\n%s", v, r.Status, v.record["attempt_log"], r.Body)
		}
	}
	for _, p := range v.sides[i].providers {
		p.Forget()
	}
}

// checkTools: the tools are the client's in their order, those that were called and the one that is forced among them.
func (v *dialog) checkTools(t *testing.T, i int, seen *seenRequest, did string) {
	t.Helper()
	at, own := 0, 0
	has := func(name string) bool {
		return slices.ContainsFunc(seen.tools, func(o seenTool) bool { return o.name == name })
	}
	for _, tool := range seen.tools {
		n := slices.IndexFunc(v.tools, func(o dialogTool) bool { return o.name == tool.name })
		if n < 0 {
			if !slices.Contains([]string{"search_tools", "get_tool_schema", "execute_tool", "bardo_recall"}, tool.name) {
				t.Errorf("%s: the provider has a tool %s", v, tool.name)
			}
			continue
		}
		if own++; n < at {
			t.Errorf("%s: the order of the tools changes: %v", v, seen.tools)
		}
		at = n
	}
	offered := 0
	for _, tool := range v.tools {
		if v.offers(tool.name) {
			offered++
		} else if has(tool.name) {
			t.Errorf("%s: %s may not be offered", v, tool.name)
		}
	}
	if own < offered && !strings.Contains(did, "l4;") {
		t.Errorf("%s: %d of %d tools are sent, but the layers did %s", v, own, len(v.tools), did)
	}
	for _, name := range seen.calls {
		if !has(name) && v.offers(name) {
			t.Errorf("%s: %s was called and is left out, layers %s", v, name, did)
		}
	}
	if plan := v.sides[i].plan; plan.forced != "" && !has(plan.forced) {
		t.Errorf("%s: %s is forced and left out, layers %s", v, plan.forced, did)
	}
}

// checkPrefix: what the provider got for the turn before is the beginning of what it gets now.
func (v *dialog) checkPrefix(t *testing.T, i int, seen *seenRequest, did string) {
	t.Helper()
	before := v.before[i]
	if before == nil {
		return
	}
	for _, step := range []string{"stale=", "near=", "relevance=", "summary="} {
		if strings.Contains(did, step) {
			return
		}
	}
	volatile := slices.ContainsFunc(v.system, func(p dialogPart) bool { return p.flag == "volatile" })
	if before.system != seen.system && !volatile {
		t.Errorf("%s: the system prompt changes from\n%s\nto\n%s", v, before.system, seen.system)
	}
	for k, turn := range before.turns {
		if k >= len(seen.turns) || seen.turns[k] != turn {
			now := ""
			if k < len(seen.turns) {
				now = seen.turns[k]
			}
			turn, now = fromDifference(turn, now)
			t.Errorf("%s: turn %d of %d changes, layers %s, from\n%s\nto\n%s", v, k, len(before.turns), did, turn, now)
			return
		}
	}
}

// compareSent: both shapes sent the same.
func (v *dialog) compareSent(t *testing.T) {
	t.Helper()
	a, b := v.sides[0].said, v.sides[1].said
	if len(a) != len(b) {
		t.Errorf("%s: ext_proc made %d calls, the module %d", v, len(a), len(b))
		return
	}
	for k := range a {
		if one, other := numbered(a[k].body), numbered(b[k].body); one != other {
			one, other = fromDifference(one, other)
			t.Errorf("%s: ext_proc sent\n%s\nthe module\n%s", v, one, other)
		}
	}
}

// fromDifference is what of two texts is around the place where they begin to differ.
func fromDifference(a, b string) (string, string) {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	around := func(s string) string { return s[max(0, i-80):min(len(s), i+160)] }
	return around(a), around(b)
}
