package crossing_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"bardo.money/gateway/extproc/wire"
)

// requestGenerator generates requests that both dialects can express, the same ones for the same seed.
type requestGenerator struct {
	r     *rand.Rand
	calls int
	marks int
}

func newGenerator(seed uint64) *requestGenerator {
	return &requestGenerator{r: rand.New(rand.NewPCG(seed, 1))}
}

func (m *requestGenerator) maybe() bool { return m.r.IntN(2) == 0 }

func (m *requestGenerator) pick(of ...string) string { return of[m.r.IntN(len(of))] }

func (m *requestGenerator) text() string {
	return m.pick(`hi`, `What is \"this\"?`, `Grüße \ud83d\ude00`, `a\nb`, `{\"x\":1}`, `  indented`, `<system>`)
}

// mark returns a cache mark, or sometimes nothing. A request has at most as many as every provider accepts.
func (m *requestGenerator) mark() string {
	if m.r.IntN(4) > 0 || m.marks == wire.MaxMarks {
		return ""
	}
	m.marks++
	return `,"cache_control":` + m.pick(`{"type":"ephemeral"}`, `{"type":"ephemeral","ttl":"1h"}`)
}

func (m *requestGenerator) args() string {
	return m.pick(`{}`, `{"city": "Köln"}`, `{"big":12345678901234567890,"x":1.0,"e":1e-7}`, `{"a":{"b":[1,2,{"c":null}]}}`)
}

// enforced returns a schema that every provider enforces.
func (m *requestGenerator) enforced() string {
	return m.pick(`{"type":"object","additionalProperties":false}`,
		`{"type":"object", "properties":{"n":{"type":"number","enum":[1.50,1e3]}},"required":["n"],"additionalProperties":false}`)
}

func (m *requestGenerator) schema() string {
	return m.pick(`{"type":"object"}`, `{"type":"object","properties":{"n":{"type":"number","maximum":1e3}},"required":["n"]}`)
}

func (m *requestGenerator) some(limit int, one func() string) string {
	var all []string
	for range 1 + m.r.IntN(limit) {
		all = append(all, one())
	}
	return strings.Join(all, ",")
}

func (m *requestGenerator) numbers() string {
	return m.pick(``, `,"temperature":0.30`, `,"temperature":1`, `,"temperature":1e-7`, `,"top_p":0.95`, `,"top_p":9e-1`)
}

// ids returns the ids of the calls of one turn.
func (m *requestGenerator) ids() []string {
	var ids []string
	for range 1 + m.r.IntN(3) {
		m.calls++
		ids = append(ids, fmt.Sprintf("call_%d", m.calls))
	}
	return ids
}

// turns returns a history of the three kinds of turns.
func (m *requestGenerator) turns(user func() string, assistant func(calls []string) string, results func(calls []string) string) string {
	all := []string{user()}
	for range m.r.IntN(4) {
		var calls []string
		if m.maybe() {
			calls = m.ids()
		}
		all = append(all, assistant(calls))
		if calls != nil {
			all = append(all, results(calls))
		}
		if calls == nil || m.maybe() {
			all = append(all, user())
		}
	}
	return strings.Join(all, ",")
}

// openai returns a request of an OpenAI client.
func (m *requestGenerator) openai() string {
	var b strings.Builder
	b.WriteString(`{"model":"gpt","max_tokens":500,"messages":[`)
	if m.maybe() {
		b.WriteString(m.some(2, func() string {
			return `{"role":"` + m.pick("system", "developer") + `","content":[{"type":"text","text":"` + m.text() + `"` + m.mark() + `}]}`
		}) + ",")
	}
	thinks := m.maybe()
	b.WriteString(m.turns(m.openaiUser, m.openaiAssistant, m.openaiResults))
	if !thinks { // in a turn that is continued, thinking is only useful to a model that thinks
		b.WriteString(`,{"role":"assistant","content":"Done."},` + m.openaiUser())
	}
	b.WriteString(`]`)
	if m.calls > 0 || m.maybe() {
		b.WriteString(`,"tools":[` + m.some(2, func() string {
			return `{"type":"function","function":{"name":"f","description":"` + m.text() + `","parameters":` + m.pick(m.schema(), m.enforced()+`,"strict":true`) + `}` + m.mark() + `}`
		}) + `]` + m.pick("", `,"tool_choice":"auto"`, `,"tool_choice":"none"`, `,"parallel_tool_calls":false`))
	}
	switch { // mutually exclusive members
	case thinks:
		b.WriteString(`,"reasoning_effort":"` + m.pick("low", "medium", "high") + `"`)
	case m.maybe():
		b.WriteString(m.numbers())
	default:
		if m.calls > 0 && !strings.Contains(b.String(), `"tool_choice"`) {
			b.WriteString(m.pick(`,"tool_choice":"required"`, `,"tool_choice":{"type":"function","function":{"name":"f"}}`))
		}
	}
	b.WriteString(m.pick("", `,"stop":"END"`, `,"stop":["a","b\n"]`) + m.pick("", `,"user":"u-1"`) + m.pick("", `,"service_tier":"default"`))
	b.WriteString(m.pick("", `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`+m.enforced()+`}}`))
	return b.String() + m.pick("", `,"stream":true`) + `}`
}

func (m *requestGenerator) openaiUser() string {
	if m.maybe() {
		return `{"role":"user","content":"` + m.text() + `"}`
	}
	return `{"role":"user","content":[` + m.some(3, func() string {
		return m.pick(`{"type":"text","text":"`+m.text()+`"`, `{"type":"image_url","image_url":{"url":"https://example.com/a.png?b&c"}`,
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}`,
			`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}`) + m.mark() + `}`
	}) + `]}`
}

func (m *requestGenerator) openaiAssistant(calls []string) string {
	message := `{"role":"assistant","content":`
	if calls == nil || m.maybe() {
		message += `"` + m.text() + `"`
	} else {
		message += `null`
	}
	if m.maybe() {
		message += `,"reasoning":"Hm.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","signature":"c2ln","format":"anthropic-claude-v1","index":0},` +
			`{"type":"reasoning.encrypted","data":"b3A=","format":"anthropic-claude-v1","index":1}]`
	}
	var all []string
	for _, id := range calls {
		args := strings.ReplaceAll(m.args(), `"`, `\"`)
		all = append(all, `{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"`+args+`"}`+m.mark()+`}`)
	}
	if all != nil {
		message += `,"tool_calls":[` + strings.Join(all, ",") + `]`
	}
	return message + `}`
}

func (m *requestGenerator) openaiResults(calls []string) string {
	var all []string
	for _, id := range calls {
		content := m.pick(`""`, `"`+m.text()+`"`+m.mark(), `[{"type":"text","text":"`+m.text()+`"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]`)
		all = append(all, `{"role":"tool","tool_call_id":"`+id+`","content":`+content+`}`)
	}
	return strings.Join(all, ",")
}

// anthropic returns a request of an Anthropic client.
func (m *requestGenerator) anthropic() string {
	var b strings.Builder
	b.WriteString(`{"model":"claude","max_tokens":500`)
	if m.maybe() {
		b.WriteString(`,"system":` + m.pick(`"`+m.text()+`"`, `[`+m.some(3, m.anthropicText)+`]`))
	}
	b.WriteString(`,"messages":[` + m.turns(m.anthropicUser, m.anthropicAssistant, m.anthropicResults) + `]`)
	if m.calls > 0 || m.maybe() {
		b.WriteString(`,"tools":[` + m.some(2, func() string {
			return `{"name":"f","description":"` + m.text() + `","input_schema":` + m.pick(m.schema(), m.enforced()+`,"strict":true`) + m.mark() + `}`
		}) + `]` + m.pick("", `,"tool_choice":{"type":"auto"}`, `,"tool_choice":{"type":"none"}`))
	}
	effort := `,"output_config":{"effort":"` + m.pick("low", "medium", "high") + `"}`
	if m.calls > 0 && !strings.Contains(b.String(), `"tool_choice"`) { // thinking excludes it
		effort = m.pick(`,"tool_choice":{"type":"any","disable_parallel_tool_use":true}`, `,"tool_choice":{"type":"tool","name":"f"}`)
	}
	b.WriteString(m.pick("", m.numbers(), effort,
		`,"output_config":{"format":{"type":"json_schema","schema":`+m.enforced()+`}}`))
	b.WriteString(m.pick("", `,"stop_sequences":["END","a\n"]`) + m.pick("", `,"metadata":{"user_id":"u-1"}`))
	return b.String() + m.pick("", `,"service_tier":"standard_only"`) + m.pick("", `,"stream":true`) + `}`
}

func (m *requestGenerator) anthropicText() string {
	return `{"type":"text","text":"` + m.text() + `"` + m.mark() + `}`
}

func (m *requestGenerator) anthropicUser() string {
	if m.maybe() {
		return `{"role":"user","content":"` + m.text() + `"}`
	}
	return `{"role":"user","content":[` + m.some(3, func() string {
		return m.pick(`{"type":"text","text":"`+m.text()+`"`, `{"type":"image","source":{"type":"url","url":"https://example.com/a.png?b&c"}`,
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}`,
			`{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}`) + m.mark() + `}`
	}) + `]}`
}

func (m *requestGenerator) anthropicAssistant(calls []string) string {
	var blocks []string
	if calls == nil || m.maybe() {
		blocks = append(blocks, m.some(2, m.anthropicText))
	}
	for _, id := range calls {
		blocks = append(blocks, `{"type":"tool_use","id":"`+id+`","name":"f","input":`+m.args()+m.mark()+`}`)
	}
	return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
}

func (m *requestGenerator) anthropicResults(calls []string) string {
	var blocks []string
	for _, id := range calls {
		content := m.pick(``, `,"content":"`+m.text()+`"`+m.mark(), `,"content":[{"type":"text","text":"`+m.text()+`"}]`+m.mark())
		blocks = append(blocks, `{"type":"tool_result","tool_use_id":"`+id+`"`+content+`}`)
	}
	return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}
