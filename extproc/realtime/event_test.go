package realtime

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bardo.money/gateway/internal/fault"
)

func TestEventsThatCauseUnknownCostsAreNotSentOn(t *testing.T) {
	for _, row := range []struct{ name, event, param string }{
		{"no JSON", `{`, ""},
		{"an array", `[]`, ""},
		{"no type", `{}`, "type"},
		{"an unknown type", `{"type":"transcription_session.update"}`, "type"},
		{"two types", `{"type":"input_audio_buffer.append","type":"response.create"}`, ""},
		{"a type in another case", `{"type":"input_audio_buffer.clear","Type":"response.create"}`, ""},
		{"two sessions", `{"type":"session.update","session":{},"session":{"prompt":{}}}`, ""},
		{"no session", `{"type":"session.update","session":[]}`, "session"},
		{"another kind of session", `{"type":"session.update","session":{"type":"transcription"}}`, "session.type"},
		{"another model", `{"type":"session.update","session":{"type":"realtime","model":"gpt-other"}}`, "session.model"},
		{"a model with two spellings", `{"type":"session.update","session":{"model":"m","Model":"gpt-other"}}`, ""},
		{"transcription", `{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"whisper-1"}}}}}`, "session.audio.input.transcription"},
		{"transcription, in the older form", `{"type":"session.update","session":{"input_audio_transcription":{}}}`, "session.input_audio_transcription"},
		{"a stored prompt", `{"type":"response.create","response":{"prompt":{"id":"p"}}}`, "response.prompt"},
		{"a tool of a server", `{"type":"response.create","response":{"tools":[{"type":"function"},{"type":"mcp","server_url":"https://x"}]}}`, "response.tools"},
	} {
		_, err := parseClient([]byte(row.event), "m")
		f := fault.From(err)
		if err == nil || f.Kind != fault.InvalidRequest || f.Param != row.param {
			t.Errorf("%s: %v, param %q", row.name, err, f.Param)
		}
	}
	for _, event := range []string{
		`{"type":"session.update","session":{"type":"realtime","model":"m","tools":[{"type":"function","parameters":{"Type":1,"type":2}}],"prompt":null}}`,
		`{"type":"response.create"}`, `{"type":"response.create","response":null}`, `{"type":"response.cancel","response_id":"r"}`,
	} {
		if _, err := parseClient([]byte(event), "m"); err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}
}

func TestTheBoundOfAnEventCoversItsTokens(t *testing.T) {
	second := base64.StdEncoding.EncodeToString(make([]byte, 8000)) // of G.711: 10 tokens
	for event, least := range map[string]int64{
		fmt.Sprintf(`{"type":"input_audio_buffer.append","audio":%q}`, second):                     10,
		`{"type":"conversation.item.create","item":{"content":[{"text":"日本語"}]}}`:                  3,
		`{"type":"session.update","session":{"instructions":"` + strings.Repeat("a ", 500) + `"}}`: 1000,
	} {
		if e, err := parseClient([]byte(event), "m"); err != nil || e.added.most < least || e.added.text+e.added.audio > e.added.most {
			t.Errorf("%.60s: %+v, %v", event, e.added, err)
		}
	}
}

// TestSpeechAndPicturesOfItemsAreNotCountedAsText in estimates: their base64 has a thousand times more characters than they have tokens.
func TestSpeechAndPicturesOfItemsAreNotCountedAsText(t *testing.T) {
	second := base64.StdEncoding.EncodeToString(make([]byte, 48000))
	for _, row := range []struct {
		event       string
		text, audio int64
	}{
		{`{"type":"conversation.item.create","item":{"content":[{"type":"input_audio","audio":"` + second + `"}]}}`, 30, 48000},
		{`{"type":"response.create","response":{"input":[{"content":[{"audio":"` + second + `"},{"audio":"` + second + `"}]}]}}`, 40, 96000},
		{`{"type":"conversation.item.create","item":{"content":[{"type":"input_image","image_url":"data:image/png;base64,` + second + `"}]}}`, 830, 0},
		{`{"type":"conversation.item.create","item":{"content":[{"type":"input_text","text":"` + second + `"}]}}`, 16040, 0},
	} {
		e, err := parseClient([]byte(row.event), "m")
		if err != nil || e.added.text < row.text-30 || e.added.text > row.text || e.audio < row.audio-3 || e.audio > row.audio+3 || e.added.most < e.added.text {
			t.Errorf("%.70s: %+v, %d bytes of speech, %v", row.event, e.added, e.audio, err)
		}
	}
}

// TestFormatsOfSpeech that sessions report, in both forms.
func TestFormatsOfSpeech(t *testing.T) {
	for session, want := range map[string][2]int64{ // bytes of a token that is heard, and that is spoken
		`{}`: {4800, 2400},
		`{"audio":{"input":{"format":{"type":"audio/pcm","rate":24000}},"output":{"format":{"type":"audio/pcmu"}}}}`: {4800, 400},
		`{"audio":{"input":{"format":{"type":"audio/pcma"}},"output":{"format":{"type":"new"}}}}`:                    {800, 2400},
		`{"input_audio_format":"g711_ulaw","output_audio_format":"pcm16"}`:                                           {800, 2400},
		`{"input_audio_format":"pcm16","output_audio_format":"g711_alaw"}`:                                           {4800, 400},
	} {
		s := parseServer([]byte(`{"type":"session.updated","session":` + session + `}`)).settings
		if got := [2]int64{s.hears.bytes(inputTokenTime), s.speaks.bytes(outputTokenTime)}; got != want {
			t.Errorf("%s: %v", session, got)
		}
	}
}

func TestUsage(t *testing.T) {
	for event, want := range map[string]Usage{
		`{"usage":{"input_tokens":100,"output_tokens":30,"input_token_details":{"text_tokens":60,"audio_tokens":30,"image_tokens":10,"cached_tokens":48,
			"cached_tokens_details":{"text_tokens":40,"audio_tokens":8,"image_tokens":0}},"output_token_details":{"text_tokens":10,"audio_tokens":20}}}`: {
			Text: 60, Audio: 30, Image: 10, Output: 30, CachedText: 40, CachedAudio: 8, AudioOutput: 20,
		},
		`{"usage":{"input_tokens":7,"output_tokens":2}}`:                                                                    {Text: 7, Output: 2},
		`{"usage":{"input_tokens":-7,"output_tokens":1e30,"input_token_details":{"cached_tokens":9}}}`:                      {},
		`{"usage":{"input_tokens":5,"input_token_details":{"cached_tokens":9,"cached_tokens_details":{"audio_tokens":3}}}}`: {Text: 5, CachedText: 5},
	} {
		e := parseServer([]byte(`{"type":"response.done","response":` + event[:len(event)-1] + `,"id":"r","status":"completed"}}`))
		if e.usage == nil || *e.usage != want || e.response != "r" {
			t.Errorf("%s: %+v", event, e.usage)
		}
	}
}

func TestModelOf(t *testing.T) {
	if m, err := ModelOf("model=gpt%2Drealtime"); m != "gpt-realtime" || err != nil {
		t.Error(m, err)
	}
	for _, query := range []string{"", "model=", "model=a&model=b", "model=a&call_id=c", "%zz", "intent=transcription"} {
		if _, err := ModelOf(query); fault.From(err).Kind != fault.InvalidRequest {
			t.Errorf("%q: %v", query, err)
		}
	}
}

func TestKeysOfBrowsers(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/realtime?model=m", nil)
	r.Header.Set("Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.k1")
	if hd := Head(r); hd.Header.Get("authorization") != "Bearer k1" || hd.Header.Has("sec-websocket-protocol") || hd.Path != "/v1/realtime" || hd.Query != "model=m" {
		t.Errorf("%+v", hd)
	}
	r.Header.Set("Authorization", "Bearer k2")
	if hd := Head(r); hd.Header.Get("authorization") != "Bearer k2" {
		t.Errorf("%+v", hd)
	}
}

// FuzzEvents: no event of either side is fatal, and what is read of it is within bounds.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"session.update","session":{"tools":[{"type":"function"}],"audio":{"input":{"transcription":null}}}}`))
	f.Add([]byte(`{"type":"response.done","response":{"id":"r","usage":{"input_tokens":5,"output_token_details":{"audio_tokens":9}}}}`))
	f.Add([]byte(`{"type":"response.output_audio.delta","response_id":"r","delta":"AAAA"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseClient(b, "m")
		if err == nil && (min(e.added.most, e.added.text, e.audio) < 0 || e.added.most > int64(len(b))+slackPerEvent+int64(bytes.Count(b, []byte("input_image")))*mostImage || e.added.text+e.added.audio > e.added.most) {
			t.Errorf("%+v", e)
		}
		s := parseServer(b)
		if s.text < 0 || s.speech < 0 || s.text+s.speech > int64(len(b)) {
			t.Errorf("%+v", s)
		}
		if u := s.usage; u != nil && (min(u.Text, u.Audio, u.Image, u.Output, u.CachedText, u.CachedAudio, u.CachedImage, u.AudioOutput) < 0 ||
			u.CachedText > u.Text || u.CachedAudio > u.Audio || u.CachedImage > u.Image || u.AudioOutput > u.Output) {
			t.Errorf("%+v", u)
		}
	})
}

func TestTheTextsOfAnEvent(t *testing.T) {
	for _, row := range []struct{ name, event, want string }{
		{
			"an item", `{"type":"conversation.item.create","event_id":"e1","previous_item_id":"p","item":{"type":"message","content":[{"type":"input_text","text":"caf\u00e9"}]}}`,
			`{"input":["p","message","input_text","caf\u00e9"]}`,
		},
		{
			"speech and pictures", `{"type":"conversation.item.create","item":{"content":[{"type":"input_audio","audio":"UklG","transcript":"said"},{"image_url":"data:image/png;base64,iVBO"},{"image_url":"https://x/a.png"}]}}`,
			`{"input":["input_audio","said","https://x/a.png"]}`,
		},
		{
			"audio settings", `{"type":"session.update","session":{"instructions":"Be kind.","audio":{"output":{"voice":"marin"}},"tools":[{"type":"function","parameters":{"a":{"description":"d"}}}],"n":1}}`,
			`{"input":["Be kind.","marin","function","d"]}`,
		},
		{"a response", `{"type":"response.create","response":{"instructions":"x","input":[{"type":"function_call_output","output":"{\"k\":1}"}]}}`, `{"input":["x","function_call_output","{\"k\":1}"]}`},
		{"a buffer", `{"type":"input_audio_buffer.append","audio":"AAAA"}`, ""},
		{"none", `{"type":"response.create","response":{"max_output_tokens":5}}`, ""},
	} {
		e, err := parseClient([]byte(row.event), "m")
		if err != nil || string(e.texts) != row.want {
			t.Errorf("%s: %s, %v, want %s", row.name, e.texts, err, row.want)
		}
	}
}
