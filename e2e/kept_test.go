package e2e

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// What a vendor keeps, through users' own keys: files, batches and responses.

// keepers is a gateway with users' own keys: two at OpenAI, one at Anthropic.
type keepers struct {
	*gateway.Gateway
	openai, second, anthropic *fake.Server
}

func runKeepers(t *testing.T) *keepers {
	t.Helper()
	k := &keepers{
		openai:    fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own-openai"}),
		second:    fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own-second"}),
		anthropic: fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "own-anthropic"}),
	}
	k.Gateway = gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  direct:
    keys:
      - {provider: openai, api_key: %s, base_url: %q}
      - {provider: anthropic, api_key: %s, base_url: %q}
      - {provider: openai, api_key: %s, base_url: %q}
`, k.openai.Key, k.openai.URL, k.anthropic.Key, k.anthropic.URL, k.second.Key, k.second.URL)})
	return k
}

// uploadForm is an upload's body, and its content type. What looks like requests is for a batch.
func uploadForm(t *testing.T, content []byte) (body, contentType string) {
	t.Helper()
	if bytes.HasPrefix(content, []byte("{")) {
		return uploadFormFor(t, "batch", content)
	}
	return uploadFormFor(t, "user_data", content)
}

func uploadFormFor(t *testing.T, purpose string, content []byte) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "input.jsonl")
	if err == nil {
		_, err = part.Write(content)
	}
	if err == nil {
		err = w.WriteField("purpose", purpose)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), "content-type: " + w.FormDataContentType()
}

// keptThing is what a vendor keeps, as its client reads it.
type keptThing struct {
	ID, Status string
	Processing string `json:"processing_status"`
	Output     string `json:"output_file_id"`
	Results    string `json:"results_url"`
	Data       []keptThing
}

// keptAnswer checks an answer that a user's own key gave.
func keptAnswer(t *testing.T, got gateway.Answer, by string) (v keptThing) {
	t.Helper()
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
	}
	h := got.Header
	if h.Get("X-Bardo-Cost") != "direct" || h.Get("X-Bardo-Provider") != by || h.Get("X-Request-Id") == "" || h.Get("Openai-Organization") != "" || h.Get("X-Bardo-Pipeline") != "" {
		t.Errorf("headers %v", h)
	}
	if strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		got.JSON(t, &v)
	}
	return v
}

func (k *keepers) upload(t *testing.T, key string, content []byte, header ...string) keptThing {
	t.Helper()
	body, kind := uploadForm(t, content)
	by := "direct/openai"
	for _, h := range header {
		if name, ok := strings.CutPrefix(h, "X-Bardo-Provider: "); ok {
			by = name
		}
	}
	return keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/files", Body: body, Header: append(header, kind), Key: key}), by)
}

func TestP16FilesAndBatchesPassToAUsersOwnKey(t *testing.T) {
	t.Parallel()
	k := runKeepers(t)
	poor := k.CreateKey(t, "--name", "poor", "--balance-usd", "0.000001").Key
	content := bytes.Repeat([]byte("{\"custom_id\":\"secret-content\"}\r\n{ \"body\":\"\u00e9\"}\n"), 8000)
	body, kind := uploadForm(t, content)
	file := keptAnswer(t, k.Do(t, gateway.Call{Path: "/files", Body: body, Header: []string{kind}, Key: poor}), "direct/openai")
	sent := k.openai.Requests()
	if last := sent[len(sent)-1]; string(last.Body) != body || last.Path != "/v1/files" || last.Key() != k.openai.Key {
		t.Errorf("the vendor got %s with %d bytes, %d were sent", last.Path, len(last.Body), len(body))
	}
	if got := k.Do(t, gateway.Call{Path: "/v1/files/" + file.ID + "/content", Key: poor}); got.Body != string(content) {
		t.Errorf("the file has %d bytes, %d were sent", len(got.Body), len(content))
	}

	made := k.Do(t, gateway.Call{Path: "/v1/batches", Key: poor, Body: fmt.Sprintf(`{"input_file_id":%q, "endpoint":"/v1/chat/completions"}`, file.ID)})
	batch := keptAnswer(t, made, "direct/openai")
	looked := k.Do(t, gateway.Call{Path: "/v1/batches/" + batch.ID, Key: poor})
	if want := fmt.Sprintf(`{"id":%q, "object":"batch", "status":"completed", "input_file_id":%q, "output_file_id":%q}`, batch.ID, file.ID, batch.Output); looked.Body != want {
		t.Errorf("the batch reads\n%s\nwant\n%s", looked.Body, want)
	}
	if got := k.Do(t, gateway.Call{Path: "/v1/files/" + batch.Output + "/content", Key: poor}); got.Status != http.StatusOK || !strings.Contains(got.Body, "custom_id") {
		t.Errorf("the batch's answers: %d %s", got.Status, got.Body)
	}
	if l := keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/batches?limit=10", Key: poor}), "direct/openai"); len(l.Data) != 1 || l.Data[0].ID != batch.ID {
		t.Errorf("the list holds %+v", l.Data)
	}
	if b := keptAnswer(t, k.Do(t, gateway.Call{Method: http.MethodPost, Path: "/v1/batches/" + batch.ID + "/cancel", Key: poor}), "direct/openai"); b.Status != "cancelling" {
		t.Errorf("after the cancel it is %q", b.Status)
	}
	keptAnswer(t, k.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/files/" + file.ID, Key: poor}), "direct/openai")
	if got := k.Do(t, gateway.Call{Path: "/v1/files/" + file.ID, Key: poor}); got.Status != http.StatusNotFound {
		t.Errorf("the deleted file: %d %s", got.Status, got.Body)
	}

	c := gateway.Call{Path: "/v1/requests/" + made.Header.Get("X-Request-Id"), Key: poor}
	eventually(t, "the record", func() bool { return k.Do(t, c).Status == http.StatusOK })
	if rec := k.Do(t, c).Body; !strings.Contains(rec, `"cost_usd":0.000000`) || !strings.Contains(rec, `"provider":"direct/openai"`) || strings.Contains(rec, file.ID) {
		t.Errorf("record %s", rec)
	}
	if got := k.Do(t, gateway.Call{Path: "/v1/balance", Key: poor}); !strings.Contains(got.Body, `"balance_usd":0.000001`) {
		t.Errorf("balance %s", got.Body)
	}
	if k.openai.Saw(poor) || strings.Contains(k.Log(), "secret-content") {
		t.Error("the vendor saw the gateway's key, or the log has content")
	}
	k.AssertSound(t)
}

func TestP16AnthropicsBatchesPassToAUsersOwnKey(t *testing.T) {
	t.Parallel()
	k := runKeepers(t)
	version := []string{"anthropic-version: 2023-06-01", "anthropic-beta: message-batches-2024-09-24"}
	body := `{ "requests" : [ {"custom_id":"a","params":{"model":"claude-sonnet-4-5","max_tokens":10,"messages":[{"role":"user","content":"hi"}]}} ] }`
	batch := keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/messages/batches", Header: version, Body: body}), "direct/anthropic")
	sent := k.anthropic.Requests()
	if last := sent[len(sent)-1]; string(last.Body) != body || last.Header.Get("Anthropic-Beta") == "" || last.Header.Get("Anthropic-Version") != "2023-06-01" {
		t.Errorf("the vendor got %s with %v", last.Body, last.Header)
	}
	at := keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/messages/batches/" + batch.ID, Header: version}), "direct/anthropic").Results
	path, here := strings.CutPrefix(at, k.URL)
	if !here {
		t.Fatalf("the results are said to be at %q, the gateway is at %s", at, k.URL)
	}
	if got := k.Do(t, gateway.Call{Path: path, Header: version}); got.Status != http.StatusOK || !strings.Contains(got.Body, "custom_id") {
		t.Errorf("the results: %d %s", got.Status, got.Body)
	}
	if b := keptAnswer(t, k.Do(t, gateway.Call{Method: http.MethodPost, Path: "/v1/messages/batches/" + batch.ID + "/cancel", Header: version}), "direct/anthropic"); b.Processing != "canceling" {
		t.Errorf("after the cancel it is %+v", b)
	}
	upload, kind := uploadForm(t, []byte("text"))
	if f := keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/files", Header: append(version, kind), Body: upload}), "direct/anthropic"); !strings.HasPrefix(f.ID, "file_") {
		t.Errorf("a file of Anthropic's is %+v", f)
	}
}

func TestResponsesAreKeptByTheKeyThatMadeThem(t *testing.T) {
	t.Parallel()
	k := runKeepers(t)
	for _, row := range []struct {
		model string
		by    string
	}{{"direct/openai/gpt-4.1", "direct/openai"}, {"direct/openai-2/gpt-4.1", "direct/openai-2"}} {
		for _, stream := range []bool{false, true} {
			r, _ := respond(t, k.Gateway, stream, fmt.Sprintf(`{"model":%q,"input":"hi"}`, row.model))
			got := k.Do(t, gateway.Call{Path: "/v1/responses/" + r.ID})
			if v := keptAnswer(t, got, row.by); v.ID != r.ID {
				t.Errorf("%s, stream=%v: got %s", row.by, stream, got.Body)
			}
			next, answer := respond(t, k.Gateway, stream, fmt.Sprintf(`{"model":"gpt-4.1","previous_response_id":%q,"input":"and now?"}`, r.ID))
			if by := answer.Header.Get("X-Bardo-Provider"); by != row.by || next.ID == r.ID {
				t.Errorf("what follows is answered by %s, it began at %s", by, row.by)
			}
			keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/responses/" + r.ID + "/input_items"}), row.by)
			keptAnswer(t, k.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/responses/" + r.ID}), row.by)
		}
	}
}

// TestPromptsThatGoogleKeepsPassToAUsersOwnKey: they are made, used and deleted by their maker alone.
func TestPromptsThatGoogleKeepsPassToAUsersOwnKey(t *testing.T) {
	t.Parallel()
	own := fake.Start(t, fake.Config{Dialect: fake.Gemini, Name: "own-google"})
	operator := fake.Start(t, fake.Config{Dialect: fake.Gemini, Name: "operator-google"})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  google: {api_key: %s, base_url: %q}
  direct: {keys: [{provider: google, api_key: %s, base_url: %q}]}
`, operator.Key, operator.URL, own.Key, own.URL)})
	other := g.CreateKey(t, "--name", "other").Key
	made := g.Do(t, gateway.Call{Path: "/v1beta/cachedContents", Body: `{"model":"models/gemini-2.5-pro", "contents":[], "ttl":"300s"}`})
	var c struct{ Name string }
	if made.JSON(t, &c); made.Status != http.StatusOK || !strings.HasPrefix(c.Name, "cachedContents/") || made.Header.Get("X-Bardo-Cost") != "direct" {
		t.Fatalf("%d %v %s", made.Status, made.Header, made.Body)
	}
	ask := fmt.Sprintf(`{"cachedContent":%q, "contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, c.Name)
	for _, row := range []struct {
		call  gateway.Call
		mine  int
		other int
	}{
		{gateway.Call{Path: "/v1beta/" + c.Name}, 200, 404},
		{gateway.Call{Method: http.MethodPatch, Path: "/v1beta/" + c.Name + "?updateMask=ttl", Body: `{"ttl":"600s"}`}, 200, 404},
		{gateway.Call{Path: "/v1beta/models/gemini-2.5-pro:generateContent", Body: ask}, 200, 404},
		{gateway.Call{Method: http.MethodDelete, Path: "/v1beta/" + c.Name}, 200, 404},
	} {
		theirs := row.call
		theirs.Key = other
		if got := g.Do(t, theirs); got.Status != row.other {
			t.Errorf("another's %s %s: %d %s", theirs.Method, theirs.Path, got.Status, got.Body)
		}
		if row.call.Method == http.MethodDelete {
			if l := g.Do(t, gateway.Call{Path: "/v1beta/cachedContents", Key: other}); l.Status != http.StatusOK || strings.Contains(l.Body, c.Name) {
				t.Errorf("another's list: %d %s", l.Status, l.Body)
			}
		}
		if got := g.Do(t, row.call); got.Status != row.mine || got.Header.Get("X-Bardo-Provider") != "direct/google" {
			t.Errorf("%s %s: %d by %q %s", row.call.Method, row.call.Path, got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
		}
	}
	if last, ok := own.Last(); !ok || string(last.Body) != ask {
		t.Errorf("the vendor got %s, want %s", last.Body, ask)
	}
	if n := len(operator.Generations()); n != 0 {
		t.Errorf("%d requests went to the operator's key, which has no such prompt", n)
	}
}

// TestWhatOneAccountMadeIsNotAnothers, though both use the same vendor's key.
func TestWhatOneAccountMadeIsNotAnothers(t *testing.T) {
	t.Parallel()
	k := runKeepers(t)
	other := k.CreateKey(t, "--name", "other").Key
	file := k.upload(t, "", []byte("mine"))
	batch := keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/batches", Body: fmt.Sprintf(`{"input_file_id":%q}`, file.ID)}), "direct/openai")
	made, _ := respond(t, k.Gateway, false, `{"model":"direct/openai/gpt-4.1","input":"hi"}`)
	talk := keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/conversations", Body: `{}`}), "direct/openai")
	within := fmt.Sprintf(`{"model":"direct/openai/gpt-4.1","input":"hi","conversation":%q}`, talk.ID)
	if mine, _ := respond(t, k.Gateway, false, within); mine.text() == "" {
		t.Error("no answer in a conversation of one's own")
	}
	theirs := k.upload(t, other, []byte("theirs"))
	k.openai.Forget()
	for _, c := range []gateway.Call{
		{Path: "/v1/files/" + file.ID},
		{Path: "/v1/files/" + file.ID + "/content"},
		{Path: "/v1/files/" + batch.Output + "/content"},
		{Method: http.MethodDelete, Path: "/v1/files/" + file.ID},
		{Path: "/v1/batches/" + batch.ID},
		{Method: http.MethodPost, Path: "/v1/batches/" + batch.ID + "/cancel"},
		{Path: "/v1/batches", Body: fmt.Sprintf(`{"input_file_id":%q}`, file.ID)},
		{Path: "/v1/responses/" + made.ID},
		{Method: http.MethodDelete, Path: "/v1/responses/" + made.ID},
		{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":"direct/openai/gpt-4.1","input":"hi","previous_response_id":%q}`, made.ID)},
		{Path: "/v1/conversations/" + talk.ID},
		{Path: "/v1/responses", Body: within},
		{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":"direct/openai/gpt-4.1","input":"hi","conversation":{"id":%q}}`, talk.ID)},
	} {
		c.Key = other
		mustFail(t, ask{dialect: fake.OpenAI}, k.Do(t, c), http.StatusNotFound, "not_found")
	}
	if n := len(k.openai.Calls()); n != 0 {
		t.Errorf("%d of these requests reached the vendor", n)
	}
	for key, want := range map[string]string{"": file.ID, other: theirs.ID} {
		l := keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/files", Key: key}), "direct/openai")
		for _, f := range l.Data {
			if f.ID != want && f.ID != batch.Output {
				t.Errorf("the list of files holds %s", f.ID)
			}
		}
		if len(l.Data) == 0 || key == other && len(l.Data) != 1 {
			t.Errorf("the list of files holds %+v", l.Data)
		}
	}
}

// TestARequestChoosesAmongItsUsersKeys, and what was made stays where it was made.
func TestARequestChoosesAmongItsUsersKeys(t *testing.T) {
	t.Parallel()
	k := runKeepers(t)
	file := k.upload(t, "", []byte("here"), "X-Bardo-Provider: direct/openai-2")
	keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/files/" + file.ID}), "direct/openai-2")
	if n := len(k.openai.Calls()); n != 0 {
		t.Errorf("%d requests reached the first key's vendor", n)
	}
	for _, wrong := range []string{"direct/anthropic", "direct/openai-3", "openai"} {
		got := k.Do(t, gateway.Call{Path: "/v1/files", Header: []string{"X-Bardo-Provider: " + wrong}})
		mustFail(t, ask{dialect: fake.OpenAI}, got, http.StatusBadRequest, "requires_direct_key")
	}
}

// TestAVendorsRefusals: what concerns the caller passes as it is; what concerns the key is said without the vendor's words.
func TestAVendorsRefusalsOfWhatItKeeps(t *testing.T) {
	t.Parallel()
	k := runKeepers(t)
	a := ask{dialect: fake.OpenAI}
	file := k.upload(t, "", []byte("here"))
	if got := k.Do(t, gateway.Call{Path: "/v1/files/" + file.ID + "/nowhere"}); got.Status != http.StatusNotFound || !strings.Contains(got.Body, "No such thing: "+file.ID+"/nowhere") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	for _, row := range []struct {
		b      fake.Behaviour
		status int
		code   string
	}{
		{fake.Behaviour{Status: 401, Message: "org-secret is unknown"}, http.StatusBadGateway, "upstream_error"},
		{fake.Behaviour{Status: 403, Message: "org-secret may not"}, http.StatusBadGateway, "upstream_error"},
		{fake.Behaviour{Status: 429, RetryAfter: "9", Message: "org-secret is at its limit"}, http.StatusTooManyRequests, "rate_limit_exceeded"},
		{fake.Behaviour{Status: 500, Message: "org-secret broke"}, http.StatusBadGateway, "upstream_error"},
		{fake.Behaviour{Status: 503, Message: "org-secret is overloaded"}, http.StatusServiceUnavailable, "overloaded"},
		{fake.Behaviour{Break: fake.Break{Kind: fake.Reset}}, http.StatusBadGateway, "upstream_error"},
	} {
		k.openai.BehaveOn("/files", row.b)
		got := k.Do(t, gateway.Call{Path: "/v1/files"})
		mustFail(t, a, got, row.status, row.code)
		if strings.Contains(got.Body, "org-secret") {
			t.Errorf("the vendor's words: %s", got.Body)
		}
		if row.status == http.StatusTooManyRequests {
			retryAfter(t, got, 9)
		}
	}
}

// TestPathsOfWhatIsKeptLeadNowhereElse at the vendor, and obey the key's limits.
func TestPathsOfWhatIsKeptLeadNowhereElse(t *testing.T) {
	t.Parallel()
	k := runKeepers(t)
	for _, path := range []string{
		"/v1/files/..%2Fmodelss", "/v1/files/%2e%2e%2Fmodelss", "/v1/files/a/b/c/d", "/v1/files/a%2Fb%2Fc%2Fd", "/v1/files/a%3Fb", "/v1/files/a%20b",
		"/v1/files/" + strings.Repeat("a", 300), "/v1/filesystem",
	} {
		if got := k.Do(t, gateway.Call{Path: path}); got.Status < 400 || got.Status >= 500 {
			t.Errorf("%s: %d %.200s", path, got.Status, got.Body)
		}
	}
	if n := len(k.openai.Calls()); n != 0 {
		t.Errorf("%d requests reached the vendor: %s", n, k.openai.Requests()[0].Path)
	}
	reader := k.CreateKey(t, "--name", "reader", "--read-only").Key
	body, kind := uploadForm(t, []byte("x"))
	if got := k.Do(t, gateway.Call{Path: "/v1/files", Body: body, Header: []string{kind}, Key: reader}); got.Status != http.StatusForbidden {
		t.Errorf("an upload with a key that may only read: %d %s", got.Status, got.Body)
	}
	keptAnswer(t, k.Do(t, gateway.Call{Path: "/v1/files", Key: reader}), "direct/openai")
	busy := k.CreateKey(t, "--name", "busy", "--rpm", "2").Key
	n := map[int]int{}
	for range 4 {
		n[k.Do(t, gateway.Call{Path: "/v1/files", Body: body, Header: []string{kind}, Key: busy}).Status]++
	}
	if n[http.StatusOK] != 2 || n[http.StatusTooManyRequests] != 2 {
		t.Errorf("statuses %v", n)
	}
}

// TestLongContentIsStreamedAndBounded: what is longer than the gateway passes on is broken off, never cut in silence.
func TestLongContentIsStreamedAndBounded(t *testing.T) {
	t.Parallel()
	k := runKeepers(t)
	for _, row := range []struct {
		size  int
		whole bool
	}{{8 << 20, true}, {33 << 20, false}} {
		file := k.upload(t, "", []byte("x"))
		content := strings.Repeat("0123456789abcdef", row.size/16)
		k.openai.BehaveOn("/files/"+file.ID+"/content", fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: application/octet-stream"}, Body: content}})
		got := k.Do(t, gateway.Call{Path: "/v1/files/" + file.ID + "/content"})
		if row.whole && (got.Err != nil || got.Body != content) {
			t.Errorf("%d bytes came as %d: %v", row.size, len(got.Body), got.Err)
		}
		if !row.whole && got.Err == nil && got.Status == http.StatusOK {
			t.Errorf("%d bytes came as %d, and nothing says that they are not all", row.size, len(got.Body))
		}
	}
}
