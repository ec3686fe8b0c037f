package crossing_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
)

// contentClients are the dialects of clients, with a request around a content part of each and the part's location in faults.
var contentClients = []struct {
	dialect wire.Dialect
	places  map[string]contentPlace
	parts   []contentPart
}{
	{openai.Dialect{}, map[string]contentPlace{
		"user":   {`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"q"},PART]}]}`, "messages[0].content[1]"},
		"system": {`{"model":"m","messages":[{"role":"system","content":[PART]},{"role":"user","content":"q"}]}`, "messages[0].content[0]"},
		"model":  {`{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"a"},PART]},{"role":"user","content":"q"}]}`, "messages[1].content[1]"},
		"result": {`{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":[PART]}],"tools":[{"type":"function","function":{"name":"f"}}]}`, "messages[2].content[0]"},
	}, []contentPart{
		{"text", `{"type":"text","text":"MARK"}`, "content", chat.PartText},
		{"image_url", `{"type":"image_url","image_url":{"url":"data:image/png;base64,TUFSSw=="}}`, "image_url", chat.PartImage},
		{"image_url at an address", `{"type":"image_url","image_url":{"url":"https://example.com/MARK.png"}}`, "image_url", chat.PartImage},
		{"input_audio wav", `{"type":"input_audio","input_audio":{"data":"TUFSSw==","format":"wav"}}`, "input_audio", chat.PartAudio},
		{"input_audio mp3", `{"type":"input_audio","input_audio":{"data":"TUFSSw==","format":"mp3"}}`, "input_audio", chat.PartAudio},
		{"input_audio of another type", `{"type":"input_audio","input_audio":{"data":"TUFSSw==","format":"opus"}}`, "input_audio", chat.PartAudio},
		{"audio_url", `{"type":"audio_url","audio_url":{"url":"https://example.com/MARK.mp3"}}`, "audio_url", chat.PartAudio},
		{"video_url", `{"type":"video_url","video_url":{"url":"data:video/mp4;base64,TUFSSw=="}}`, "video_url", chat.PartVideo},
		{"file", `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,TUFSSw=="}}`, "file", chat.PartDocument},
		{"file of text", `{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,TUFSSw=="}}`, "file", chat.PartDocument},
		{"file of another type", `{"type":"file","file":{"filename":"a.docx","file_data":"data:application/msword;base64,TUFSSw=="}}`, "file", chat.PartDocument},
		{"file_id", `{"type":"file","file":{"file_id":"MARK"}}`, "file_id", chat.PartFile},
		{"a part that nobody knows", `{"type":"input_hologram","input_hologram":"MARK"}`, "input_hologram", chat.PartOther},
	}},
	{anthropic.Dialect{}, map[string]contentPlace{
		"user":   {`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"q"},PART]}]}`, "messages.0.content.1"},
		"system": {`{"model":"m","max_tokens":9,"system":[PART],"messages":[{"role":"user","content":"q"}]}`, "system.0"},
		"model":  {`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"a"},PART]},{"role":"user","content":"q"}]}`, "messages.1.content.1"},
		"result": {`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[PART]}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`, "messages.2.content.0.content.0"},
	}, []contentPart{
		{"text", `{"type":"text","text":"MARK"}`, "content", chat.PartText},
		{"image", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"TUFSSw=="}}`, "image", chat.PartImage},
		{"image at an address", `{"type":"image","source":{"type":"url","url":"https://example.com/MARK.png"}}`, "image", chat.PartImage},
		{"image by id", `{"type":"image","source":{"type":"file","file_id":"MARK"}}`, "file_id", chat.PartFile},
		{"document", `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"TUFSSw=="}}`, "document", chat.PartDocument},
		{"document of text", `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"MARK"}}`, "document", chat.PartDocument},
		{"document of blocks", `{"type":"document","source":{"type":"content","content":[{"type":"text","text":"MARK"}]}}`, "document", chat.PartDocument},
		{"document of an image", `{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://example.com/MARK.png"}}]}}`, "document", chat.PartOther},
		{"document at an address", `{"type":"document","source":{"type":"url","url":"https://example.com/MARK.pdf"}}`, "document", chat.PartDocument},
		{"document by id", `{"type":"document","source":{"type":"file","file_id":"MARK"}}`, "file_id", chat.PartFile},
		{"search_result", `{"type":"search_result","source":"https://example.com","title":"t","content":[{"type":"text","text":"MARK"}]}`, "document", chat.PartDocument},
		{"container_upload", `{"type":"container_upload","file_id":"MARK"}`, "container_upload", chat.PartOther},
		{"web_fetch_tool_result", `{"type":"web_fetch_tool_result","tool_use_id":"s1","content":{"type":"web_fetch_result","url":"https://example.com/MARK"}}`, "web_fetch_tool_result", chat.PartOther},
		{"code_execution_tool_result", `{"type":"code_execution_tool_result","tool_use_id":"s1","content":{"stdout":"MARK"}}`, "code_execution_tool_result", chat.PartOther},
		{"mcp_tool_result", `{"type":"mcp_tool_result","tool_use_id":"s1","content":[{"type":"text","text":"MARK"}]}`, "mcp_tool_result", chat.PartOther},
		{"compaction", `{"type":"compaction","content":"MARK"}`, "compaction", chat.PartOther},
		{"a block that nobody knows", `{"type":"hologram","data":"MARK"}`, "hologram", chat.PartOther},
	}},
	{responses.Dialect{}, map[string]contentPlace{
		"user":   {`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"q"},PART]}]}`, "input[0].content[1]"},
		"system": {`{"model":"m","input":[{"role":"developer","content":[PART]},{"role":"user","content":"q"}]}`, "input[0].content[0]"},
		"model":  {`{"model":"m","input":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"output_text","text":"a"},PART]},{"role":"user","content":"q"}]}`, "input[1].content[1]"},
		"result": {`{"model":"m","input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":[PART]}],"tools":[{"type":"function","name":"f"}]}`, "input[2].output[0]"},
	}, []contentPart{
		{"input_text", `{"type":"input_text","text":"MARK"}`, "content", chat.PartText},
		{"input_image", `{"type":"input_image","image_url":"data:image/png;base64,TUFSSw=="}`, "input_image", chat.PartImage},
		{"input_image at an address", `{"type":"input_image","image_url":"https://example.com/MARK.png"}`, "input_image", chat.PartImage},
		{"input_image by id", `{"type":"input_image","file_id":"MARK"}`, "file_id", chat.PartFile},
		{"input_file", `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,TUFSSw=="}`, "input_file", chat.PartDocument},
		{"input_file at an address", `{"type":"input_file","file_url":"https://example.com/MARK.pdf"}`, "input_file", chat.PartDocument},
		{"input_file by id", `{"type":"input_file","file_id":"MARK"}`, "file_id", chat.PartFile},
		{"input_audio", `{"type":"input_audio","input_audio":{"data":"TUFSSw==","format":"wav"}}`, "input_audio", chat.PartAudio},
		{"a part that nobody knows", `{"type":"input_hologram","data":"MARK"}`, "input_hologram", chat.PartOther},
	}},
	{geminiClient, map[string]contentPlace{
		"user":   {`{"contents":[{"role":"user","parts":[{"text":"q"},PART]}]}`, "contents[0].parts[1]"},
		"system": {`{"systemInstruction":{"parts":[PART]},"contents":[{"role":"user","parts":[{"text":"q"}]}]}`, "systemInstruction.parts[0]"},
		"model":  {`{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"a"},PART]},{"role":"user","parts":[{"text":"q"}]}]}`, "contents[1].parts[1]"},
		"result": {`{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{},"parts":[PART]}}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]}`, "contents[2].parts[0].functionResponse.parts[0]"},
	}, []contentPart{
		{"text", `{"text":"MARK"}`, "content", chat.PartText},
		{"inlineData image", `{"inlineData":{"mimeType":"image/png","data":"TUFSSw=="}}`, "inlineData", chat.PartImage},
		{"inlineData wav", `{"inlineData":{"mimeType":"audio/wav","data":"TUFSSw=="}}`, "inlineData", chat.PartAudio},
		{"inlineData mp3", `{"inlineData":{"mimeType":"audio/mp3","data":"TUFSSw=="}}`, "inlineData", chat.PartAudio},
		{"inlineData mpeg", `{"inlineData":{"mimeType":"audio/mpeg","data":"TUFSSw=="}}`, "inlineData", chat.PartAudio},
		{"inlineData flac", `{"inlineData":{"mimeType":"audio/flac","data":"TUFSSw=="}}`, "inlineData", chat.PartAudio},
		{"inlineData video", `{"inlineData":{"mimeType":"video/mp4","data":"TUFSSw=="}}`, "inlineData", chat.PartVideo},
		{"inlineData pdf", `{"inlineData":{"mimeType":"application/pdf","data":"TUFSSw=="}}`, "inlineData", chat.PartDocument},
		{"inlineData of another type", `{"inlineData":{"mimeType":"application/zip","data":"TUFSSw=="}}`, "inlineData", chat.PartDocument},
		{"inlineData of no type", `{"inlineData":{"data":"TUFSSw=="}}`, "inlineData", chat.PartOther},
		{"fileData", `{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/MARK.png"}}`, "inlineData", chat.PartImage},
		{"fileData of a site", `{"fileData":{"fileUri":"https://www.youtube.com/watch?v=MARK"}}`, "fileData", chat.PartVideo},
		{"fileData at Google", `{"fileData":{"mimeType":"image/png","fileUri":"https://generativelanguage.googleapis.com/v1beta/files/MARK"}}`, "fileData", chat.PartFile},
		{"fileData in a bucket", `{"fileData":{"mimeType":"video/mp4","fileUri":"gs://b/MARK"}}`, "fileData", chat.PartFile},
		{"codeExecutionResult", `{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"MARK"}}`, "codeExecutionResult", chat.PartOther},
		{"a part that nobody knows", `{"hologram":{"data":"MARK"}}`, "hologram", chat.PartOther},
	}},
}

type contentPlace struct{ body, at string }

type contentPart struct {
	name, json, word string
	kind             chat.PartKind
}

// contentTargets are the formats to which requests are translated.
var contentTargets = []struct {
	name   string
	target wire.Target
	encode func(*chat.Request) ([]byte, []string, error)
}{
	{"openai", wire.Target{Dialect: chat.OpenAI}, func(r *chat.Request) ([]byte, []string, error) {
		return openai.EncodeRequest(nil, r, openai.RequestOptions{Model: "m"})
	}},
	{"openai with video", wire.Target{Dialect: chat.OpenAI, Video: true}, func(r *chat.Request) ([]byte, []string, error) {
		return openai.EncodeRequest(nil, r, openai.RequestOptions{Model: "m", Video: true})
	}},
	{"anthropic", wire.Target{Dialect: chat.Anthropic}, func(r *chat.Request) ([]byte, []string, error) {
		return anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m"})
	}},
	{"gemini", wire.Target{Dialect: chat.Gemini}, func(r *chat.Request) ([]byte, []string, error) {
		return gemini.EncodeRequest(nil, r, gemini.RequestOptions{})
	}},
	{"responses", wire.Target{Dialect: chat.Responses}, func(r *chat.Request) ([]byte, []string, error) {
		return responses.EncodeRequest(nil, r, responses.RequestOptions{Model: "m", Reasons: true})
	}},
}

// TestD86ContentIsSentOrRefusedByName: all content of the client is in the provider's request, or the request is refused with a fault that
// states the kind and the location of the refused part.
func TestD86ContentIsSentOrRefusedByName(t *testing.T) {
	verdicts := map[string]int{}
	for _, from := range contentClients {
		for _, part := range from.parts {
			for place, at := range from.places {
				for _, to := range contentTargets {
					if to.target.Dialect == from.dialect.Name() {
						continue
					}
					name := fmt.Sprintf("%s, %s in %s, to %s", from.dialect.Name(), part.name, place, to.name)
					r := decodeContent(t, from.dialect, strings.Replace(at.body, "PART", part.json, 1))
					if !holdsKind(r.Conv, part.kind) {
						t.Errorf("%s: no part of kind %d", name, part.kind)
					}
					out, degraded, err := to.encode(r)
					before := to.target.CheckContent(r.Conv, r.Dialect)
					if fmt.Sprint(before) != fmt.Sprint(err) {
						t.Errorf("%s: it is refused with %v, and foretold is %v", name, err, before)
					}
					if err != nil {
						verdicts["refused"]++
						checkRefusal(t, name, err, at.at+": "+part.word+": no available model takes ", at.at)
						continue
					}
					verdicts["carried"]++
					if !strings.Contains(string(out), "MARK") && !strings.Contains(string(out), "TUFSSw==") {
						t.Errorf("%s: neither carried nor refused\n%s\ndegraded %v", name, out, degraded)
					}
				}
			}
		}
	}
	if verdicts["refused"] == 0 || verdicts["carried"] == 0 {
		t.Errorf("got %v", verdicts)
	}
}

func decodeContent(t *testing.T, d wire.Dialect, body string) *chat.Request {
	t.Helper()
	r, err := d.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if _, err := r.Conversation(); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return r
}

func holdsKind(c *chat.Conversation, kind chat.PartKind) bool {
	is := func(p chat.Part) bool {
		return p.Kind == kind || slices.ContainsFunc(p.Parts, func(p chat.Part) bool { return p.Kind == kind })
	}
	return slices.ContainsFunc(c.System, is) || slices.ContainsFunc(c.Messages, func(m chat.Message) bool { return slices.ContainsFunc(m.Parts, is) })
}

func checkRefusal(t *testing.T, name string, err error, begins, param string) {
	t.Helper()
	var f *fault.Fault
	var u *wire.Unsupported
	if !errors.As(err, &f) || !errors.As(err, &u) || f.Kind != fault.InvalidRequest || !strings.HasPrefix(f.Public, begins) || f.Param != param {
		t.Errorf("%s: got %v, want %s…", name, err, begins)
	}
}

// TestD86EachKindOfPartHasItsClass: each kind of part is classified, and each kind of content is in the table above.
func TestD86EachKindOfPartHasItsClass(t *testing.T) {
	tested := map[chat.PartKind]bool{ //nolint:exhaustive // the rest is in the table
		chat.PartToolUse: true, chat.PartToolResult: true, // pairs test that a call keeps its result
		chat.PartRefusal: true, // tested in pairs
	}
	for _, c := range contentClients {
		for _, p := range c.parts {
			tested[p.kind] = true
		}
	}
	for k := range chat.PartKinds {
		p := chat.Part{Kind: chat.PartKind(k)}
		switch wire.ClassOf(&p) {
		case wire.Content:
			if !tested[p.Kind] {
				t.Errorf("kind %d is content, and does not cross in a test", k)
			}
		case wire.Trace:
		default:
			t.Errorf("kind %d has no class", k)
		}
	}
	if wire.ClassOf(&chat.Part{Kind: chat.PartOther, Trace: true}) != wire.Trace {
		t.Error("a trace is content")
	}
}

// TestARequestWithoutContentIsRefusedByTheClientsName: the fault names the member as the client knows it, whatever the provider calls it.
func TestARequestWithoutContentIsRefusedByTheClientsName(t *testing.T) {
	for _, from := range []struct {
		dialect     wire.Dialect
		body, field string
	}{
		{openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":""}]}`, "messages"},
		{anthropic.Dialect{}, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[]}]}`, "messages"},
		{responses.Dialect{}, `{"model":"m","input":[]}`, "input"},
		{gemini.Dialect{}.ForPath(gemini.Root+"/m:generateContent", ""), `{"contents":[{"parts":[]}]}`, "contents"},
	} {
		for _, to := range contentTargets {
			if to.target.Dialect == from.dialect.Name() {
				continue
			}
			_, _, err := to.encode(decodeContent(t, from.dialect, from.body))
			var f *fault.Fault
			if !errors.As(err, &f) || f.Param != from.field || f.Public != from.field+": there is no content that can be sent to this provider" {
				t.Errorf("%s to %s: got %v, want a fault that names %s", from.dialect.Name(), to.name, err, from.field)
			}
		}
	}
}
