package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestPicturesOfAnAnswerReachChatClients: streamed or not, and the client may send them back.
func TestPicturesOfAnAnswerReachChatClients(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.Gemini})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "google", Fake: s}}})
	const answer = `{"candidates":[{"content":{"parts":[{"text":"Here."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}],"role":"model"},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":7,"totalTokenCount":37},"modelVersion":"m","responseId":"r1"}`
	const images = `"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]`
	for _, stream := range []bool{false, true} {
		raw := fake.Raw{Status: http.StatusOK, Header: []string{"content-type: application/json"}, Body: answer}
		if stream {
			raw.Header, raw.Body = []string{"content-type: text/event-stream"}, "data: "+answer+"\n\n"
		}
		s.Queue(fake.Behaviour{Raw: &raw})
		got := g.Do(t, ask{dialect: fake.OpenAI, model: "gemini-3-flash", stream: stream}.call())
		if got.Status != http.StatusOK || !strings.Contains(got.Body, images) || strings.Contains(got.Header.Get("X-Bardo-Degraded"), "inlineData") {
			t.Errorf("stream=%v: %d %s", stream, got.Status, got.Body)
		}
	}
	got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(
		`{"model":"gemini-3-flash","messages":[{"role":"user","content":"Draw."},{"role":"assistant","content":"Here.",%s},{"role":"user","content":"Smaller."}]}`, images)})
	if r := lastOf(t, s); got.Status != http.StatusOK || !strings.Contains(string(r.Body), `"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}`) {
		t.Errorf("sent back: %d %s; it was asked %s", got.Status, got.Body, r.Body)
	}
	g.AssertSound(t)
}

// TestPicturesOfAnAnswerReachResponsesClients as items of OpenAI's image generation, which a client may send back to any provider.
func TestPicturesOfAnAnswerReachResponsesClients(t *testing.T) {
	t.Parallel()
	google, openai, anthropic := fake.Start(t, fake.Config{Dialect: fake.Gemini}), fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "google", Fake: google}, {ID: "openai", Fake: openai}, {ID: "anthropic", Fake: anthropic}}})
	const answer = `{"candidates":[{"content":{"parts":[{"text":"Here."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}],"role":"model"},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":7,"totalTokenCount":37},"modelVersion":"m","responseId":"r1"}`
	item := regexp.MustCompile(`\{"id":"ig_bardo_[^"]*","type":"image_generation_call","output_format":"png","result":"iVBORw0KGgo=","status":"completed"\}`)
	found := ""
	for _, stream := range []bool{false, true} {
		raw := fake.Raw{Status: http.StatusOK, Header: []string{"content-type: application/json"}, Body: answer}
		if stream {
			raw.Header, raw.Body = []string{"content-type: text/event-stream"}, "data: "+answer+"\n\n"
		}
		google.Queue(fake.Behaviour{Raw: &raw})
		got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":"gemini-3-flash","stream":%v,"input":"Draw."}`, stream)})
		if found = item.FindString(got.Body); got.Status != http.StatusOK || found == "" || slices.Contains(lost(got), "inlineData") {
			t.Fatalf("stream=%v: %d %s, degraded %v", stream, got.Status, got.Body, lost(got))
		}
	}
	for model, to := range map[string]*fake.Server{"gemini-3-flash": google, "gpt-5.2": openai, "claude-opus-4-8": anthropic} {
		got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":%q,"input":[{"role":"user","content":"Draw."},%s,{"role":"user","content":"Smaller."}]}`, model, found)})
		if got.Status != http.StatusOK {
			t.Errorf("sent back to %s: %d %s", model, got.Status, got.Body)
			continue
		}
		kept := strings.Contains(string(lastOf(t, to).Body), "iVBORw0KGgo=")
		if kept != (to == google) || kept == slices.Contains(lost(got), "image_generation_call") {
			t.Errorf("sent back to %s: the image is there: %v; degraded %v", model, kept, lost(got))
		}
	}
	g.AssertSound(t)
}
