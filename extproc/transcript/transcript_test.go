package transcript_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
)

// sample is a request in which every text that a person may have written starts with its expected kind and a number.
type sample struct {
	dialect wire.Dialect
	op      chat.Op
	body    string
}

var samples = map[string]sample{
	"openai": {openai.Dialect{}, chat.Generate, `{"model":"m","user":"other0","metadata":{"k":"other1"},"messages":[
		{"role":"system","content":"system2"},{"role":"developer","content":[{"type":"text","text":"system3"}]},
		{"role":"user","content":"user4","name":"bob"},
		{"role":"user","content":[{"type":"text","text":"user5"},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]},
		{"role":"assistant","reasoning_content":"thinking6","content":null,"tool_calls":[
			{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"q\":\"arguments7\",\"arguments8\":[1,\"arguments9\"]}"}},
			{"id":"c2","type":"custom","custom":{"name":"g","input":"arguments10"}}]},
		{"role":"tool","tool_call_id":"c1","content":"result11"},
		{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"result12"}]},
		{"role":"assistant","content":"assistant13","refusal":"assistant14","reasoning_details":[{"type":"reasoning.text","text":"thinking15","signature":"s"}],
			"thinking_blocks":[{"type":"thinking","thinking":"thinking16","signature":"s"},{"type":"redacted_thinking","data":"zz"}]}],
		"tools":[{"type":"function","function":{"name":"f","description":"definition17","parameters":{"type":"object","properties":{"q":{"type":"string","description":"definition18"}}}}},
			{"type":"custom","custom":{"name":"g","description":"definition19"}}],
		"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"description":"other20"}}},
		"prediction":{"type":"content","content":"other21"},"bardo":{"subsystem":"risk"}}`},
	"anthropic": {anthropic.Dialect{}, chat.Generate, `{"model":"m","max_tokens":9,"metadata":{"user_id":"other0"},
		"system":[{"type":"text","text":"system1"},{"type":"text","text":"system2","cache_control":{"type":"ephemeral"}}],
		"tools":[{"name":"f","description":"definition3","input_schema":{"type":"object","properties":{"q":{"enum":["definition4"]}}}},{"type":"web_search_20250305","name":"web_search"}],
		"messages":[{"role":"user","content":"user5"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"thinking6","signature":"sig"},{"type":"redacted_thinking","data":"zz"},{"type":"text","text":"assistant7"},
			{"type":"tool_use","id":"c1","name":"f","input":{"q":"arguments8","n":[{"m":"arguments9"}]}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"result10"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},
			{"type":"document","title":"document11","context":"document12","source":{"type":"text","media_type":"text/plain","data":"document13"}},
			{"type":"document","source":{"type":"content","content":[{"type":"text","text":"document14"}]}},
			{"type":"search_result","source":"document15","title":"document16","content":[{"type":"text","text":"document17"}]},
			{"type":"text","text":"user18","cache_control":{"type":"ephemeral"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","content":"result19"}]}]}`},
	"responses": {responses.Dialect{}, chat.Generate, `{"model":"m","instructions":"system0","user":"other1","input":[
		{"role":"developer","content":"system2"},{"type":"message","role":"user","content":[{"type":"input_text","text":"user3"}]},
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"thinking4"}],"content":[{"type":"reasoning_text","text":"thinking5"}],"encrypted_content":"e"},
		{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"q\":\"arguments6\"}"},
		{"type":"custom_tool_call","call_id":"c2","name":"g","input":"arguments7"},
		{"type":"function_call_output","call_id":"c1","output":"result8"},
		{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"result9"}]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"assistant10"},{"type":"refusal","refusal":"assistant11"}]}],
		"tools":[{"type":"function","name":"f","description":"definition12","parameters":{"type":"object"}}],"text":{"format":{"type":"json_schema","name":"n","schema":{"title":"other13"}}}}`},
	"a responses input": {responses.Dialect{}, chat.Generate, `{"model":"m","input":"user0"}`},
	"gemini": {gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", ""), chat.Generate, `{"systemInstruction":{"parts":[{"text":"system0"}]},"contents":[
		{"role":"user","parts":[{"text":"user1"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},
		{"role":"model","parts":[{"text":"thinking2","thought":true},{"text":"assistant3"},{"functionCall":{"name":"f","args":{"q":"arguments4"}},"thoughtSignature":"s"}]},
		{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"result5","deep":{"result6":1}}}}]}],
		"tools":[{"functionDeclarations":[{"name":"f","description":"definition7","parameters":{"type":"OBJECT"}},{"name":"g","description":"definition8"}]}],
		"generationConfig":{"responseSchema":{"description":"other9"}}}`},
	"completions": {completions.Dialect{}, chat.Generate, `{"model":"m","prompt":["user0"],"user":"other1"}`},
	"embeddings":  {embeddings.Dialect{}, chat.Embed, `{"model":"m","input":["user0","user1"],"user":"other2"}`},
}

func decode(t testing.TB, s sample) *chat.Request {
	t.Helper()
	r, err := s.dialect.Decode(s.op, header.List{}, "", []byte(s.body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t testing.TB, s sample) *transcript.Transcript {
	t.Helper()
	tr, err := transcript.Of(decode(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// isMarked reports whether a string of a sample is one of those texts.
func isMarked(s string) bool {
	return strings.TrimRight(s, "0123456789") != s && slices.ContainsFunc(kinds, func(k transcript.Kind) bool { return strings.HasPrefix(s, k.String()) })
}

var kinds = []transcript.Kind{
	transcript.System, transcript.User, transcript.Assistant, transcript.Thinking, transcript.Arguments, transcript.Result, transcript.Document,
	transcript.Definition, transcript.Other,
}

func TestEveryTextIsFoundAsWhatItIs(t *testing.T) {
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			tr := read(t, s)
			seen := map[string]bool{}
			for i, at := range tr.Texts {
				if at.Turn >= 0 && (i < tr.Turns[at.Turn].First || i >= tr.Turns[at.Turn].End) {
					t.Errorf("text %d is not among those of its turn", i)
				}
				tr.Edit(i, func(s string) (string, bool) {
					if isMarked(s) {
						seen[s] = true
						if kind := at.Kind.String(); !strings.HasPrefix(s, kind) {
							t.Errorf("%s has the kind %s", s, kind)
						}
					}
					return "", false
				})
			}
			for i := range 40 {
				for _, k := range kinds {
					text := fmt.Sprint(k, i)
					if strings.Contains(s.body, text+`"`) || strings.Contains(s.body, text+`\"`) {
						if !seen[text] {
							t.Errorf("%s was not found", text)
						}
					}
				}
			}
		})
	}
}

func TestNothingChangesUnlessItIsChanged(t *testing.T) {
	for name, s := range samples {
		r := decode(t, s)
		tr, err := transcript.Of(r)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := tr.Request(); out != r || err != nil || !tr.Is(r) {
			t.Errorf("%s: it is another request, %v", name, err)
		}
	}
}

// TestEditedTextsReachTheConversation: every text is changed, and the dialect parses the changed document.
func TestEditedTextsReachTheConversation(t *testing.T) {
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			tr := read(t, s)
			for i := range tr.Texts {
				tr.Edit(i, func(s string) (string, bool) { return "<\"" + s + "\n>", isMarked(s) })
			}
			out, err := tr.Request()
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(out.Doc.Bytes) || strings.Contains(string(out.Doc.Bytes), `"bardo"`) {
				t.Fatalf("the document is %s", out.Doc.Bytes)
			}
			if out.InputTokens <= 0 || out.MaxInput <= 0 {
				t.Errorf("it has %d tokens, at most %d", out.InputTokens, out.MaxInput)
			}
			if s.op == chat.Embed {
				return
			}
			c, err := out.Conversation()
			if err != nil {
				t.Fatal(err)
			}
			all, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, role := range []string{"system", "user", "assistant", "result"} {
				for i := range 40 {
					if text := fmt.Sprint(role, i); strings.Contains(s.body, text+`"`) && !strings.Contains(string(all), `\u003c\"`+text+`\n\u003e`) && !strings.Contains(string(all), `\u003c\\\"`+text) {
						t.Errorf("%s did not reach the conversation: %s", text, all)
					}
				}
			}
		})
	}
}

// TestLongNumbersOfArgumentsAreTexts: a number that changes becomes a string.
func TestLongNumbersOfArgumentsAreTexts(t *testing.T) {
	for name, s := range map[string]sample{
		"openai": {openai.Dialect{}, chat.Generate, `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"card\": 4111111111111111, \"n\": [-12, true]}"}}]}]}`},
		"anthropic": {anthropic.Dialect{}, chat.Generate, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[
			{"type":"tool_use","id":"c","name":"f","input":{"card":4111111111111111,"n":[-12,true]}}]}]}`},
	} {
		tr := read(t, s)
		for i := range tr.Texts {
			tr.Edit(i, func(s string) (string, bool) { return "<card>", s == "4111111111111111" })
		}
		out, err := tr.Request()
		if err != nil {
			t.Fatal(err)
		}
		c, err := out.Conversation()
		if err != nil {
			t.Fatal(err)
		}
		args := c.Messages[len(c.Messages)-1].Parts[0].Tool.Args
		if plain := strings.ReplaceAll(args, " ", ""); plain != `{"card":"<card>","n":[-12,true]}` && plain != `{"card":"\u003ccard\u003e","n":[-12,true]}` {
			t.Errorf("%s: the arguments are %s", name, args)
		}
	}
}

func TestTurnsHaveRolesCallsAndResults(t *testing.T) {
	for name, want := range map[string]string{
		"openai":            "system system user user+opaque assistant[c1:f c2:g] tool(c1) tool(c2) assistant+opaque",
		"anthropic":         "system+marked user assistant[c1:f]+opaque user(c1)+marked+opaque user(c2)",
		"responses":         "system system user assistant assistant[c1:f] assistant[c2:g] tool(c1) tool(c2) assistant",
		"a responses input": "user",
		"gemini":            "system user+opaque assistant[:f] user(f)",
	} {
		var got []string
		for _, turn := range read(t, samples[name]).Turns {
			s := string(turn.Role)
			if len(turn.Calls) > 0 {
				var calls []string
				for _, c := range turn.Calls {
					calls = append(calls, c.ID+":"+c.Name)
				}
				s += fmt.Sprint(calls)
			}
			if len(turn.Answers) > 0 {
				s += "(" + strings.Join(turn.Answers, " ") + ")"
			}
			if turn.Marked {
				s += "+marked"
			}
			if turn.Opaque {
				s += "+opaque"
			}
			got = append(got, s)
		}
		if all := strings.Join(got, " "); all != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, all, want)
		}
	}
}

// TestArgumentsAndResultsNameTheirCall, including turns with several calls.
func TestArgumentsAndResultsNameTheirCall(t *testing.T) {
	for name, want := range map[string]string{
		"openai":    "arguments:c1 arguments:c2 result:c1 result:c2",
		"anthropic": "arguments:c1 result:c1 result:c2",
		"responses": "arguments:c1 arguments:c2 result:c1 result:c2",
		"gemini":    "arguments:f result:f",
	} {
		var got []string
		for _, at := range read(t, samples[name]).Texts {
			isCall := at.Kind == transcript.Arguments || at.Kind == transcript.Result
			if isCall {
				got = append(got, at.Kind.String()+":"+at.Call)
			}
			if at.Call != "" && !isCall && at.Kind != transcript.Other {
				t.Errorf("%s: a text of kind %s belongs to the call %s", name, at.Kind, at.Call)
			}
		}
		if all := strings.Join(got, " "); all != want {
			t.Errorf("%s has %s, want %s", name, all, want)
		}
	}
}

func TestTurnsAndToolsCanBeRemoved(t *testing.T) {
	for name, s := range samples {
		n := len(read(t, s).Turns)
		for mask := range 1 << min(n, 9) {
			tr := read(t, s)
			remaining := 0
			for i := range n {
				if mask>>i&1 == 1 && tr.Removable(i) {
					tr.Remove(i)
				} else {
					remaining++
				}
			}
			for i := range tr.Tools {
				if mask>>i&1 == 0 {
					tr.RemoveTool(i)
				}
			}
			out, err := tr.Request()
			if err != nil || !json.Valid(out.Doc.Bytes) {
				t.Fatalf("%s without %b: %v, %s", name, mask, err, out.Doc.Bytes)
			}
			rest, err := transcript.Of(out)
			if err != nil || len(rest.Turns) != remaining {
				t.Fatalf("%s without %b has %d turns, want %d: %s", name, mask, len(rest.Turns), remaining, out.Doc.Bytes)
			}
			for i, tool := range rest.Tools {
				if tool.Name == "" {
					t.Fatalf("%s: tool %d has no name: %s", name, i, out.Doc.Bytes)
				}
			}
		}
	}
}

func TestToolsAreKnown(t *testing.T) {
	for name, want := range map[string]string{"openai": "f g", "anthropic": "f web_search*", "responses": "f", "gemini": "f g"} {
		var got []string
		for _, tool := range read(t, samples[name]).Tools {
			s := tool.Name
			if tool.Builtin {
				s += "*"
			}
			got = append(got, s)
			if d, ok := tool.Description.Str(); !tool.Builtin && (!ok || !strings.HasPrefix(d, "definition")) {
				t.Errorf("%s: %s is described as %q", name, tool.Name, d)
			}
		}
		if all := strings.Join(got, " "); all != want {
			t.Errorf("%s has the tools %s, want %s", name, all, want)
		}
	}
}

// FuzzAnyDocument: a document of any shape is read without a panic, and edits keep it valid JSON.
func FuzzAnyDocument(f *testing.F) {
	for _, s := range samples {
		f.Add(s.body, uint16(5))
	}
	f.Fuzz(func(t *testing.T, body string, mask uint16) {
		for _, d := range []wire.Dialect{openai.Dialect{}, anthropic.Dialect{}, responses.Dialect{}, gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", "")} {
			r, err := d.Decode(chat.Generate, header.List{}, "", []byte(body))
			if err != nil {
				continue
			}
			tr, err := transcript.Of(r)
			if err != nil {
				t.Fatal(err)
			}
			for i := range tr.Texts {
				tr.Edit(i, func(s string) (string, bool) { return s + "\"\\", mask>>(i%16)&1 == 1 })
			}
			for i := range tr.Turns {
				if mask>>(i%16)&1 == 0 {
					tr.Remove(i)
				}
			}
			for i := range tr.Tools {
				if mask>>(i%16)&1 == 0 {
					tr.RemoveTool(i)
				}
			}
			out, err := tr.Request()
			if err != nil || !json.Valid(out.Doc.Bytes) {
				t.Fatalf("%s: %v, %s", d.Name(), err, out.Doc.Bytes)
			}
		}
	})
}
