package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// What a client asks about (D-86) reaches a model that takes it, or the client is told which part none takes.

// asksAbout is a request of a client that asks about some content, and where the client has it, and under which name.
type asksAbout struct {
	about string
	call  gateway.Call
	part  string
}

func openAIAbout(model, part string, stream bool) gateway.Call {
	return gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(
		`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":[{"type":"text","text":"What is this?"},%s]}]}`, model, stream, part)}
}

func anthropicAbout(model, part string) gateway.Call {
	return gateway.Call{Path: "/v1/messages", Header: []string{"anthropic-version: 2023-06-01"}, Body: fmt.Sprintf(
		`{"model":%q,"max_tokens":100,"messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},%s]}]}`, model, part)}
}

func responsesAbout(model, part string) gateway.Call {
	return gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(
		`{"model":%q,"input":[{"role":"user","content":[{"type":"input_text","text":"What is this?"},%s]}]}`, model, part)}
}

func geminiAbout(part string) gateway.Call {
	return gateway.Call{Path: geminiPath("m", false), Body: fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":"What is this?"},%s]}]}`, part)}
}

const (
	soundWAV = `{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}`
	soundMP3 = `{"type":"input_audio","input_audio":{"data":"SUQz","format":"mp3"}}`
)

// servesAlike is a gateway whose model m is at three providers, of which each has a format of its own, in this order.
func servesAlike(t *testing.T, formats ...string) (*gateway.Gateway, map[string]*fake.Server) {
	t.Helper()
	fakes := map[string]*fake.Server{}
	var providers []gateway.Provider
	for _, format := range formats {
		fakes[format] = fake.Start(t, fake.Config{Dialect: fake.Dialect(format), Name: format})
		providers = append(providers, gateway.Provider{ID: "my-" + format, Fake: fakes[format], Format: format, Models: []gateway.Model{{ID: "m"}}})
	}
	return gateway.Run(t, gateway.Options{Config: quick, Providers: providers}), fakes
}

func TestD86ContentGoesToAModelThatTakesIt(t *testing.T) {
	t.Parallel()
	g, fakes := servesAlike(t, "anthropic", "openai", "gemini")
	const pdf = `{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}`
	for _, row := range []struct {
		about    string
		call     gateway.Call
		provider string
		wants    string // part of what reaches it
	}{
		{"sound of an OpenAI client goes to OpenAI as it came", openAIAbout("m", soundWAV, false), "openai", soundWAV},
		{"and in a stream", openAIAbout("m", soundMP3, true), "openai", soundMP3},
		{"sound of a Gemini client goes as it came", geminiAbout(`{"inlineData":{"mimeType":"audio/flac","data":"ZkxhQw=="}}`), "gemini", `{"inlineData":{"mimeType":"audio/flac","data":"ZkxhQw=="}}`},
		{"a sound that OpenAI has a name for may go there", geminiAbout(`{"inlineData":{"mimeType":"audio/mpeg","data":"SUQz"}}`), "openai", `{"type":"input_audio","input_audio":{"data":"SUQz","format":"mp3"}}`},
		{"sound of a Responses client", responsesAbout("m", soundWAV), "openai", soundWAV},
		{"a video", geminiAbout(`{"inlineData":{"mimeType":"video/mp4","data":"AAAA"}}`), "gemini", `"video/mp4"`},
		{"a document at an address", anthropicAbout("m", pdf), "anthropic", pdf},
		{"a document at an address, of another format", responsesAbout("m", `{"type":"input_file","file_url":"https://example.com/a.pdf"}`), "anthropic", `"url":"https://example.com/a.pdf"`},
		{"words", geminiAbout(`{"text":"a word"}`), "anthropic", `"a word"`},
	} {
		t.Run(row.about, func(t *testing.T) {
			for _, f := range fakes {
				f.Reset()
			}
			got := g.Do(t, row.call)
			if p := got.Header.Get("X-Bardo-Provider"); got.Status != http.StatusOK || p != "my-"+row.provider {
				t.Fatalf("%d from %q: %s", got.Status, p, got.Body)
			}
			for name, f := range fakes {
				last, asked := f.Last()
				if asked != (name == row.provider) || asked && !strings.Contains(string(last.Body), row.wants) {
					t.Errorf("%s was asked (%v) %s, want %s", name, asked, last.Body, row.wants)
				}
			}
		})
	}
}

func TestD86ContentThatNobodyTakesIsRefusedByName(t *testing.T) {
	t.Parallel()
	g, fakes := servesAlike(t, "anthropic")
	silent := fakes["anthropic"]
	for _, row := range []struct {
		dialect fake.Dialect
		asksAbout
		taken string
	}{
		{fake.OpenAI, asksAbout{"sound", openAIAbout("m", soundWAV, false), "messages[2].content[1]: input_audio"}, "audio"},
		{fake.OpenAI, asksAbout{"sound, in a stream", openAIAbout("m", soundWAV, true), "messages[2].content[1]: input_audio"}, "audio"},
		{fake.OpenAI, asksAbout{"a file by id", openAIAbout("m", `{"type":"file","file":{"file_id":"file-1"}}`, false), "messages[2].content[1]: file_id"}, "files that another provider holds"},
		{fake.OpenAI, asksAbout{"what nobody knows", openAIAbout("m", `{"type":"input_hologram","x":1}`, false), "messages[2].content[1]: input_hologram"}, "content of this type"},
		{fake.OpenAI, asksAbout{"an image of a type", openAIAbout("m", `{"type":"image_url","image_url":{"url":"data:image/heic;base64,AAAA"}}`, false), "messages[2].content[1]: image_url"}, "image/heic"},
		{fake.Gemini, asksAbout{"sound", geminiAbout(`{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}}`), "contents[0].parts[1]: inlineData"}, "audio"},
		{fake.Gemini, asksAbout{"a video", geminiAbout(`{"fileData":{"fileUri":"https://www.youtube.com/watch?v=x"}}`), "contents[0].parts[1]: fileData"}, "video"},
		{fake.Gemini, asksAbout{"a file at Google", geminiAbout(`{"fileData":{"mimeType":"image/png","fileUri":"https://generativelanguage.googleapis.com/v1beta/files/x"}}`), "contents[0].parts[1]: fileData"}, "files that another provider holds"},
		{fake.OpenAI, asksAbout{"sound of a Responses client", responsesAbout("m", soundWAV), "input[0].content[1]: input_audio"}, "audio"},
	} {
		t.Run(fmt.Sprintf("%s %s", row.dialect, row.about), func(t *testing.T) {
			silent.Reset()
			got := g.Do(t, row.call)
			mustFail(t, ask{dialect: row.dialect}, got, http.StatusBadRequest, "invalid_request")
			if want := row.part + ": no available model takes " + row.taken; !strings.Contains(got.Body, want) {
				t.Errorf("got %s, want %s", got.Body, want)
			}
			if n := len(silent.Generations()); n > 0 {
				t.Errorf("the provider was asked %d times", n)
			}
		})
	}
}

// TestD86ThinkingInPartsIsNoContent: what a model of Mistral's thought stands in parts of its answers, which the client gives back. To
// a provider of another format it is thinking, and what is said there is the rest. So is what GLM's models are told of the history.
func TestD86ThinkingInPartsIsNoContent(t *testing.T) {
	t.Parallel()
	const thought = `{"type":"thinking","thinking":[{"type":"text","text":"carry the one"}],"closed":true}`
	history := `"messages":[{"role":"user","content":"7+8?"},{"role":"assistant","content":[` + thought +
		`,{"type":"text","text":"15"}]},{"role":"user","content":"and 8+9?"}]`
	g, fakes := servesAlike(t, "anthropic", "gemini")
	for _, format := range []string{"anthropic", "gemini"} {
		for _, body := range []string{history, history + `,"thinking":{"clear_thinking":true}`} {
			got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: `{"model":"my-` + format + `/m",` + body + `}`})
			sent := fakes[format].Generations()
			if got.Status != http.StatusOK || len(sent) == 0 {
				t.Fatalf("%s: %d %s", format, got.Status, got.Body)
			}
			last := string(sent[len(sent)-1].Body)
			if !strings.Contains(last, "15") || !strings.Contains(last, "8+9") {
				t.Errorf("%s was sent %s", format, last)
			}
			if lost := got.Header.Get("X-Bardo-Degraded"); strings.Contains(body, "clear") && !strings.Contains(lost, "clear_thinking") {
				t.Errorf("%s: lost are %q", format, lost)
			}
		}
	}
}

// capable is a gateway with models of which the operator says what they take, and one of which nobody says anything.
func capable(t *testing.T) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	f := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	model := func(id, capabilities string) gateway.Model {
		return gateway.Model{ID: id, More: "capabilities: [" + capabilities + "]"}
	}
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: f, Models: []gateway.Model{
		model("blind", "tools"), model("sees", "vision"), model("hears", "vision, audio, video"), {ID: "unknown"},
	}}}}), f
}

func TestD86AModelThatIsKnownNotToTakeContentIsNotAsked(t *testing.T) {
	t.Parallel()
	g, f := capable(t)
	const (
		image = `{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`
		pdf   = `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}`
		video = `{"type":"video_url","video_url":{"url":"https://example.com/a.mp4"}}`
		text  = `{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}`
	)
	for _, row := range []struct{ model, part, refusal string }{
		{"blind", image, "messages[2].content[1]: image_url: no available model takes images"},
		{"blind", pdf, "messages[2].content[1]: file: no available model takes documents"},
		{"blind", soundWAV, "messages[2].content[1]: input_audio: no available model takes audio"},
		{"blind", video, "messages[2].content[1]: video_url: no available model takes video"},
		{"sees", soundWAV, "messages[2].content[1]: input_audio: no available model takes audio"},
		{"blind", text, ""},
		{"sees", image, ""},
		{"sees", pdf, ""},
		{"hears", soundWAV, ""},
		{"unknown", soundWAV, ""},
		{"unknown", image, ""},
	} {
		f.Reset()
		call := openAIAbout(row.model, row.part, false)
		got := g.Do(t, call)
		last, asked := f.Last()
		switch {
		case row.refusal == "":
			if got.Status != http.StatusOK || string(last.Body) != call.Body {
				t.Errorf("%s %s: %d %s\nwas asked %s", row.model, row.part, got.Status, got.Body, last.Body)
			}
		case got.Status != http.StatusBadRequest || !strings.Contains(got.Body, row.refusal) || asked:
			t.Errorf("%s %s: %d %s, asked: %v", row.model, row.part, got.Status, got.Body, asked)
		}
	}
}

func TestD86AnExplanationSaysWhichContentIsNotTaken(t *testing.T) {
	t.Parallel()
	g, _ := servesAlike(t, "anthropic", "gemini")
	r := explained(t, g, openAIAbout("m", soundWAV, false))
	if r.providers() != "my-gemini" || len(r.Refused) != 1 || r.Refused[0].Provider != "my-anthropic" ||
		r.Refused[0].Reason != "messages[2].content[1]: input_audio: its format takes no audio" {
		t.Errorf("got %+v", r)
	}
	known, _ := capable(t)
	r = explained(t, known, openAIAbout("blind", soundWAV, false))
	if r.Error != "invalid_request: messages[2].content[1]: input_audio: no available model takes audio" ||
		len(r.Refused) != 1 || r.Refused[0].Reason != "the request holds audio, and it takes none" {
		t.Errorf("got %+v", r)
	}
}

// TestK12ImagesOfResultsStandBesideTheirCalls: what each tool showed is told under the name of its call, where a result holds text alone.
func TestK12ImagesOfResultsStandBesideTheirCalls(t *testing.T) {
	t.Parallel()
	g, fakes := servesAlike(t, "openai")
	body := `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"look"},{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"toolu_a","name":"shot","input":{}},{"type":"tool_use","id":"toolu_b","name":"shot","input":{}}]},{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"toolu_a","content":[{"type":"text","text":"left"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}]},` +
		`{"type":"tool_result","tool_use_id":"toolu_b","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"Qg=="}}]}]}],` +
		`"tools":[{"name":"shot","input_schema":{"type":"object"}}]}`
	if got := g.Messages(t, body); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	last, _ := fakes["openai"].Last()
	want := `{"role":"tool","tool_call_id":"toolu_a","content":"left"},{"role":"tool","tool_call_id":"toolu_b","content":""},{"role":"user","content":[` +
		`{"type":"text","text":"Returned by the tool call toolu_a:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}},` +
		`{"type":"text","text":"Returned by the tool call toolu_b:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,Qg=="}}]}]`
	if !strings.Contains(string(last.Body), want) {
		t.Errorf("got %s\nwant %s", last.Body, want)
	}
}
