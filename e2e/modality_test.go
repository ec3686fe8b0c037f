package e2e

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// modalityLab is a gateway before OpenAI, Groq and Together.
type modalityLab struct {
	*gateway.Gateway
	openai, groq, together *fake.Server
}

func runModalityLab(t *testing.T) *modalityLab {
	t.Helper()
	l := &modalityLab{
		openai:   fake.Start(t, fake.Config{Dialect: fake.OpenAI}),
		groq:     fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "groq"}),
		together: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "together"}),
	}
	l.Gateway = gateway.Run(t, gateway.Options{Config: free + fmt.Sprintf(`
providers:
  openai: {api_key: %s, base_url: %q}
  groq: {api_key: %s, base_url: %q}
  together: {api_key: %s, base_url: %q}
  order: [openai, groq, together]
`, l.openai.Key, l.openai.URL, l.groq.Key, l.groq.URL, l.together.Key, l.together.URL)})
	return l
}

// form is a body of fields, "name=value", and files, "name@", which are a second of silence.
func form(t *testing.T, fields ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range fields {
		name, value, isField := strings.Cut(f, "=")
		if isField {
			if err := w.WriteField(name, value); err != nil {
				t.Fatal(err)
			}
			continue
		}
		name, seconds, _ := strings.Cut(f, "@")
		part, err := w.CreateFormFile(name, "a.wav")
		if err == nil {
			n := 1
			if seconds != "" {
				_, err = fmt.Sscan(seconds, &n)
			}
			if err == nil {
				_, err = part.Write(fake.WAV(n))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// modalityCall is a request to one of the endpoints: JSON, or the fields of a form.
func modalityCall(t *testing.T, path, body string, fields ...string) gateway.Call {
	t.Helper()
	kind := "application/json"
	if fields != nil {
		body, kind = form(t, fields...)
	}
	return gateway.Call{Path: path, Body: body, Header: []string{"content-type: " + kind}}
}

// answerOf is what a provider answers to a call that does not come through the gateway.
func answerOf(t *testing.T, p *fake.Server, c gateway.Call) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+strings.TrimPrefix(c.Path, "/v1"), strings.NewReader(c.Body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", strings.TrimPrefix(c.Header[0], "content-type: "))
	req.Header.Set("Authorization", "Bearer "+p.Key)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type modalityCase struct {
	name, path, body string
	fields           []string
	at               func(*modalityLab) *fake.Server
	model            string
	cost             int64 // in millionths
}

func (l *modalityLab) atOpenAI() *fake.Server   { return l.openai }
func (l *modalityLab) atGroq() *fake.Server     { return l.groq }
func (l *modalityLab) atTogether() *fake.Server { return l.together }

var modalityCases = []modalityCase{
	{"moderation is free", "/v1/moderations", `{ "model":"omni-moderation-latest", "input":"caf\u00e9" }`, nil, (*modalityLab).atOpenAI, "omni-moderation-latest", 0},
	{"images by tokens", "/v1/images/generations", `{"model":"gpt-image-1","prompt":"a  cat","n":2,"quality":"low"}`, nil, (*modalityLab).atOpenAI, "gpt-image-1", 50*5 + 2*272*40},
	{"images as events", "/v1/images/generations", `{"model":"gpt-image-1","prompt":"a cat","quality":"low","stream":true,"partial_images":1}`, nil, (*modalityLab).atOpenAI, "gpt-image-1", 50*5 + 272*40},
	{"images by size and quality", "/v1/images/generations", `{"prompt":"a cat","model":"dall-e-3","size":"1024x1792","quality":"hd"}`, nil, (*modalityLab).atOpenAI, "dall-e-3", 120_000},
	{"an image of the usual size", "/v1/images/generations", `{"prompt":"a cat","model":"dall-e-3"}`, nil, (*modalityLab).atOpenAI, "dall-e-3", 40_000},
	{"an edited image", "/v1/images/edits", "", []string{"model=gpt-image-1", "image[]@", "prompt=more cat", "quality=low"}, (*modalityLab).atOpenAI, "gpt-image-1", 50*5 + 323*10 + 272*40},
	{"variations", "/v1/images/variations", "", []string{"image@", "model=dall-e-2", "n=3", "size=256x256"}, (*modalityLab).atOpenAI, "dall-e-2", 48_000},
	{"speech by characters", "/v1/audio/speech", `{"model":"tts-1","input":"ünïcödé und mehr.","voice":"alloy"}`, nil, (*modalityLab).atOpenAI, "tts-1", 255},
	{"speech by its length, MP3", "/v1/audio/speech", `{"model":"gpt-4o-mini-tts","input":"A sentence that takes two seconds.","voice":"alloy"}`, nil, (*modalityLab).atOpenAI, "gpt-4o-mini-tts", 500},
	{"speech by its length, WAV", "/v1/audio/speech", `{"model":"gpt-4o-mini-tts","input":"A sentence that takes two seconds.","voice":"alloy","response_format":"wav"}`, nil, (*modalityLab).atOpenAI, "gpt-4o-mini-tts", 501},
	{"speech as events", "/v1/audio/speech", `{"model":"gpt-4o-mini-tts","input":"A sentence that takes two seconds, and then two more.","voice":"alloy","stream_format":"sse"}`, nil, (*modalityLab).atOpenAI, "gpt-4o-mini-tts", 14*6/10 + 101*12 + 1},
	{"transcription by seconds", "/v1/audio/transcriptions", "", []string{"file@30", "model=whisper-1"}, (*modalityLab).atOpenAI, "whisper-1", 3_000},
	{"subtitles, by the file's own length", "/v1/audio/transcriptions", "", []string{"model=whisper-1", "response_format=srt", "file@30"}, (*modalityLab).atOpenAI, "whisper-1", 3_000},
	{"transcription by tokens", "/v1/audio/transcriptions", "", []string{"file@30", "model=gpt-4o-transcribe"}, (*modalityLab).atOpenAI, "gpt-4o-transcribe", 4*25/10 + 300*6 + 45*10},
	{"transcription as events", "/v1/audio/transcriptions", "", []string{"file@30", "model=gpt-4o-transcribe", "stream=true"}, (*modalityLab).atOpenAI, "gpt-4o-transcribe", 4*25/10 + 300*6 + 45*10},
	{"translation", "/v1/audio/translations", "", []string{"file@60", "model=whisper-1", "response_format=verbose_json"}, (*modalityLab).atOpenAI, "whisper-1", 6_000},
	{"a vendor that lists nothing", "/v1/audio/transcriptions", "", []string{"file@", "model=whisper-large-v3"}, (*modalityLab).atGroq, "whisper-large-v3", 309},
	{"images by pixels", "/v1/images/generations", `{"model":"black-forest-labs/FLUX.1-schnell","prompt":"a cat","width":1024,"height":1024,"steps":8}`, nil, (*modalityLab).atTogether, "black-forest-labs/FLUX.1-schnell", 5_663},
	{"ranking", "/v1/rerank", `{"model":"Salesforce/Llama-Rank-V1","query":"q","documents":["` + strings.Repeat("a", 394) + `","b"]}`, nil, (*modalityLab).atTogether, "Salesforce/Llama-Rank-V1", 10},
}

// TestR02ModalitiesPassUnchangedAndAreCharged: each endpoint's request and answer pass as they came, and cost what the catalog says of what the
// answer reports.
func TestR02ModalitiesPassUnchangedAndAreCharged(t *testing.T) {
	t.Parallel()
	l := runModalityLab(t)
	for _, row := range modalityCases {
		t.Run(row.name, func(t *testing.T) { row.check(t, l) })
	}
	l.AssertSound(t)
}

func (row *modalityCase) check(t *testing.T, l *modalityLab) {
	t.Helper()
	c := modalityCall(t, row.path, row.body, row.fields...)
	c.Key = l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	got := l.Do(t, c)
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%d %v %.300s", got.Status, got.Err, got.Body)
	}
	at := row.at(l)
	calls := at.Calls()
	if sent := calls[len(calls)-1]; string(sent.Body) != c.Body || sent.Path != row.path || sent.Key() != at.Key {
		t.Errorf("%s got\n%.300s\nwant\n%.300s", sent.Path, sent.Body, c.Body)
	}
	if want := answerOf(t, at, c); got.Body != want {
		t.Errorf("the client got %d bytes\n%.200q\nwant %d\n%.200q", len(got.Body), got.Body, len(want), want)
	}
	if paid := 5_000_000 - balanceOf(t, l.Gateway, c.Key); paid != row.cost {
		t.Errorf("paid %d, want %d", paid, row.cost)
	}
	b := billOf(t, l.Gateway, c.Key, got.Header.Get("X-Request-Id"))
	if b.Status != "ok" || b.Model != row.model || b.UsageEstimated != (row.path == "/v1/moderations") || !b.PriceKnown {
		t.Errorf("the record is %+v", b)
	}
	h := got.Header
	if h.Get("X-Bardo-Model") != row.model || h.Get("X-Bardo-Attempts") != "1" || h.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", h)
	}
	if want := fmt.Sprintf("0.%06d", row.cost); strings.HasPrefix(h.Get("Content-Type"), "application/json") && h.Get("X-Bardo-Cost") != want {
		t.Errorf("the cost is %q, want %q", h.Get("X-Bardo-Cost"), want)
	}
}

// TestModelsOfModalities: names with a provider, models left to the gateway, and models that do something else.
func TestModelsOfModalities(t *testing.T) {
	t.Parallel()
	l := runModalityLab(t)
	for _, row := range []struct {
		name string
		call gateway.Call
		want string // the model that answers, or what the error says
		sent string // in the body that the provider gets
	}{
		{"a provider's name", modalityCall(t, "/v1/images/generations", `{"prompt":"a","model":"openai/dall-e-3"}`), "dall-e-3", `{"prompt":"a","model":"dall-e-3"}`},
		{"a provider's name in a form", modalityCall(t, "/v1/audio/transcriptions", "", "model=groq/whisper-large-v3-turbo", "file@"), "whisper-large-v3-turbo", "\r\n\r\nwhisper-large-v3-turbo\r\n"},
		{"an id of the catalog", modalityCall(t, "/v1/images/generations", `{"model":"flux.1-schnell","prompt":"a"}`), "flux.1-schnell", `{"model":"black-forest-labs/FLUX.1-schnell","prompt":"a"}`},
		{"auto", modalityCall(t, "/v1/audio/speech", `{"model":"auto","input":"Hello there.","voice":"alloy"}`), "tts-1", `{"model":"tts-1","input":"Hello there.","voice":"alloy"}`},
		{"none", modalityCall(t, "/v1/moderations", `{"input":"x"}`), "omni-moderation-latest", `"model":"omni-moderation-latest"`},
		{"none in a form", modalityCall(t, "/v1/images/variations", "", "image@", "size=256x256"), "dall-e-2", "name=\"model\"\r\n\r\ndall-e-2\r\n"},
		{"hints", modalityCall(t, "/v1/moderations", `{"bardo":{"subsystem":"risk"},"model":"omni-moderation-latest","input":"x"}`), "omni-moderation-latest", `{"model":"omni-moderation-latest","input":"x"}`},
		{"no model", modalityCall(t, "/v1/audio/speech", `{"input":"x","voice":"alloy"}`), "model is missing", ""},
		{"a model for conversations", modalityCall(t, "/v1/audio/speech", `{"model":"gpt-4o","input":"x","voice":"alloy"}`), "is none that speaks texts", ""},
		{"a model for something else", modalityCall(t, "/v1/images/generations", `{"model":"whisper-1","prompt":"x"}`), "is none that makes images", ""},
		{"an endpoint that its provider lacks", modalityCall(t, "/v1/images/edits", "", "model=flux.1-schnell", "image@", "prompt=x"), "serves /v1/images/edits: GET /v1/models shows which models have the capability image_generation", ""},
		{"no such model", modalityCall(t, "/v1/audio/speech", `{"model":"nobody/x","input":"x","voice":"alloy"}`), "does not exist", ""},
		{"nobody lists one", modalityCall(t, "/v1/rerank", `{"model":"auto","query":"x","documents":["a"]}`), "no model that ranks documents is listed", ""},
		{"a conversation with it", gateway.Call{Path: "/v1/chat/completions", Body: `{"model":"whisper-1","messages":[{"role":"user","content":"hi"}]}`}, "use /v1/audio/transcriptions", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, p := range []*fake.Server{l.openai, l.groq, l.together} {
				p.Forget()
			}
			got := l.Do(t, row.call)
			if row.sent == "" {
				if got.Status < 400 || got.Status >= 500 || !strings.Contains(got.Body, row.want) || !strings.Contains(got.Body, `"error"`) {
					t.Errorf("%d %s", got.Status, got.Body)
				}
				return
			}
			saw := l.openai.Saw(row.sent) || l.groq.Saw(row.sent) || l.together.Saw(row.sent)
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != row.want || !saw {
				t.Errorf("%d %v, sent as wanted: %v\n%.200s", got.Status, got.Header, saw, got.Body)
			}
		})
	}
}

// TestUnpricedModalities: the operator does not pay for what has no price.
func TestUnpricedModalities(t *testing.T) {
	t.Parallel()
	l := runModalityLab(t)
	for name, c := range map[string]gateway.Call{
		"a size without a price":             modalityCall(t, "/v1/images/generations", `{"model":"dall-e-3","prompt":"x","size":"1x1"}`),
		"a model without a price":            modalityCall(t, "/v1/audio/speech", `{"model":"groq/playai-tts","input":"x","voice":"v"}`),
		"another's price":                    modalityCall(t, "/v1/audio/transcriptions", "", "model=together/openai/whisper-large-v3", "file@"),
		"audio of which nobody knows length": modalityCall(t, "/v1/audio/transcriptions", "", "model=whisper-large-v3", "url=https://a.example/b.mp3"),
	} {
		got := l.Do(t, c)
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"unpriced_parameter"`) {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	if n := len(l.openai.Calls()) + len(l.groq.Calls()) + len(l.together.Calls()); n != 0 {
		t.Errorf("%d calls of providers", n)
	}
}

// TestModalitiesOnAUsersOwnKey are not priced, and may ask for anything.
func TestModalitiesOnAUsersOwnKey(t *testing.T) {
	t.Parallel()
	own := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own"})
	g := gateway.Run(t, gateway.Options{Config: free + fmt.Sprintf("providers: {direct: {keys: [{provider: openai, api_key: %s, base_url: %q}]}}\n", own.Key, own.URL)})
	poor := g.CreateKey(t, "--name", "poor", "--balance-usd", "0.000001").Key
	for _, c := range []gateway.Call{
		modalityCall(t, "/v1/images/generations", `{"model":"dall-e-3","prompt":"x","size":"1x1"}`),
		modalityCall(t, "/v1/images/generations", `{"model":"direct/openai/paint-9","prompt":"x"}`),
		modalityCall(t, "/v1/audio/speech", `{"model":"tts-1-hd","input":"Hello.","voice":"v","response_format":"opus"}`),
		modalityCall(t, "/v1/audio/transcriptions", "", "model=gpt-4o-transcribe", "file@", "stream=true"),
	} {
		c.Key = poor
		got := g.Do(t, c)
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "direct" || got.Header.Get("X-Bardo-Provider") != "direct/openai" {
			t.Errorf("%s: %d %v %s", c.Path, got.Status, got.Header, got.Body)
		}
		if b := billOf(t, g, poor, got.Header.Get("X-Request-Id")); b.Status != "ok" || b.Cost != "0.000000" || b.Provider != "direct/openai" {
			t.Errorf("the record is %+v", b)
		}
	}
	if left := balanceOf(t, g, poor); left != 1 || len(own.Calls()) != 4 {
		t.Errorf("%d are left, after %d calls", left, len(own.Calls()))
	}
	g.AssertSound(t)
}

// TestModalitiesReserveAndRelease: a key that cannot pay the most that a request may cost asks nobody, and one whose request fails pays nothing.
func TestModalitiesReserveAndRelease(t *testing.T) {
	t.Parallel()
	l := runModalityLab(t)
	image := modalityCall(t, "/v1/images/generations", `{"model":"dall-e-3","prompt":"x","n":1}`)
	image.Key = l.CreateKey(t, "--name", "poor", "--balance-usd", "0.03").Key
	if got := l.Do(t, image); got.Status != http.StatusPaymentRequired || len(l.openai.Calls()) != 0 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	image.Key = l.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	for _, row := range []struct {
		b      fake.Behaviour
		status int
		code   string
	}{
		{fake.Behaviour{Status: 400, Message: "Your request was rejected by the safety system.", ErrorCode: "moderation_blocked"}, http.StatusBadRequest, "moderation_blocked"},
		{fake.Behaviour{Status: 500}, http.StatusBadGateway, "upstream_error"},
		{fake.Behaviour{Status: 401}, http.StatusBadGateway, "upstream_error"},
		{fake.Behaviour{Status: 429, RetryAfter: "7"}, http.StatusTooManyRequests, "rate_limit_exceeded"},
		{fake.Behaviour{Break: fake.Break{Kind: fake.Reset, At: fake.AfterHeaders}}, http.StatusBadGateway, "upstream_error"},
	} {
		l.openai.BehaveOn("/images/generations", row.b)
		got := l.Do(t, image)
		if got.Status != row.status || !strings.Contains(got.Body, `"`+row.code+`"`) {
			t.Errorf("%+v: %d %s", row.b, got.Status, got.Body)
		}
		if left := balanceOf(t, l.Gateway, image.Key); left != 1_000_000 {
			t.Errorf("%+v: %d are left", row.b, left)
		}
	}
	l.openai.BehaveOn("/images/generations", fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: application/json"}, Body: `{"error":{"message":"The image could not be made.","type":"server_error","code":500}}`}})
	if got := l.Do(t, image); got.Status != http.StatusBadGateway || balanceOf(t, l.Gateway, image.Key) != 1_000_000 {
		t.Errorf("an error under 200: %d %s", got.Status, got.Body)
	}
	l.openai.BehaveOn("/images/generations", fake.Behaviour{Raw: &fake.Raw{
		Status: 200, Header: []string{"content-type: text/event-stream"}, Body: "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n",
	}})
	events := modalityCall(t, "/v1/images/generations", `{"model":"gpt-image-1","prompt":"x","quality":"low","stream":true}`)
	events.Key = image.Key
	if got := l.Do(t, events); !strings.Contains(got.Body, `"type":"error"`) || balanceOf(t, l.Gateway, image.Key) != 1_000_000 {
		t.Errorf("an error among events: %d %s", got.Status, got.Body)
	}
	l.openai.Stop()
	if got := l.Do(t, image); got.Status != http.StatusBadGateway || !strings.Contains(got.Body, "could not be reached") {
		t.Errorf("a provider that is not there: %d %s", got.Status, got.Body)
	}
	l.AssertSound(t)
}

// TestModalitiesFailOver to another provider of the same model, and methods and bodies that no endpoint takes are refused in OpenAI's format.
func TestModalitiesFailOver(t *testing.T) {
	t.Parallel()
	a, b := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "a"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "b"})
	own := []gateway.Model{{ID: "painter", Price: "{per_image: 0.01}", More: "capabilities: [image_generation]"}}
	g := gateway.Run(t, gateway.Options{Config: "limits: {max_body_bytes: 100000}\n", Providers: []gateway.Provider{{ID: "a", Fake: a, Models: own}, {ID: "b", Fake: b, Models: own}}})
	a.BehaveOn("/images/generations", fake.Behaviour{Status: 503})
	got := g.Do(t, modalityCall(t, "/v1/images/generations", `{"model":"painter","prompt":"x"}`))
	if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "b" || got.Header.Get("X-Bardo-Attempts") != "2" || got.Header.Get("X-Bardo-Cost") != "0.012000" {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
	for _, row := range []struct {
		call   gateway.Call
		status int
		code   string
	}{
		{gateway.Call{Method: http.MethodGet, Path: "/v1/images/generations"}, http.StatusMethodNotAllowed, "method_not_allowed"},
		{gateway.Call{Method: http.MethodPost, Path: "/v1/moderations"}, http.StatusBadRequest, "invalid_request"},
		{modalityCall(t, "/v1/images/generations", `{"model":"painter"`), http.StatusBadRequest, "invalid_request"},
		{modalityCall(t, "/v1/images/generations", `{"model":"painter","prompt":"x","n":100000}`), http.StatusBadRequest, "invalid_request"},
		{modalityCall(t, "/v1/audio/transcriptions", `{"model":"painter"}`), http.StatusBadRequest, "invalid_request"},
		{modalityCall(t, "/v1/audio/transcriptions", "", "model=painter"), http.StatusBadRequest, "invalid_request"},
		{modalityCall(t, "/v1/audio/transcriptions", "", "model=painter", "file@9"), http.StatusRequestEntityTooLarge, "request_too_large"},
		{modalityCall(t, "/v1/audio/nothing", `{}`), http.StatusNotFound, "not_found"},
		{gateway.Call{Path: "/v1/moderations", Body: `{"input":"x"}`, Header: []string{"content-type: text/plain"}}, http.StatusUnsupportedMediaType, "unsupported_media_type"},
		{gateway.Call{Path: "/v1/moderations", Body: `{"input":"x"}`, Key: "wrong"}, http.StatusUnauthorized, "invalid_api_key"},
	} {
		got := g.Do(t, row.call)
		if got.Status != row.status || !strings.Contains(got.Body, `"`+row.code+`"`) {
			t.Errorf("%s %.60q: %d %s", row.call.Path, row.call.Body, got.Status, got.Body)
		}
	}
	g.AssertSound(t)
}

// TestAModalityIsPaidForWhenItsClientDisconnects: the provider bills what it makes.
func TestAModalityIsPaidForWhenItsClientDisconnects(t *testing.T) {
	t.Parallel()
	l := runModalityLab(t)
	l.openai.BehaveOn("/images/generations", fake.Behaviour{HeaderDelay: 700 * time.Millisecond})
	c := modalityCall(t, "/v1/images/generations", `{"model":"dall-e-3","prompt":"x"}`)
	c.Key = l.CreateKey(t, "--name", "k", "--balance-usd", "10").Key
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		eventually(t, "the call", func() bool { return len(l.openai.Calls()) == 1 })
	}()
	if res, err := l.Open(ctx, c); err == nil {
		_ = res.Body.Close()
		t.Fatal("the client got an answer")
	}
	if paid := paidAtLast(t, l.Gateway, c.Key); paid != 40_000 {
		t.Errorf("paid %d", paid)
	}
	l.AssertSound(t)
}
