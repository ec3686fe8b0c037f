package crossing_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/jsonx"
)

// geminiClient is the dialect at a path, which contains the model.
var geminiClient = gemini.Dialect{}.ForPath(gemini.Root+"/m:generateContent", "")

var geminiSide = side{dialect: geminiClient, encode: func(r *chat.Request) ([]byte, []string, error) {
	return gemini.EncodeRequest(nil, r, gemini.RequestOptions{Levels: []string{"minimal", "low", "medium", "high"}})
}}

var geminiWays = []struct {
	dir      string
	from, to side
}{
	{"gemini-to-openai", geminiSide, openaiSide},
	{"gemini-to-anthropic", geminiSide, anthropicSide},
	{"openai-to-gemini", openaiSide, geminiSide},
	{"anthropic-to-gemini", anthropicSide, geminiSide},
}

func TestRequestsToAndFromGemini(t *testing.T) {
	encoders := map[string]func(*testing.T, pair, *chat.Request) (encoded, error){
		"gemini-to-openai": func(t *testing.T, p pair, r *chat.Request) (e encoded, err error) {
			t.Helper()
			e.body, e.degraded, err = openai.EncodeRequest(nil, r, openaiOptions(t, p.options()))
			return e, err
		},
		"gemini-to-anthropic": func(t *testing.T, p pair, r *chat.Request) (e encoded, err error) {
			t.Helper()
			e.body, e.degraded, err = anthropic.EncodeRequest(nil, r, anthropicOptions(t, p.options()))
			return e, err
		},
	}
	for _, way := range geminiWays {
		t.Run(way.dir, func(t *testing.T) {
			runPairs(t, "testdata/request/"+way.dir, func(t *testing.T, p pair) []txtar.File {
				t.Helper()
				return crossed(t, way.from.dialect, p, func(r *chat.Request) (e encoded, err error) {
					if encode := encoders[way.dir]; encode != nil {
						return encode(t, p, r)
					}
					e.body, e.degraded, err = way.to.encode(r)
					return e, err
				})
			})
		})
	}
}

// FuzzEveryMemberIsSentOrNamedToGemini: see FuzzEveryMemberIsSentOrNamed. This format has most parameters in its generationConfig instead
// of at the top level.
func FuzzEveryMemberIsSentOrNamedToGemini(f *testing.F) {
	for i, way := range geminiWays {
		all := pairs(f, "testdata/request/"+way.dir)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f.Add(all[name].file("in.json"), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, body string, n uint8) {
		way := geminiWays[int(n)%len(geminiWays)]
		if way.from.dialect != geminiClient {
			checkMembers(t, way.from, way.to, body)
			return
		}
		checkGeminiMembers(t, way.to, body)
	})
}

// checkGeminiMembers removes each member of a request and of its generationConfig in turn: the result must change, or the member must be
// named.
func checkGeminiMembers(t *testing.T, to side, body string) {
	t.Helper()
	a := encodeAcross(t, geminiSide, to, body)
	if a == nil {
		return
	}
	check := func(path string, v jsonx.Value, e *jsonx.Edits) {
		if slices.Contains(a.degraded, path) || v.IsNull() || wire.IsEmpty(v) || a.isGeminiDefault(path, v) {
			return
		}
		without := encodeAcross(t, geminiSide, to, string(e.AppendTo(nil, &a.r.Doc)))
		if without != nil && without.out == a.out && slices.Equal(without.degraded, a.degraded) {
			t.Fatalf("%q of\n%s\nis neither carried nor named:\n%s\n%v", path, body, a.out, a.degraded)
		}
	}
	for i := range a.r.Doc.Members {
		m := &a.r.Doc.Members[i]
		v := jsonx.Value{Raw: a.r.Doc.Bytes[m.Start:m.End], At: m.Start}
		var e jsonx.Edits
		e.Delete(&a.r.Doc, m.Key)
		check(m.Key, v, &e)
		if m.Key != "generationConfig" && m.Key != "generation_config" {
			continue
		}
		for key, member := range v.Members {
			var e jsonx.Edits
			e.Replace(member.At, member.At+len(member.Raw), jsonx.Raw("null"))
			check(string(key), member, &e)
		}
	}
}

// isGeminiDefault reports whether a member may have no effect.
func (a *memberCheck) isGeminiDefault(key string, v jsonx.Value) bool {
	c, p := a.r.Conv, &a.r.Conv.Params
	number, _ := v.Float()
	on, isBool := v.Bool()
	functions := slices.ContainsFunc(c.Tools, func(tool chat.Tool) bool { return tool.Raw == nil })
	switch key {
	case "model", "bardo":
		return true
	case "systemInstruction", "system_instruction":
		return len(c.System) == 0
	case "toolConfig", "tool_config":
		return !functions || c.ToolChoice.Mode == chat.ToolAuto
	case "tools":
		return !functions // each tool that runs at Google is named
	case "generationConfig", "generation_config":
		return true // its members are checked
	case "thinkingConfig", "thinking_config":
		return p.Effort == "" && p.ThinkingBudget == 0 || p.Thinking != chat.ThinkingUnset
	case "responseMimeType", "response_mime_type":
		return v.Equal("text/plain") || p.Schema != nil
	case "responseModalities", "response_modalities":
		return string(v.Raw) == `["TEXT"]`
	case "candidateCount", "candidate_count", "topP", "top_p", "temperature":
		return number == 1
	case "maxOutputTokens", "max_output_tokens":
		return number == 4096
	case "presencePenalty", "frequencyPenalty", "presence_penalty", "frequency_penalty", "logprobs":
		return number == 0
	case "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema", "_responseJsonSchema":
		return true // one of two
	}
	return isBool && !on
}

func TestAGeminiRequestKeepsItsBytes(t *testing.T) {
	for _, way := range geminiWays[:2] {
		for name, p := range pairs(t, "testdata/request/"+way.dir) {
			body := []byte(p.file("in.json"))
			r, err := geminiClient.Decode(chat.Generate, nil, "", body)
			if err != nil || bytes.Contains(body, []byte("YW50aHJvcGlj")) { // a signature of another vendor
				continue
			}
			if out, names, err := geminiSide.encode(r); err != nil || len(names) > 0 || !bytes.Equal(out, body) {
				t.Errorf("%s: %v %v\n%s\nwant\n%s", name, err, names, out, body)
			}
		}
	}
}

func TestK25AGeminiRequestGivesTheSameBytes(t *testing.T) {
	for _, way := range geminiWays {
		for name, p := range pairs(t, "testdata/request/"+way.dir) {
			first := encodeAcross(t, way.from, way.to, p.file("in.json"))
			for range 20 {
				if second := encodeAcross(t, way.from, way.to, p.file("in.json")); first != nil && (second.out != first.out || !slices.Equal(second.degraded, first.degraded)) {
					t.Fatalf("%s: %s\nthen\n%s", name, first.out, second.out)
				}
			}
		}
	}
}

// TestRequestsTranslatedToGeminiReadTheSame: a request that was written in Gemini's format can be decoded, and has the same content in the
// dialect that it came from.
func TestRequestsTranslatedToGeminiReadTheSame(t *testing.T) {
	for seed := range uint64(300) {
		for _, from := range []side{openaiSide, anthropicSide} {
			body := from.make(newGenerator(seed))
			a := encodeAcross(t, from, geminiSide, body)
			if a == nil {
				t.Fatalf("%s is refused", body)
			}
			r, err := geminiClient.Decode(chat.Generate, nil, "", []byte(a.out))
			if err != nil {
				t.Fatalf("%v: %s", err, a.out)
			}
			back, names, err := from.encode(r)
			if err != nil || len(names) > 0 {
				t.Fatalf("%s\nbecame\n%s\nand came back with %v %v\n%s", body, a.out, err, names, back)
			}
			if got, want := callsOf(t, from.read(t, string(back))), callsOf(t, from.read(t, body)); got != want {
				t.Fatalf("%s\nbecame\n%s\nand came back as\n%s\nwith\n%s\nwant\n%s", body, a.out, back, got, want)
			}
		}
	}
}

// callsOf returns the texts, calls and results of a request in order: what is equal in all formats.
func callsOf(t *testing.T, r *chat.Request) string {
	t.Helper()
	c, err := r.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, m := range sides(c.Messages) {
		b.WriteString("\n" + string(m.Role) + ": ")
		for _, p := range m.Parts {
			switch p.Kind { //nolint:exhaustive // the others are tested in pairs
			case chat.PartText:
				if p.Text != "a.pdf" { // a document's name, which is sent as text
					b.WriteString(p.Text)
				}
			case chat.PartToolUse:
				b.WriteString(" call " + p.Tool.ID + p.Tool.Name + p.Tool.Args + "\n")
			}
		}
	}
	return b.String()
}

// FuzzAnyGeminiAnswer: see FuzzAnyAnswer.
func FuzzAnyGeminiAnswer(f *testing.F) {
	for i, s := range samples(f) {
		if s.from.dialect == chat.Gemini {
			f.Add(s.body, s.from.stream, uint16(i))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, stream bool, at uint16) {
		from := form{chat.Gemini, stream}
		cut := int(at) % (len(body) + 1)
		for _, to := range forms {
			r := &chat.Request{Dialect: to.dialect, Stream: to.stream, Choices: 1}
			events := decode(from, r, body)
			if n := len(events); n == 0 || events[n-1].Kind != chat.End && events[n-1].Kind != chat.Error && !events[n-1].Tail {
				t.Fatalf("%q has no end", body)
			}
			want, _ := encode(to, from.dialect, events)
			got, _ := encode(to, from.dialect, decode(from, r, body[:cut], body[cut:]))
			checkFrames(t, to, from.dialect, events)
			if !bytes.Equal(got, want) {
				t.Fatalf("%q for %s, cut at %d\n%s\nwant\n%s", body, to, cut, got, want)
			}
		}
	})
}
