package crossing_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
)

// side is one dialect: how its requests are decoded, generated and encoded.
type side struct {
	dialect wire.Dialect
	make    func(m *requestGenerator) string
	encode  func(*chat.Request) ([]byte, []string, error)
}

// The sides encode for providers that support everything that their format can express.
var (
	openaiSide = side{openai.Dialect{}, (*requestGenerator).openai, func(r *chat.Request) ([]byte, []string, error) {
		return openai.EncodeRequest(nil, r, openai.RequestOptions{Model: "gpt", CacheControl: true, ReasoningDetails: true})
	}}
	anthropicSide = side{anthropic.Dialect{}, (*requestGenerator).anthropic, func(r *chat.Request) ([]byte, []string, error) {
		return anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "claude", Adaptive: true, StructuredOutputs: true})
	}}
)

// read reads a request and its conversation.
func (s side) read(t *testing.T, body string) *chat.Request {
	t.Helper()
	r, err := s.dialect.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if _, err := r.Conversation(); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return r
}

func TestTranslationThereAndBackKeepsCommonMembers(t *testing.T) {
	for seed := range uint64(500) {
		crossAndReturn(t, seed)
	}
}

func FuzzTranslationThereAndBackKeepsCommonMembers(f *testing.F) {
	f.Add(uint64(1000))
	f.Fuzz(crossAndReturn)
}

func crossAndReturn(t *testing.T, seed uint64) {
	t.Helper()
	checkCrossing(t, newGenerator(seed).openai(), openaiSide, anthropicSide)
	checkCrossing(t, newGenerator(seed).anthropic(), anthropicSide, openaiSide)
}

// checkCrossing translates a request to the other dialect and back. Its content must be equal all three times, and nothing may be degraded.
func checkCrossing(t *testing.T, body string, here, there side) {
	t.Helper()
	first := here.read(t, body)
	want := gist(t, first)
	crossed := cross(t, first, there)
	second := there.read(t, crossed)
	if got := gist(t, second); got != want {
		t.Fatalf("%s\nbecame\n%s\nwhich says\n%s\nwant\n%s", body, crossed, got, want)
	}
	back := cross(t, second, here)
	if got := gist(t, here.read(t, back)); got != want {
		t.Fatalf("%s\nbecame\n%s\nand came back as\n%s\nwhich says\n%s\nwant\n%s", body, crossed, back, got, want)
	}
}

func cross(t *testing.T, r *chat.Request, to side) string {
	t.Helper()
	body, degraded, err := to.encode(r)
	if err != nil {
		t.Fatalf("%v: %s", err, r.Doc.Bytes)
	}
	if len(degraded) > 0 {
		t.Fatalf("%s\nbecame\n%s\nand degraded %v", r.Doc.Bytes, body, degraded)
	}
	return string(body)
}

// TestK25TheSameRequestGivesTheSameBytes, in every crossing.
func TestK25TheSameRequestGivesTheSameBytes(t *testing.T) {
	for seed := range uint64(20) {
		for _, way := range []struct{ from, to side }{
			{openaiSide, anthropicSide}, {anthropicSide, openaiSide}, {openaiSide, openaiSide}, {anthropicSide, anthropicSide},
		} {
			body := way.from.make(newGenerator(seed))
			first, _, err := way.to.encode(way.from.read(t, body))
			if err != nil {
				t.Fatal(err)
			}
			same := way.from.read(t, body)
			for range 50 {
				for _, r := range []*chat.Request{same, way.from.read(t, body)} {
					second, _, err := way.to.encode(r)
					if err != nil || !bytes.Equal(second, first) {
						t.Fatalf("%s\nthen\n%s (%v)", first, second, err)
					}
				}
			}
		}
	}
}

// TestTheSameDialectKeepsItsBytes: a client's request to a provider of its own dialect passes unchanged.
func TestTheSameDialectKeepsItsBytes(t *testing.T) {
	for seed := range uint64(200) {
		for _, s := range []side{openaiSide, anthropicSide} {
			body := s.make(newGenerator(seed))
			r, err := s.dialect.Decode(chat.Generate, nil, "", []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			got, degraded, err := s.encode(r)
			want := body
			if s.dialect.Name() == chat.OpenAI && r.Stream { // usage is requested
				want = strings.TrimSuffix(want, "}") + `,"stream_options":{"include_usage":true}}`
			}
			if err != nil || len(degraded) > 0 || string(got) != want {
				t.Fatalf("got  %s, %v, %v\nwant %s", got, degraded, err, want)
			}
		}
	}
}

// gist returns the content of a request without these differences of the dialects:
//   - blocks of the system prompt without cache marks are one, with an empty line between them;
//   - consecutive messages of one side are merged, with tool results first;
//   - consecutive texts of an assistant's turn are merged, up to a cache mark;
//   - images in a tool's result follow the results;
//   - the cache mark of a result is one on its last part, and an empty result has none;
//   - parallel tool calls are the default;
//   - an effort enables thinking.
func gist(t *testing.T, r *chat.Request) string {
	t.Helper()
	c, err := r.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	plain := *c
	plain.System = joinTexts(c.System, "\n\n")
	plain.Messages = sides(c.Messages)
	plain.Words, plain.Unmapped = nil, nil
	plain.Params.SchemaName = ""
	if c.Params.Effort != "" {
		plain.Params.Thinking = chat.ThinkingUnset
	}
	if p := c.ParallelTools; p != nil && *p {
		plain.ParallelTools = nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "stream %v, %d tokens, choice %v, parallel %v\n", r.Stream, r.MaxTokens, plain.ToolChoice, plain.ParallelTools != nil)
	fmt.Fprintf(&b, "%+v, schema %s\n", plain.Params, plain.Params.Schema)
	for _, tool := range plain.Tools {
		schema := bytes.Replace(tool.Schema, []byte(`,"properties":{}}`), []byte("}"), 1) // OpenAI requires the member, other formats do not
		fmt.Fprintf(&b, "tool %s %q %s strict %v %s\n", tool.Name, tool.Description, schema, tool.Strict, tool.CacheControl)
	}
	for _, p := range plain.System {
		b.WriteString("system" + partGist(p) + "\n")
	}
	for _, m := range plain.Messages {
		for _, p := range m.Parts {
			b.WriteString(string(m.Role) + partGist(p) + "\n")
		}
	}
	return b.String()
}

func partGist(p chat.Part) string {
	s := fmt.Sprintf(" %d %q %s%s%s %s %s", p.Kind, p.Text, p.Media, p.Data, p.URL, p.Name, p.Signature)
	if p.Tool.ID != "" {
		s += fmt.Sprintf(" %q", p.Tool)
	}
	for _, inner := range p.Parts {
		s += " (" + partGist(inner) + ")"
	}
	return s + string(p.CacheControl)
}

// sides merges the messages into turns that alternate.
func sides(ms []chat.Message) []chat.Message {
	var turns []chat.Message
	for _, m := range ms {
		role := chat.RoleUser
		if m.Role == chat.RoleAssistant {
			role = chat.RoleAssistant
		}
		if n := len(turns); n == 0 || turns[n-1].Role != role {
			turns = append(turns, chat.Message{Role: role})
		}
		turn := &turns[len(turns)-1]
		turn.Parts = append(turn.Parts, m.Parts...)
	}
	for i := range turns {
		if turns[i].Role == chat.RoleAssistant {
			turns[i].Parts = joinTexts(turns[i].Parts, "")
		} else {
			turns[i].Parts = resultsFirst(turns[i].Parts)
		}
	}
	return turns
}

func joinTexts(parts []chat.Part, between string) []chat.Part {
	var joined []chat.Part
	for _, p := range parts {
		n := len(joined)
		if n > 0 && p.Kind == chat.PartText && joined[n-1].Kind == chat.PartText && joined[n-1].CacheControl == nil {
			joined[n-1].Text += between + p.Text
			joined[n-1].CacheControl = p.CacheControl
			continue
		}
		joined = append(joined, p)
	}
	return joined
}

func resultsFirst(parts []chat.Part) []chat.Part {
	var results, shown, rest []chat.Part
	for _, p := range parts {
		if p.Kind != chat.PartToolResult {
			if !strings.HasPrefix(p.Text, wire.MediaLabelPrefix) {
				rest = append(rest, p)
			}
			continue
		}
		var texts []chat.Part
		for _, inner := range p.Parts {
			if inner.Kind == chat.PartText {
				texts = append(texts, inner)
			} else {
				shown = append(shown, inner)
			}
		}
		if n := len(texts); n > 0 && texts[n-1].CacheControl != nil {
			p.CacheControl = texts[n-1].CacheControl
			texts[n-1].CacheControl = nil
		}
		if len(texts) == 0 {
			p.CacheControl = nil
		}
		p.Parts = texts
		results = append(results, p)
	}
	return append(append(results, shown...), rest...)
}
