package hint_test

import (
	"testing"

	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/policy/intent"
)

// TestK86TheTaskIsInferredFromTextInEveryShape that a message can have, in every format: as a string, in one part, in a later part, beside other
// content, before a tool's result, and after turns of the model's.
func TestK86TheTaskIsInferredFromTextInEveryShape(t *testing.T) {
	const text = `Translate this sentence into French: good morning`
	shapes := map[string]struct {
		d    wire.Dialect
		body map[string]string
	}{
		"chat completions": {openai.Dialect{}, map[string]string{
			"a word":            `"messages":[{"role":"user","content":"` + text + `"}]`,
			"a part":            `"messages":[{"role":"user","content":[{"type":"text","text":"` + text + `"}]}]`,
			"a later part":      `"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":" "},{"type":"text","text":"` + text + `"}]}]`,
			"after others":      `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":[{"type":"text","text":"` + text + `"}]}]`,
			"an empty turn":     `"messages":[{"role":"user","content":"` + text + `"},{"role":"assistant","content":"yes?"},{"role":"user","content":[{"type":"text","text":""}]}]`,
			"escapes":           `"messages":[{"role":"user","content":[{"type":"text","text":"\u0054ranslate this sentence into French: good morning"}]}]`,
			"beside developers": `"messages":[{"role":"developer","content":[{"type":"text","text":"be brief"}]},{"role":"user","name":"ada","content":"` + text + `"}]`,
		}},
		"messages": {anthropic.Dialect{}, map[string]string{
			"a word":           `"max_tokens":99,"messages":[{"role":"user","content":"` + text + `"}]`,
			"a part":           `"max_tokens":99,"messages":[{"role":"user","content":[{"type":"text","text":"` + text + `"}]}]`,
			"a later part":     `"max_tokens":99,"messages":[{"role":"user","content":[{"type":"text","text":" "},{"type":"text","text":"` + text + `"}]}]`,
			"a tool's results": `"max_tokens":99,"messages":[{"role":"user","content":"` + text + `"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"done"}]}]`,
			"behind a result":  `"max_tokens":99,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"done"},{"type":"text","text":"` + text + `"}]}]`,
		}},
		"responses": {responses.Dialect{}, map[string]string{
			"a word":        `"input":"` + text + `"`,
			"a message":     `"input":[{"role":"user","content":"` + text + `"}]`,
			"a part":        `"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"` + text + `"}]}]`,
			"a later part":  `"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":""},{"type":"input_text","text":"` + text + `"}]}]`,
			"a tool's turn": `"input":[{"role":"user","content":"` + text + `"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"done"}]`,
		}},
		"gemini": {gemini.Dialect{}, map[string]string{
			"a part":       `"contents":[{"role":"user","parts":[{"text":"` + text + `"}]}]`,
			"no role":      `"contents":[{"parts":[{"text":"` + text + `"}]}]`,
			"a later part": `"contents":[{"role":"user","parts":[{"text":""},{"text":"` + text + `"}]}]`,
		}},
	}
	for name, format := range shapes {
		for shape, body := range format.body {
			t.Run(name+"/"+shape, func(t *testing.T) {
				r := decode(t, format.d, `{"model":"auto",`+body+`}`)
				r.Model = "auto" // Gemini's is in its path
				f := hint.Facts(r, 99)
				if task := intent.Infer(&f); task.Name != "translate" {
					t.Errorf("the task is %s, read was %q", task.Name, f.Text)
				}
			})
		}
	}
}
