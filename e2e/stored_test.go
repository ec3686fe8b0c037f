package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// Ids of what a vendor stores under a key that several accounts of the gateway use. Only the account that made a thing through the gateway
// may name it: in a path, in any member of a body, in the lines of a batch.

// storedLab is a gateway with the operator's own keys beside users' own, where one account made a thing of each kind.
type storedLab struct {
	*keepers
	operator, claude, google, ownGoogle *fake.Server

	other                                           string // the key of another account
	file, batch, response, talk, cached, claudeFile string // the first account's
	secondFile                                      string // the first account's, at another key of the same vendor
	reasoning                                       string // an item of its response
}

func runStoredLab(t *testing.T) *storedLab {
	t.Helper()
	k := &keepers{
		openai:    fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own-openai"}),
		second:    fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own-second"}),
		anthropic: fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "own-anthropic"}),
	}
	l := &storedLab{
		keepers:   k,
		operator:  fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "operator-openai"}),
		claude:    fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "operator-anthropic"}),
		google:    fake.Start(t, fake.Config{Dialect: fake.Gemini, Name: "operator-google"}),
		ownGoogle: fake.Start(t, fake.Config{Dialect: fake.Gemini, Name: "own-google"}),
	}
	k.Gateway = gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  openai: {api_key: %s, base_url: %q}
  anthropic: {api_key: %s, base_url: %q}
  google: {api_key: %s, base_url: %q}
  direct:
    keys:
      - {provider: openai, api_key: %s, base_url: %q}
      - {provider: anthropic, api_key: %s, base_url: %q}
      - {provider: google, api_key: %s, base_url: %q}
      - {provider: openai, api_key: %s, base_url: %q}
`, l.operator.Key, l.operator.URL, l.claude.Key, l.claude.URL, l.google.Key, l.google.URL,
		k.openai.Key, k.openai.URL, k.anthropic.Key, k.anthropic.URL, l.ownGoogle.Key, l.ownGoogle.URL, k.second.Key, k.second.URL)})
	l.other = l.CreateKey(t, "--name", "other").Key
	l.file = l.upload(t, "", []byte("mine")).ID
	for range 3 { // real vendors do not give one id to two things, as these two would
		l.secondFile = l.upload(t, "", []byte("mine, elsewhere"), "X-Bardo-Provider: direct/openai-2").ID
	}
	l.claudeFile = l.uploadClaude(t)
	l.batch = keptAnswer(t, l.Do(t, gateway.Call{Path: "/v1/batches", Body: fmt.Sprintf(`{"input_file_id":%q}`, l.file)}), "direct/openai").ID
	l.openai.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "hm"}}})
	r, answer := respond(t, l.Gateway, false, `{"model":"direct/openai/gpt-5","input":"hi"}`)
	l.openai.Behave(fake.Behaviour{})
	l.response = r.ID
	l.reasoning = between(answer.Body, `"id":"rs_`, `"`)
	l.talk = keptAnswer(t, l.Do(t, gateway.Call{Path: "/v1/conversations", Body: `{}`}), "direct/openai").ID
	var c struct{ Name string }
	l.Do(t, gateway.Call{Path: "/v1beta/cachedContents", Body: `{"model":"models/gemini-2.5-pro", "contents":[], "ttl":"300s"}`}).JSON(t, &c)
	l.cached = c.Name
	if l.reasoning == "" || l.cached == "" || l.talk == "" || l.batch == "" {
		t.Fatalf("the first account made %+v", l)
	}
	l.reasoning = "rs_" + l.reasoning
	l.forget()
	return l
}

func (l *storedLab) uploadClaude(t *testing.T) string {
	t.Helper()
	body, kind := uploadForm(t, []byte("text"))
	return keptAnswer(t, l.Do(t, gateway.Call{Path: "/v1/files", Header: []string{"anthropic-version: 2023-06-01", kind}, Body: body}), "direct/anthropic").ID
}

func (l *storedLab) vendors() []*fake.Server {
	return []*fake.Server{l.openai, l.second, l.anthropic, l.operator, l.claude, l.google, l.ownGoogle}
}

func (l *storedLab) forget() {
	for _, v := range l.vendors() {
		v.Forget()
	}
}

// unreached fails if a vendor saw anything since the last call of forget.
func (l *storedLab) unreached(t *testing.T) {
	t.Helper()
	for _, v := range l.vendors() {
		for _, r := range v.Requests() {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.Path, "/models") { // the gateway's own pings
				t.Errorf("a vendor got %s %s %.300s", r.Method, r.Path, r.Body)
			}
		}
	}
	l.forget()
}

func between(s, before, after string) string {
	_, rest, _ := strings.Cut(s, before)
	out, _, ok := strings.Cut(rest, after)
	if !ok {
		return ""
	}
	return out
}

// naming is a request whose body names one stored thing. %s stands for its id.
type naming struct {
	about string
	path  string
	body  string
	mine  func(*storedLab) string // an id that the first account made
}

func (n *naming) call(id, key string) gateway.Call {
	c := gateway.Call{Path: n.path, Body: strings.ReplaceAll(n.body, "%s", id), Key: key}
	if strings.HasPrefix(n.path, "/v1/messages") {
		c.Header = []string{"anthropic-version: 2023-06-01", "anthropic-beta: files-api-2025-04-14,code-execution-2025-08-25"}
	}
	return c
}

func (n *naming) fails(t *testing.T, got gateway.Answer, status int, code string) {
	t.Helper()
	a := ask{dialect: fake.OpenAI}
	switch {
	case strings.HasPrefix(n.path, "/v1/messages"):
		a.dialect = fake.Anthropic
	case strings.HasPrefix(n.path, "/v1beta"):
		a.dialect = fake.Gemini
	}
	mustFail(t, a, got, status, code)
}

func fileOf(l *storedLab) string       { return l.file }
func responseOf(l *storedLab) string   { return l.response }
func talkOf(l *storedLab) string       { return l.talk }
func cachedOf(l *storedLab) string     { return l.cached }
func claudeFileOf(l *storedLab) string { return l.claudeFile }
func reasoningOf(l *storedLab) string  { return l.reasoning }

// namingMember is what of a body names a stored thing, where the rest of the body depends on the model.
type namingMember struct {
	about, members string
	mine           func(*storedLab) string
}

// inputWith is a member "input" of one message with one part.
func inputWith(part string) string { return `"input":[{"role":"user","content":[` + part + `]}]` }

var responsesNamings = []namingMember{
	{"previous_response_id", `"input":"hi","previous_response_id":"%s"`, responseOf},
	{"conversation", `"input":"hi","conversation":"%s"`, talkOf},
	{"conversation.id", `"input":"hi","conversation":{"id":"%s"}`, talkOf},
	{"input_file", inputWith(`{"type":"input_file","file_id":"%s"}`), fileOf},
	{"input_image", inputWith(`{"type":"input_image","file_id":"%s"}`), fileOf},
	{"an escaped key", inputWith(`{"type":"input_file","file\u005fid":"%s"}`), fileOf},
	{"item_reference", `"input":[{"type":"item_reference","id":"%s"}]`, reasoningOf},
	{"an item without a type", `"input":[{"id":"%s"}]`, reasoningOf},
	{"reasoning without its content", `"input":[{"role":"user","content":"hi"},{"type":"reasoning","id":"%s","summary":[]}]`, reasoningOf},
	{"a picture of before", `"input":[{"type":"image_generation_call","id":"%s"},{"role":"user","content":"hi"}]`, reasoningOf},
	{"a file in a tool's output", `"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_file","file_id":"%s"}]}]`, fileOf},
	{"files of a container", `"input":"hi","tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["%s"]}}]`, fileOf},
	{"a container", `"input":"hi","tools":[{"type":"code_interpreter","container":"%s"}]`, fileOf},
	{"vector stores", `"input":"hi","tools":[{"type":"file_search","vector_store_ids":["%s"]}]`, fileOf},
	{"a prompt", `"input":"hi","prompt":{"id":"%s"}`, fileOf},
	{"a file among a prompt's variables", `"input":"hi","metadata":{},"prompt":{"id":"%s","variables":{"x":{"type":"input_file","file_id":"%s"}}}`, fileOf},
}

var chatNamings = []namingMember{
	{"file", `"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"%s"}}]}]`, fileOf},
	{"audio of before", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","audio":{"id":"%s"}},{"role":"user","content":"and?"}]`, fileOf},
}

var messagesNamings = []namingMember{
	{"document", `"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"%s"}},{"type":"text","text":"hi"}]}]`, claudeFileOf},
	{"image", `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"%s"}},{"type":"text","text":"hi"}]}]`, claudeFileOf},
	{"in a tool's result", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"file","file_id":"%s"}}]}]}]`, claudeFileOf},
	{"container_upload", `"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"%s"},{"type":"text","text":"hi"}]}]`, claudeFileOf},
	{"container", `"container":"%s","messages":[{"role":"user","content":"hi"}]`, claudeFileOf},
	{"container.id", `"container":{"id":"%s"},"messages":[{"role":"user","content":"hi"}]`, claudeFileOf},
}

var geminiNamings = []namingMember{
	{"cachedContent", `"cachedContent":"%s","contents":[{"role":"user","parts":[{"text":"hi"}]}]`, cachedOf},
	{"cached_content", `"cached_content":"%s","contents":[{"role":"user","parts":[{"text":"hi"}]}]`, cachedOf},
	{"fileUri", `"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"text/plain","fileUri":"https://generativelanguage.googleapis.com/v1beta/files/%s"}}]}]`, cachedOf},
	{"file_uri", `"contents":[{"role":"user","parts":[{"file_data":{"mime_type":"text/plain","file_uri":"https://generativelanguage.googleapis.com/v1beta/files/%s"}}]}]`, cachedOf},
	{"a file's name", `"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"text/plain","fileUri":"files/%s"}}]}]`, cachedOf},
	{"a bucket's file", `"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"text/plain","fileUri":"gs://%s/x"}}]}]`, cachedOf},
}

// namings are the members by which the formats name what a provider stores, at users' own keys and at the operator's.
func namings() []naming {
	list := []naming{
		{"batch", "/v1/batches", `{"input_file_id":"%s","endpoint":"/v1/responses"}`, fileOf},
		{"conversation's items", "/v1/conversations", `{"items":[{"type":"message","role":"user","content":[{"type":"input_file","file_id":"%s"}]}]}`, fileOf},
		{"batch of messages", "/v1/messages/batches", `{"requests":[{"custom_id":"a","params":{"model":"claude-sonnet-4-5","max_tokens":10,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"%s"}}]}]}}]}`, claudeFileOf},
		{"cached prompt", "/v1beta/cachedContents", `{"model":"models/gemini-2.5-pro","contents":[{"role":"user","parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/%s"}}]}]}`, cachedOf},
	}
	add := func(about, path, body string, of []namingMember) {
		for _, m := range of {
			list = append(list, naming{about + " " + m.about, path, fmt.Sprintf(body, m.members), m.mine})
		}
	}
	for _, at := range []string{"direct/", ""} {
		gpt, claude, gemini := at+"openai/gpt-5", at+"anthropic/claude-sonnet-4-5", at+"google/gemini-2.5-pro"
		add(gpt+" responses", "/v1/responses", `{"model":"`+gpt+`",%s}`, responsesNamings)
		add(gpt+" chat", "/v1/chat/completions", `{"model":"`+gpt+`",%s}`, chatNamings)
		add(claude, "/v1/messages", `{"model":"`+claude+`","max_tokens":10,%s}`, messagesNamings)
		add(gemini, "/v1beta/models/"+gemini+":generateContent", `{%s}`, geminiNamings)
	}
	return list
}

// TestIDsThatTheAccountDidNotMakeAreNotFound, wherever a body names them: those of another account, and those that nobody made through
// the gateway. No provider hears of them.
func TestIDsThatTheAccountDidNotMakeAreNotFound(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	for _, n := range namings() {
		for id, key := range map[string]string{n.mine(l): l.other, "file-made-elsewhere": ""} {
			t.Run(n.about+"/"+id, func(t *testing.T) {
				n.fails(t, l.Do(t, n.call(id, key)), http.StatusNotFound, "not_found")
				l.unreached(t)
			})
		}
	}
}

// TestIDsOfTheAccountsOwnReachTheirVendor, at the key under which they were made.
func TestIDsOfTheAccountsOwnReachTheirVendor(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	for _, row := range []struct {
		n  naming
		id string
		at *fake.Server
	}{
		{naming{path: "/v1/responses", body: `{"model":"gpt-5","input":[{"role":"user","content":[{"type":"input_file","file_id":"%s"}]}]}`}, l.file, l.openai},
		{naming{path: "/v1/responses", body: `{"model":"gpt-5","input":[{"role":"user","content":[{"type":"input_file","file_id":"%s"}]}]}`}, l.secondFile, l.second},
		{naming{path: "/v1/chat/completions", body: `{"model":"gpt-4.1","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"%s"}}]}]}`}, l.secondFile, l.second},
		{naming{path: "/v1/responses", body: `{"model":"gpt-5","input":"and?","previous_response_id":"%s"}`}, l.response, l.openai},
		{naming{path: "/v1/messages", body: `{"model":"claude-sonnet-4-5","max_tokens":10,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"%s"}}]}]}`}, l.claudeFile, l.anthropic},
		{naming{path: "/v1beta/models/gemini-2.5-pro:generateContent", body: `{"cachedContent":"%s","contents":[{"role":"user","parts":[{"text":"hi"}]}]}`}, l.cached, l.ownGoogle},
		{naming{path: "/v1/batches", body: `{"input_file_id":"%s"}`}, l.secondFile, l.second},
	} {
		t.Run(row.n.path+" "+row.id, func(t *testing.T) {
			c := row.n.call(row.id, "")
			got := l.Do(t, c)
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "direct" {
				t.Fatalf("%d, cost %q by %q: %s", got.Status, got.Header.Get("X-Bardo-Cost"), got.Header.Get("X-Bardo-Provider"), got.Body)
			}
			if last, ok := row.at.Last(); !ok || !strings.Contains(string(last.Body), row.id) {
				t.Errorf("its vendor got %s", last.Body)
			}
		})
	}
	t.Run("two vendors", func(t *testing.T) {
		got := l.Do(t, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(
			`{"model":"gpt-5","input":[{"role":"user","content":[{"type":"input_file","file_id":%q},{"type":"input_file","file_id":%q}]}]}`, l.file, l.secondFile)})
		mustFail(t, ask{dialect: fake.OpenAI}, got, http.StatusNotFound, "not_found")
	})
}

// TestItemsOfOnesOwnResponseMayComeBack: by reference, and in full with the ids that other gateways and providers gave them.
func TestItemsOfOnesOwnResponseMayComeBack(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	refer := gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":"gpt-5","input":[{"type":"item_reference","id":%q},{"role":"user","content":"go on"}]}`, l.reasoning)}
	if got := l.Do(t, refer); got.Header.Get("X-Bardo-Provider") != "direct/openai" {
		t.Errorf("a reference: %d by %q %s", got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
	}
	whole := `{"model":%q,"input":[{"role":"user","content":"hi"},` +
		`{"type":"message","id":"msg_elsewhere","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hello","annotations":[{"type":"file_citation","file_id":"file-cited","index":0,"filename":"x"}]}]},` +
		`{"type":"function_call","id":"fc_elsewhere","call_id":"c","name":"f","arguments":"{\"file_id\":\"file-in-arguments\"}"},` +
		`{"type":"function_call_output","call_id":"c","output":"{\"file_id\":\"file-in-output\"}"},` +
		`{"role":"user","content":"file_id file-x"}],"metadata":{"file_id":"file-in-metadata","container":"x"},` +
		`"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"file_id":{"type":"string"},"conversation":{"type":"string","default":"x"}}}}]}`
	for _, model := range []string{"openai/gpt-4.1", "direct/openai/gpt-4.1", "claude-sonnet-4-5"} {
		if got := l.Do(t, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(whole, model)}); got.Status != http.StatusOK {
			t.Errorf("whole items to %s: %d %s", model, got.Status, got.Body)
		}
	}
}

// TestAnotherAccountsItemDoesNotComeBackInFull: its id stands for what its own account said, whatever else the item holds.
func TestAnotherAccountsItemDoesNotComeBackInFull(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	item := fmt.Sprintf(`{"model":"gpt-5","input":[{"type":"reasoning","id":%q,"summary":[],"content":[{"type":"reasoning_text","text":"x"}]},{"role":"user","content":"go on"}]}`, l.reasoning)
	const refused = "that this key made through the gateway" // a provider's own 404 says something else: the request reached it
	for key, theirs := range map[string]bool{"": false, l.other: true} {
		got := l.Do(t, gateway.Call{Path: "/v1/responses", Key: key, Body: item})
		if strings.Contains(got.Body, refused) != theirs {
			t.Errorf("another's=%v: %d %s", theirs, got.Status, got.Body)
		}
	}
}

// TestPathsOfIDsThatTheAccountDidNotMakeAreNotFound, whatever is asked of them.
func TestPathsOfIDsThatTheAccountDidNotMakeAreNotFound(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	outside := l.openai.StoreFile("made under the same key, not through the gateway")
	for _, row := range []struct{ path, id string }{
		{"/v1/files/", l.file},
		{"/v1/files/", outside},
		{"/v1/batches/", l.batch},
		{"/v1/responses/", l.response},
		{"/v1/conversations/", l.talk},
		{"/v1beta/", l.cached},
		{"/v1/responses/", "resp_made-elsewhere"},
		{"/v1/messages/batches/", "msgbatch_made-elsewhere"},
	} {
		key := l.other
		if strings.Contains(row.id, "made-elsewhere") || row.id == outside {
			key = ""
		}
		for _, c := range []gateway.Call{
			{Path: ""},
			{Method: http.MethodHead},
			{Method: http.MethodDelete},
			{Path: "/content"},
			{Path: "/results"},
			{Path: "/input_items"},
			{Path: "/items"},
			{Method: http.MethodPost, Path: "/cancel"},
			{Method: http.MethodPost, Path: "/items", Body: `{"items":[]}`},
		} {
			c.Path, c.Key = row.path+row.id+c.Path, key
			got := l.Do(t, c)
			if got.Status != http.StatusNotFound || c.Method != http.MethodHead && !strings.Contains(got.Body, "not_found") && !strings.Contains(got.Body, "NOT_FOUND") {
				t.Errorf("%s %s: %d %s", c.Method, c.Path, got.Status, got.Body)
			}
			l.unreached(t)
		}
	}
}

type storedBodyCase struct{ about, path, kind, body string }

// TestBodiesAboutStoredThingsAreReadOrRefused: what the gateway cannot read, it cannot check.
func TestBodiesAboutStoredThingsAreReadOrRefused(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	const json, form = "content-type: application/json", "content-type: multipart/form-data; boundary=b"
	batch := fmt.Sprintf(`{"input_file_id":%q}`, l.file)
	part := func(head, content string) string { return "--b\r\n" + head + "\r\n\r\n" + content + "\r\n" }
	file := part(`Content-Disposition: form-data; name="file"; filename="x.jsonl"`, "text")
	for _, row := range []storedBodyCase{
		{"does not parse", "/v1/batches", json, batch + "}"},
		{"is cut", "/v1/batches", json, batch[:len(batch)-1]},
		{"is no object", "/v1/batches", json, `["` + l.file + `"]`},
		{"another content type", "/v1/batches", "content-type: text/plain", batch},
		{"a form", "/v1/batches", "content-type: application/x-www-form-urlencoded", "input_file_id=" + l.file},
		{"an upload's type", "/v1/batches", form, batch},
		{"a byte order mark", "/v1/batches", json, "\xef\xbb\xbf" + batch},
		{"UTF-16", "/v1/batches", "content-type: application/json; charset=utf-16", "\x00{\x00}"},
		{"another charset", "/v1/batches", "content-type: application/json; charset=utf-7", batch},
		{"a key twice", "/v1/batches", json, fmt.Sprintf(`{"input_file_id":"file-1","input_file_id":%q}`, l.file)},
		{"a key twice, escaped", "/v1/batches", json, fmt.Sprintf(`{"input_file_id":"file-1","input_file\u005fid":%q}`, l.file)},
		{"a key twice further in", "/v1/conversations", json, fmt.Sprintf(`{"items":[{"type":"message","role":"user","content":"hi","content":[{"type":"input_file","file_id":%q}]}]}`, l.file)},
		{"an id that is no string", "/v1/batches", json, `{"input_file_id":["file-1"]}`},
		{"compressed", "/v1/batches", json + "\ncontent-encoding: gzip", batch},
		{"JSON for a file", "/v1/files", json, `{"file":"x"}`},
		{"a form without a boundary", "/v1/files", "content-type: multipart/form-data", file + "--b--\r\n"},
		{"a form that is cut", "/v1/files", form, file},
		{"a form with something before it", "/v1/files", form, "x\r\n" + file + "--b--\r\n"},
		{"a form with something behind it", "/v1/files", form, file + "--b--\r\n" + file + "--b--\r\n"},
		{"a form of bare line feeds", "/v1/files", form, strings.ReplaceAll(file+"--b--\r\n", "\r\n", "\n")},
		{"two purposes", "/v1/files", form, part(`Content-Disposition: form-data; name="purpose"`, "user_data") + part(`Content-Disposition: form-data; name="purpose"`, "batch") + file + "--b--\r\n"},
		{"an encoded part", "/v1/files", form, part("Content-Disposition: form-data; name=\"file\"; filename=\"x\"\r\nContent-Transfer-Encoding: base64", "eA==") + "--b--\r\n"},
		{"a part without a name", "/v1/files", form, part("Content-Type: text/plain", "x") + "--b--\r\n"},
	} {
		t.Run(row.about, func(t *testing.T) { checkStoredBody(t, l, row) })
	}
	for about, members := range map[string]string{
		"conversation.id twice":        fmt.Sprintf(`"input":"hi","conversation":{"id":"conv_x","id":%q}`, l.talk),
		"a key in another case":        fmt.Sprintf(`"input":[{"role":"user","content":[{"type":"input_file","File_ID":%q}]}]`, l.file),
		"a key in letters like others": fmt.Sprintf(`"input":[{"role":"user","content":[{"type":"input_file","fıle_id":%q}]}]`, l.file),
		"an id that is no string":      fmt.Sprintf(`"input":[{"role":"user","content":[{"type":"input_file","file_id":[%q]}]}]`, l.file),
	} {
		t.Run(about, func(t *testing.T) {
			got := l.Do(t, gateway.Call{Path: "/v1/responses", Body: `{"model":"direct/openai/gpt-5",` + members + "}"})
			if got.Status != http.StatusBadRequest {
				t.Errorf("%d %s", got.Status, got.Body)
			}
			l.unreached(t)
		})
	}
	t.Run("a request in the query", func(t *testing.T) {
		for _, query := range []string{"$httpMethod=DELETE", "%24req=%7B%7D", "$httpHeaders=x"} {
			if got := l.Do(t, gateway.Call{Path: "/v1beta/" + l.cached + "?" + query}); got.Status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", query, got.Status, got.Body)
			}
		}
		l.unreached(t)
	})
}

func checkStoredBody(t *testing.T, l *storedLab, row storedBodyCase) {
	t.Helper()
	got := l.Do(t, gateway.Call{Path: row.path, Header: strings.Split(row.kind, "\n"), Body: row.body})
	if got.Status != http.StatusBadRequest && got.Status != http.StatusUnsupportedMediaType {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	l.unreached(t)
}

// TestABatchFileNamesOnlyWhatItsAccountMade: its lines are requests.
func TestABatchFileNamesOnlyWhatItsAccountMade(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	line := func(more string) string {
		return `{"custom_id":"a","method":"POST","url":"/v1/responses","body":{"model":"gpt-4.1",` + more + "}}\n"
	}
	harmless := line(`"input":"hi","metadata":{"file_id":"x"}`)
	for _, row := range []struct {
		about, content, key string
		status              int
	}{
		{"nothing", harmless + "\n" + strings.TrimSuffix(harmless, "\n"), l.other, http.StatusOK},
		{"its own", harmless + line(fmt.Sprintf(`"input":"hi","previous_response_id":%q`, l.response)), "", http.StatusOK},
		{"another's", harmless + line(fmt.Sprintf(`"input":"hi","previous_response_id":%q`, l.response)), l.other, http.StatusNotFound},
		{"another's file", line(fmt.Sprintf(`"input":[{"role":"user","content":[{"type":"input_file","file_id":%q}]}]`, l.file)), l.other, http.StatusNotFound},
		{"nobody's", line(`"input":[{"type":"item_reference","id":"rs_1"}]`), "", http.StatusNotFound},
		{"what cannot be read", harmless + "{\n", "", http.StatusBadRequest},
		{"a byte order mark", "\xef\xbb\xbf" + harmless, "", http.StatusBadRequest},
		{"a key twice", `{"body":{},"body":{}}` + "\n", "", http.StatusBadRequest},
	} {
		t.Run(row.about, func(t *testing.T) {
			body, kind := uploadFormFor(t, "batch", []byte(row.content))
			got := l.Do(t, gateway.Call{Path: "/v1/files", Header: []string{kind}, Body: body, Key: row.key})
			if got.Status != row.status {
				t.Errorf("%d %s", got.Status, got.Body)
			}
			if row.status != http.StatusOK {
				l.unreached(t)
			}
			l.forget()
		})
	}
}

// TestListsThatCannotBeReadAreNotPassedOn: they could hold what others made.
func TestListsThatCannotBeReadAreNotPassedOn(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	for _, row := range []struct{ kind, body string }{
		{"application/json", `{"data":[{"id":"file-secret"}]`},
		{"application/json", `[{"id":"file-secret"}]`},
		{"application/json", `{"data":{"id":"file-secret"}}`},
		{"application/json", `{"data":[],"more":[{"id":"file-secret"}]}`},
		{"text/plain", `{"data":[{"id":"file-secret"}]}`},
	} {
		l.openai.BehaveOn("/files", fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: " + row.kind}, Body: row.body}})
		if got := l.Do(t, gateway.Call{Path: "/v1/files"}); strings.Contains(got.Body, "file-secret") {
			t.Errorf("%s: %d %s", row.body, got.Status, got.Body)
		}
	}
}

// TestIDsPassWithAKeyThatTheRequestBrings: what is stored under it is the user's, and its provider tells accounts apart.
func TestIDsPassWithAKeyThatTheRequestBrings(t *testing.T) {
	t.Parallel()
	const own = "sk-or-the-users-own"
	broad := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{own}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openrouter", Fake: broad, More: "byok: true", Models: models("m", "maker/m")}}})
	c := gateway.Call{Path: "/v1/chat/completions", Body: `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-mine"}}]}]}`}
	mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, c), http.StatusNotFound, "not_found")
	c.Header = []string{"X-Bardo-Upstream-Key: " + own}
	if got := g.Do(t, c); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if last, ok := broad.Last(); !ok || last.Key() != own || !strings.Contains(string(last.Body), "file-mine") {
		t.Errorf("the provider got %s", last.Body)
	}
	mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, gateway.Call{Path: "/v1/files", Header: c.Header}), http.StatusBadRequest, "invalid_request")
}

// TestAKeyInAQueryIsNotPassedOn: it is the gateway's, or another provider's.
func TestAKeyInAQueryIsNotPassedOn(t *testing.T) {
	t.Parallel()
	l := runStoredLab(t)
	l.forget()
	if got := l.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/responses/" + l.response + "?key=sk-in-a-query&include=usage&API_KEY=x"}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if all := l.openai.Calls(); len(all) != 1 || all[0].RawQuery != "include=usage" {
		t.Errorf("the provider reads %+v", all)
	}
}
