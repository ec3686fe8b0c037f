package stored_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/internal/jsonx"
)

var kinds = map[stored.Kind]string{stored.Resource: "thing", stored.Item: "item", stored.Copy: "copy", stored.URL: "url"}

func refs(t *testing.T, text string) (list []string) {
	t.Helper()
	doc, err := jsonx.Scan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	found, err := stored.Refs(&doc)
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	for _, r := range found {
		list = append(list, fmt.Sprintf("%s=%s %s", r.At, r.ID, kinds[r.Kind]))
	}
	return list
}

func TestRefs(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{`{"model":"m","messages":[{"role":"user","content":"file_id"}]}`, ""},
		{`{"previous_response_id":"r","conversation":"c","container":null}`, "previous_response_id=r thing, conversation=c thing"},
		{`{"conversation":{"id":"c","id":"d"}}`, "conversation.id=c thing, conversation.id=d thing"},
		{`{"container":{"id":"c","skills":[{"type":"anthropic","skill_id":"pptx"},{"type":"custom","skill_id":"skill_1"},{"skill_id":"x","type":"custom"},{"type":"anthropic","skill_id":"skill_2"}]}}`, "container.id=c thing, container.skills[1].skill_id=skill_1 thing, container.skills[2].skill_id=x thing, container.skills[3].skill_id=skill_2 thing"},
		{`{"tools":[{"container":{"type":"auto","file_ids":["a","b"]}},{"vector_store_ids":["v"]}]}`, "tools[0].container.file_ids[0]=a thing, tools[0].container.file_ids[1]=b thing, tools[1].vector_store_ids[0]=v thing"},
		{`{"prompt":"say hi","audio":{"voice":"alloy"},"voice":"x"}`, ""},
		{`{"prompt":{"id":"p","variables":{"x":{"file_id":"f"}}},"audio":{"voice":{"id":"v"}}}`, "prompt.id=p thing, prompt.variables.x.file_id=f thing, audio.voice.id=v thing"},
		{`{"messages":[{"audio":{"id":"a"}},{"content":[{"source":{"type":"file","FILE_ID":"f"}}]}]}`, "messages[0].audio.id=a thing, messages[1].content[0].source.FILE_ID=f thing"},
		{`{"a":{"fıle_\u0069d":"f","file_id\u0000x":"g"}}`, "a.fıle_id=f thing, a.file_id\x00x=g thing"},
		{`{"metadata":{"file_id":1},"tools":[{"parameters":{"properties":{"file_id":{}}},"input_schema":{"file_id":1}}],"messages":[{"content":[{"type":"tool_use","input":{"file_id":7}}],"tool_calls":[{"id":"c","function":{"arguments":{"file_id":1}}}]}]}`, ""},
		{`{"input":[{"type":"message","id":"m","content":"hi","annotations":[{"file_id":"f"}]}]}`, "input[0].id=m copy"},
		{`{"input":[{"type":"message","id":"m"},{"id":"n"},{"type":"item_reference","id":"o"},{"type":"reasoning","id":"p","summary":[{"text":"x"}]}]}`, "input[0].id=m item, input[1].id=n item, input[2].id=o item, input[3].id=p item"},
		{`{"input":[{"type":"reasoning","id":"p","content":[]},{"type":"reasoning","id":"q","content":[{}]},{"type":"reasoning","id":"r","encrypted_content":""},{"type":"reasoning","id":"s","encrypted_content":"x"},{"type":"reasoning","id":"rs_bardo_1"}]}`, "input[0].id=p item, input[1].id=q copy, input[2].id=r item, input[3].id=s copy"},
		{`{"input":[{"type":"function_call","id":"f","arguments":"{}"},{"type":"web_search_call","id":"w","action":{"type":"search"}},{"type":"file_search_call","id":"s","results":[{"file_id":"x"}]}]}`, "input[0].id=f copy, input[1].id=w item, input[2].results[0].file_id=x thing, input[2].id=s copy"},
		{`{"input":[{"type":"message","id":"m","content":"hi","type":"item_reference"}]}`, "input[0].id=m item"},
		{`{"input":[{"id":"a","ID":"b","Type":"item_reference","type":"message","content":"x"}]}`, "input[0].id=a item, input[0].id=b item"},
		{`{"items":[{"id":"a"}],"input":["x",["y"]]}`, "items[0].id=a item"},
		{`{"contents":[{"parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a"}},{"file_data":{"file_uri":"https://www.youtube.com/watch?v=1"}}]}],"cachedContent":"cachedContents/c"}`, "contents[0].parts[0].fileData.fileUri=files/a thing, cachedContent=cachedContents/c thing"},
		{`{"messages":[{"content":[{"image_url":{"url":"https://generativelanguage.googleapis.com/v1beta/files/a"}},{"image_url":{"url":"https://example.com/files/a"}},{"source":{"url":"data:image/png;base64,AA"}}]}]}`, "messages[0].content[0].image_url.url=files/a url"},
		{`{"file_id":7}`, "error: file_id must be an id: a string"},
		{`{"a":[{"file_id":{"x":1}}]}`, "error: a[0].file_id must be an id: a string"},
		{`{"file_ids":"a"}`, "error: file_ids must be an id: a string"},
		{`{"file_ids":["a",[1]]}`, "error: file_ids[1] must be an id: a string"},
		{`{"file_ids":[{"id":"a"}]}`, "error: file_ids[0] must be an id: a string"},
		{`{"file_ids":{"0":"a"}}`, "error: file_ids must be an id: a string"},
		{`{"conversation":["c"]}`, "error: conversation must be an id: a string"},
		{`{"conversation":true}`, "error: conversation must be an id: a string"},
		{`{"conversation":{"id":1}}`, "error: conversation.id must be an id: a string"},
		{`{"file_uri":{"a":1}}`, "error: file_uri must be an id: a string"},
	} {
		got := strings.Join(refs(t, row.text), ", ")
		if got != strings.ReplaceAll(row.want, `\x00`, "\x00") {
			t.Errorf("%s\n got %s\nwant %s", row.text, got, row.want)
		}
	}
}

func TestGoogleFile(t *testing.T) {
	for uri, want := range map[string]string{
		"https://generativelanguage.googleapis.com/v1beta/files/abc":      "files/abc",
		"https://GenerativeLanguage.GoogleAPIs.com./v1beta/files/abc":     "files/abc",
		"https://user@generativelanguage.googleapis.com:443/files/abc?x=": "files/abc",
		"https://example.com@generativelanguage.googleapis.com/files/abc": "files/abc",
		"http://generativelanguage.googleapis.com/v1beta/files/abc":       "files/abc",
		"files/abc": "files/abc", "/files/abc": "files/abc", "gs://bucket/x": "gs://bucket/x", "": "",
		"https://generativelanguage.ｇoogleapis.com/files/abc":    "files/abc",
		"https://generativelanguage.%67oogleapis.com/files/abc":  "https://generativelanguage.%67oogleapis.com/files/abc",
		"https:generativelanguage.googleapis.com/v1/files/abc":   "https:generativelanguage.googleapis.com/v1/files/abc",
		"https:///generativelanguage.googleapis.com/files/abc":   "files/abc",
		"https://generativelanguage.googleapis.com\\v1\\files/a": "https://generativelanguage.googleapis.com\\v1\\files/a",
	} {
		if got, ok := stored.GoogleFile(uri); !ok || got != want {
			t.Errorf("%q is %q, %v", uri, got, ok)
		}
	}
	for _, uri := range []string{
		"https://www.youtube.com/watch?v=1", "https://example.com/v1beta/files/abc", "https://storage.googleapis.com/public/x.png",
		"https://googleapis.com.example.com/files/abc", "data:image/png;base64,AAAA", "http://127.0.0.1:80/x",
	} {
		if got, ok := stored.GoogleFile(uri); ok {
			t.Errorf("%q is %q", uri, got)
		}
	}
}

func TestIDsOfAnAnswer(t *testing.T) {
	for _, row := range []struct {
		piece string
		own   bool
		want  string
	}{
		{`{"type":"code_interpreter_call","id":"ci","container_id":"cntr","code":"x","outputs":null}`, true, "cntr ci"},
		{`{"type":"container_file_citation","container_id":"cntr","file_id":"cfile","start_index":0}`, false, "cntr cfile"},
		{`{"id":"container_1","expires_at":"x"}`, true, "container_1"},
		{`{"type":"server_tool_use","id":"srvtoolu","input":{"file_id":"not-this"}}`, false, ""},
		{`{"type":"mcp_call","id":"m","arguments":"{}","output":"{\"file_id\":\"not-this\"}"}`, true, "m"},
		{`{"type":"x","id":"i","file_id":7,"file_ids":{"a":1}}`, true, "i"},
		{`{"type":"x","id":"i","container":[1],"conversation":true,"input":[{"id":"j"}]}`, true, "j i"},
		{`{"type":"x","id":"i","image_url":"https://generativelanguage.googleapis.com/v1beta/files/a"}`, true, "i"},
	} {
		if got := strings.Join(stored.IDs([]byte(row.piece), row.own), " "); got != row.want {
			t.Errorf("%s: %q, want %q", row.piece, got, row.want)
		}
	}
}

// FuzzRefs: a body with references is always walked, and two walks find the same.
func FuzzRefs(f *testing.F) {
	for _, seed := range []string{
		`{"a":[{"file_id":"x"}]}`, `{"conversation":{"id":"c"}}`, `{"input":[{"id":"i"}]}`, `{"fileUri":"files/x"}`, `{"image_url":{"url":"gs://x"}}`, `{"tools":[{"file_ids":["a"]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := jsonx.Scan(text)
		if err != nil {
			return
		}
		found, err := stored.Refs(&doc)
		if invalid, ok := errors.AsType[*stored.InvalidError](err); ok && !stored.Named(&doc, 0) {
			t.Errorf("%s: %s, and it is not walked", text, invalid.At)
		}
		of := func(kinds ...stored.Kind) bool {
			return slices.ContainsFunc(found, func(r stored.Ref) bool { return slices.Contains(kinds, r.Kind) })
		}
		if of(stored.Resource) && !stored.Named(&doc, 0) || of(stored.Item, stored.Copy) && !stored.Named(&doc, stored.Items) || of(stored.URL) && !stored.Named(&doc, stored.URLs) {
			t.Errorf("%s names %v, and is not walked", text, found)
		}
	})
}

func BenchmarkRefs(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, and says \\\"hello\\\".\\n", 16)
	tool := `{"type":"function","function":{"name":"read","description":"Reads a file.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"The path."},"offset":{"type":"integer"}},"required":["path"]}}},`
	turn := `{"role":"user","content":"` + text + `"},{"role":"assistant","content":[{"type":"text","text":"` + text + `"}],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"x\"}"}}]},`
	body := []byte(`{"model":"gpt-x","stream":true,"tools":[` + strings.Repeat(tool, 20) + `{}],"messages":[` + strings.Repeat(turn, 24) + `{"role":"user","content":"end"}]}`)
	doc, err := jsonx.Scan(body)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("walk", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := stored.Refs(&doc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("no walk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if stored.Named(&doc, 0) {
				b.Fatal("such a body should not be walked")
			}
		}
	})
}
