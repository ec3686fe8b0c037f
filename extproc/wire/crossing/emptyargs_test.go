package crossing_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

// callsWithoutArguments are answers with one call, whose arguments are the empty text or missing, by form.
var callsWithoutArguments = map[form]string{
	{chat.OpenAI, false}: `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]},` +
		`"finish_reason":"tool_calls"}],"model":"up","usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
	{chat.OpenAI, true}: `data: {"id":"c","model":"up","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}` + "\n\n" +
		`data: {"id":"c","model":"up","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n",
	{chat.Responses, false}: `{"id":"r","object":"response","status":"completed","output":[{"type":"function_call","id":"fc_1","call_id":"call_a","name":"f","arguments":"","status":"completed"}],"model":"up"}`,
	{chat.Responses, true}: `data: {"type":"response.created","response":{"id":"r","model":"up","output":[]}}` + "\n\n" +
		`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_a","name":"f","arguments":"","status":"in_progress"}}` + "\n\n" +
		`data: {"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":0,"arguments":""}` + "\n\n" +
		`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_a","name":"f","arguments":"","status":"completed"}}` + "\n\n" +
		`data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"function_call","id":"fc_1","call_id":"call_a","name":"f","arguments":"","status":"completed"}],"model":"up"}}` + "\n\n",
	{chat.Anthropic, false}: `{"id":"m","type":"message","role":"assistant","model":"up","content":[{"type":"tool_use","id":"toolu_a","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`,
	{chat.Gemini, false}:    `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f"}}]},"finishReason":"STOP","index":0}],"modelVersion":"up"}`,
}

// TestK04ACallWithoutArgumentsHasAnEmptyObject in each pair of formats, streamed or not, the same format included, whose bytes pass otherwise.
func TestK04ACallWithoutArgumentsHasAnEmptyObject(t *testing.T) {
	t.Parallel()
	wanted := map[form][]string{
		{chat.OpenAI, false}:    {`"arguments":"{}"`},
		{chat.OpenAI, true}:     {`"arguments":"{}"`, `"index":0`},
		{chat.Responses, false}: {`"arguments":"{}"`},
		{chat.Responses, true}:  {`.done`, `"arguments":"{}"`},
		{chat.Anthropic, false}: {`"input":{}`},
		{chat.Anthropic, true}:  {`"input":{}`},
		{chat.Gemini, false}:    {`"functionCall":{`},
		{chat.Gemini, true}:     {`"functionCall":{`},
	}
	for from, body := range callsWithoutArguments {
		for _, to := range forms {
			r := &chat.Request{Dialect: to.dialect, Stream: to.stream, Choices: 1}
			out, _ := encodeFor(r, to, from.dialect, decode(from, r, []byte(body)))
			text := string(out)
			for _, want := range wanted[to] {
				if !strings.Contains(text, want) {
					t.Errorf("%s to %s: no %s in %s", from, to, want, text)
				}
			}
			if to.dialect == chat.Anthropic || to.dialect == chat.Gemini {
				continue
			}
			empty := strings.Count(text, `"arguments":""`)
			begins := 0 // events in which a call has none yet
			if to.stream {
				begins = 1
			}
			if empty != begins {
				t.Errorf("%s to %s: %d empty arguments in %s", from, to, empty, text)
			}
			if !strings.Contains(text, `"model":"m"`) {
				t.Errorf("%s to %s: the model's name is lost in %s", from, to, text)
			}
			again := decode(to, r, out)
			if last := again[len(again)-1]; last.Kind != chat.End {
				t.Errorf("%s to %s: not an answer: %v %s", from, to, last.Err, text)
			}
		}
	}
}
