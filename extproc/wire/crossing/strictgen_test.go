package crossing_test

import (
	"fmt"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// docGenerator generates requests with duplicate names, names in another case or with escapes, odd lengths, and values of wrong types. The
// script provides the random decisions; an empty one generates a plain request.
type docGenerator struct {
	script []byte
	camel  bool // names have two spellings
}

// n returns a number below k from the script; 0 at its end.
func (g *docGenerator) n(k int) int {
	if len(g.script) == 0 {
		return 0
	}
	n := int(g.script[0])
	g.script = g.script[1:]
	return n % k
}

// now returns true once in a given number of times.
func (g *docGenerator) now(in int) bool { return g.n(in) == in-1 }

func (g *docGenerator) pick(of ...string) string { return of[g.n(len(of))] }

// name returns a member's key and colon, sometimes in a spelling that some reader treats as the name.
func (g *docGenerator) name(name string) string {
	i := g.n(len(name))
	spelled := name
	switch g.n(70) {
	case 69:
		spelled = strings.ToUpper(name[:1]) + name[1:]
	case 68:
		spelled = strings.ToUpper(name)
	case 67:
		spelled = name[:i] + strings.ToUpper(name[i:i+1]) + name[i+1:]
	case 66, 65:
		spelled = name[:i] + fmt.Sprintf(`\u%04x`, name[i]) + name[i+1:]
	case 64:
		spelled = strings.NewReplacer("s", "\u017f", "k", "\u212a").Replace(name)
	case 63:
		spelled = strings.Replace(name, "i", `\u0131`, 1)
	case 62:
		spelled = name + `\u0000`
	case 61:
		spelled = strings.ToLower(name)
	case 60:
		spelled = name + strings.Repeat("x", 1<<g.n(14))
	default:
		if g.camel && i%2 == 1 {
			spelled = snake(name)
		}
	}
	return `"` + spelled + `":`
}

// snake converts a name from camelCase to snake_case.
func snake(name string) string {
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// member returns a member with one of the values, sometimes twice.
func (g *docGenerator) member(name string, values ...string) string {
	m := g.name(name) + g.value(values)
	if g.now(40) {
		m += "," + g.name(name) + g.value(values)
	}
	return m
}

func (g *docGenerator) value(of []string) string {
	if g.now(40) {
		return g.pick(`null`, `1e3`, `4096.0`, `1e400`, `99999999999999999999999`, `-1`, `0`, `"12"`, `true`, `"tr\u0075e"`, `{}`, `[]`,
			`"`+strings.Repeat("y", 1<<g.n(14))+`"`, strings.Repeat(`[`, 20)+strings.Repeat(`]`, 20))
	}
	return of[g.n(len(of))]
}

// object returns an object with some of the members, in any order.
func (g *docGenerator) object(needed int, members ...func() string) string {
	var out []string
	for i, m := range members {
		if i < needed || g.now(3) {
			out = append(out, m())
		}
	}
	if g.now(6) {
		out = append(out, g.pick(`"x_unknown":{"Model":1,"model":2}`, `"x_unknown":{"a":1,"a":2}`, `"metadata":{"model":"a","Model":"b","model":"c"}`, `"":0`))
	}
	for i := range out {
		j := i + g.n(len(out)-i)
		out[i], out[j] = out[j], out[i]
	}
	return "{" + strings.Join(out, ",") + "}"
}

// of returns a generator of a member of an object.
func (g *docGenerator) of(name string, value func() string) func() string {
	return func() string { return g.member(name, value()) }
}

// choice returns a generator of a member with one of the values.
func (g *docGenerator) choice(name string, values ...string) func() string {
	return func() string { return g.member(name, values...) }
}

// request returns a request of a dialect.
func (g *docGenerator) request(d chat.Dialect) string {
	g.camel = d == chat.Gemini
	switch d { //nolint:exhaustive // the fifth has the format of the first
	case chat.Anthropic:
		return g.message()
	case chat.Responses:
		return g.response()
	case chat.Gemini:
		return g.content()
	}
	return g.completion(d == chat.Completions)
}

// model and stream are members of most requests.
func (g *docGenerator) model() string  { return g.member("model", `"cheap"`, `"expensive"`) }
func (g *docGenerator) stream() string { return g.member("stream", `true`, `false`) }

// text returns a part of a message.
func (g *docGenerator) text() string {
	return g.object(2, g.choice("type", `"text"`), g.choice("text", `"hi"`, `"a model, a stream"`))
}

// messages returns a list with one user message.
func (g *docGenerator) messages() string {
	return "[" + g.object(2, g.choice("role", `"user"`), g.of("content", func() string { return "[" + g.text() + "]" })) + "]"
}

// message returns a request of Anthropic's dialect.
func (g *docGenerator) message() string {
	tool := func() string {
		return "[" + g.object(2, g.choice("name", `"f"`, `"g"`), g.choice("input_schema", `{"type":"object","properties":{"Name":{},"name":{},"name":{}}}`)) + "]"
	}
	thinking := func() string {
		return g.object(1, g.choice("type", `"enabled"`, `"disabled"`), g.choice("budget_tokens", `1024`, `90000`))
	}
	return g.object(3, g.model, g.of("messages", g.messages), g.choice("max_tokens", `10`, `90000`), g.stream, g.of("tools", tool), g.of("thinking", thinking),
		g.of("output_config", func() string { return g.object(1, g.choice("effort", `"low"`, `"max"`)) }))
}

// response returns a request of the Responses dialect.
func (g *docGenerator) response() string {
	item := func() string {
		return "[" + g.object(2, g.choice("role", `"user"`), g.choice("content", `"hi"`), g.choice("type", `"message"`, `"item\u005freference"`), g.choice("id", `"a"`, `"b"`)) + "]"
	}
	tool := func() string {
		return "[" + g.object(2, g.choice("type", `"function"`), g.choice("name", `"f"`, `"g"`)) + "]"
	}
	return g.object(2, g.model, g.of("input", item), g.choice("max_output_tokens", `10`, `90000`), g.stream, g.of("tools", tool),
		g.choice("previous_response_id", `"a"`, `"b"`), g.of("conversation", func() string { return g.object(1, g.choice("id", `"a"`, `"b"`)) }),
		g.of("reasoning", func() string { return g.object(1, g.choice("effort", `"low"`, `"high"`, `"none"`)) }), g.choice("background", `true`, `false`))
}

// content returns a request of Gemini's dialect.
func (g *docGenerator) content() string {
	thinking := func() string {
		return g.object(0, g.choice("thinkingBudget", `0`, `90000`, `"512"`), g.choice("includeThoughts", `true`, `false`), g.choice("thinkingLevel", `"low"`, `"high"`))
	}
	config := func() string {
		return g.object(0, g.choice("maxOutputTokens", `10`, `90000`, `"77"`), g.choice("candidateCount", `1`, `3`), g.of("thinkingConfig", thinking))
	}
	function := func() string { return "[" + g.object(1, g.choice("name", `"f"`, `"g"`)) + "]" }
	return g.object(1, g.choice("contents", `[{"role":"user","parts":[{"text":"hi"}]}]`), g.of("generationConfig", config), g.choice("cachedContent", `"a"`, `"b"`),
		g.of("tools", func() string { return "[" + g.object(1, g.of("functionDeclarations", function)) + "]" }))
}

// completion returns a request of OpenAI's dialects: for a chat, or for the completion of a text.
func (g *docGenerator) completion(plain bool) string {
	function := func() string {
		return g.object(1, g.choice("name", `"f"`, `"g"`), g.choice("parameters", `{"type":"object","properties":{"Name":{},"name":{}}}`))
	}
	tool := func() string {
		return "[" + g.object(2, g.choice("type", `"function"`), g.of("function", function)) + "]"
	}
	prompt := g.of("messages", g.messages)
	if plain {
		prompt = g.choice("prompt", `"hi"`)
	}
	return g.object(2, g.model, prompt, g.stream, g.of("stream_options", func() string { return g.object(1, g.choice("include_usage", `true`, `false`, `null`)) }),
		g.choice("max_tokens", `10`, `90000`), g.choice("max_completion_tokens", `20`, `80000`), g.choice("n", `1`, `3`), g.of("tools", tool),
		g.choice("reasoning_effort", `"low"`, `"high"`, `"none"`),
		g.of("reasoning", func() string {
			return g.object(0, g.choice("effort", `"low"`, `"high"`), g.choice("max_tokens", `100`))
		}),
		g.of("thinking", func() string { return g.object(1, g.choice("type", `"enabled"`, `"disabled"`)) }))
}
