package openai_test

import (
	"bytes"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// TestALongToolNameComesBackWhole: a name that OpenAI would refuse is shortened in the request, and two names with the same prefix stay
// distinct.
func TestALongToolNameComesBackWhole(t *testing.T) {
	long := "mcp__" + strings.Repeat("server", 12)
	names := []string{"short", strings.Repeat("x", 64), long + "_one", long + "_two"}
	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[`
	for i, n := range names {
		body += strings.Repeat(",", min(i, 1)) + `{"name":"` + n + `","input_schema":{"type":"object"}}`
	}
	req, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body+"]}"))
	if err != nil {
		t.Fatal(err)
	}
	out, degraded, err := openai.EncodeRequest(nil, req, openai.RequestOptions{Model: "m"})
	if err != nil || len(degraded) > 0 {
		t.Fatal(err, degraded)
	}
	sent, err := jsonx.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, tool := range sent.Get("tools").Each {
		name, _ := tool.Get("function").Get("name").Str()
		if len(name) > 64 || (len(names[i]) <= 64) != (name == names[i]) {
			t.Errorf("%s is sent as %s", names[i], name)
		}
		answer := `{"id":"c","model":"m","choices":[{"index":0,"message":{"tool_calls":[{"id":"1","type":"function","function":{"name":"` + name +
			`","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
		d := chatcompletion.NewDecoder(req, 200, header.List{{Name: "content-type", Value: "application/json"}})
		var called string
		for _, ev := range d.Decode([]byte(answer), true) {
			if ev.Kind == chat.ToolStart {
				called = ev.Tool.Name
			}
		}
		if called != names[i] {
			t.Errorf("a call of %s comes back as %q", names[i], called)
		}
		i++
	}
	if i != len(names) || bytes.Count(out, []byte("mcp__")) != 2 {
		t.Errorf("%d tools in %s", i, out)
	}
}
