package openai_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
)

func TestRewriteKeepsAllButMessagesAndTools(t *testing.T) {
	const body = `{ "model":"m","bardo":{"subsystem":"x"}, "temperature" : 0.30,"functions":null,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto",` +
		`"messages":[{"role":"user","content":"hi","name":"ann"}],"parallel_tool_calls":true ,"x_new":{"b":1e400,"a":2}}`
	const want = `{ "model":"m", "temperature" : 0.30,"messages":[{"role":"system","content":"s"},{"role":"user","content":"<b>"}] ,"x_new":{"b":1e400,"a":2}}`
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	c, err := req.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) []chat.Part { return []chat.Part{{Kind: chat.PartText, Text: s}} }
	content := *c
	content.Tools, content.System, content.Messages = nil, text("s"), []chat.Message{{Role: chat.RoleUser, Parts: text("<b>")}}
	out, names, err := openai.Dialect{}.Rewrite(req, &content)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out.Doc.Bytes); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !slices.Equal(names, []string{"name"}) || out.Conv != &content || req.Conv != c || string(req.Doc.Bytes) != body {
		t.Errorf("degraded %q, and the client's request is %s", names, req.Doc.Bytes)
	}
}
