package anthropic_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic"
)

func TestRewriteKeepsAllButMessagesAndTools(t *testing.T) {
	for _, row := range []struct{ about, body, want string }{
		{
			"with a system prompt",
			`{ "model":"m","max_tokens":9,"system":"old", "temperature" : 0.30,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"},` +
				`"messages":[{"role":"user","content":"hi","x_in":1}],"x_new":{"b":1e400,"a":2}}`,
			`{ "model":"m","max_tokens":9,"system":[{"type":"text","text":"s"}], "temperature" : 0.30,` +
				`"messages":[{"role":"user","content":[{"type":"text","text":"<b>"}]}],"x_new":{"b":1e400,"a":2}}`,
		},
		{
			"without one",
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi","x_in":1}],"tools":[]}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"<b>"}]}],"system":[{"type":"text","text":"s"}]}`,
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			req, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(row.body))
			if err != nil {
				t.Fatal(err)
			}
			c, err := req.Conversation()
			if err != nil {
				t.Fatal(err)
			}
			text := func(s string) []chat.Part { return []chat.Part{{Kind: chat.PartText, Text: s}} }
			rewritten := *c
			rewritten.Tools, rewritten.System, rewritten.Messages = nil, text("s"), []chat.Message{{Role: chat.RoleUser, Parts: text("<b>")}}
			out, names, err := anthropic.Dialect{}.Rewrite(req, &rewritten)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out.Doc.Bytes); got != row.want {
				t.Errorf("got\n%s\nwant\n%s", got, row.want)
			}
			if !slices.Equal(names, []string{"x_in"}) || out.Conv != &rewritten || req.Conv != c || string(req.Doc.Bytes) != row.body {
				t.Errorf("degraded %q, and the client's request is %s", names, req.Doc.Bytes)
			}
		})
	}
}
