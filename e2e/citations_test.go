package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// citing is how a format says that "it is sunny.", behind "Café: ", is from a page: whole, and streamed.
type citing struct {
	format       fake.Dialect
	more         string // of its model
	whole        string
	streamed     []string
	own          string // the provider's bytes of it
	cites, shown string // what a client of the format reads: whole, and of a stream
}

const citedPage = "https://example.com/weather"

var citings = map[shaper]citing{
	"openai": {
		format: fake.OpenAI,
		whole: `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Café: it is sunny.",` +
			`"annotations":[{"type":"url_citation","url_citation":{"start_index":6, "end_index":18,"title":"Weather","url":"` + citedPage + `"}}]},"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}`,
		streamed: []string{
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Café: it is sunny."},"finish_reason":null}]}`,
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"annotations":[{"type":"url_citation","url_citation":{"start_index":6, "end_index":18,"title":"Weather","url":"` + citedPage + `"}}]},"finish_reason":null}]}`,
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}`,
			`data: [DONE]`,
		},
		own:   `{"start_index":6, "end_index":18,"title":"Weather","url":"` + citedPage + `"}`,
		cites: `"annotations":[{"type":"url_citation","url_citation":{"start_index":6,"end_index":18,"url":"` + citedPage + `","title":"Weather"}}]`,
	},
	"anthropic": {
		format: fake.Anthropic,
		whole: `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Café: "},{"type":"text","text":"it is sunny.","citations":[` + claudeCites("RW8=", "Sun.") + `]}],` +
			`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":5}}`,
		streamed: []string{
			"event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`,
			"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Café: "}}`,
			"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}`,
			"event: content_block_start\n" + `data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":[]}}`,
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":` + claudeCites("RW8=", "Sun.") + `}}`,
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"it is sunny."}}`,
			"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":1}`,
			"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}`,
			"event: message_stop\n" + `data: {"type":"message_stop"}`,
		},
		own:   claudeCites("RW8=", "Sun."),
		cites: `"citations":[` + claudeCites("", "") + `]`,
		shown: `{"type":"citations_delta","citation":` + claudeCites("", "") + `}`,
	},
	"responses": {
		format: fake.OpenAI, more: "responses_only: true",
		whole: `{"id":"resp_1","object":"response","created_at":1,"status":"completed","error":null,"incomplete_details":null,"model":"m","output":[` + citedItem + `],"usage":{"input_tokens":9,"output_tokens":5,"total_tokens":14}}`,
		streamed: []string{
			"event: response.created\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}}`,
			"event: response.output_item.added\n" + `data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}`,
			"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Café: it is sunny."}`,
			"event: response.output_text.annotation.added\n" + `data: {"type":"response.output_text.annotation.added","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"annotation_index":0,"annotation":` + citedNote + `}`,
			"event: response.output_item.done\n" + `data: {"type":"response.output_item.done","sequence_number":4,"output_index":0,"item":` + citedItem + `}`,
			"event: response.completed\n" + `data: {"type":"response.completed","sequence_number":5,"response":{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[` + citedItem + `],"usage":{"input_tokens":9,"output_tokens":5,"total_tokens":14}}}`,
		},
		own:   citedNote,
		cites: `"annotations":[` + citedNote + `]`,
		shown: `"annotation":` + citedNote,
	},
	"gemini": {
		format: fake.Gemini,
		whole:  `{"candidates":[{"content":{"parts":[{"text":"Café: it is sunny."}],"role":"model"},"finishReason":"STOP",` + citedGrounds + `,"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5,"totalTokenCount":14},"modelVersion":"m","responseId":"r"}`,
		streamed: []string{
			`data: {"candidates":[{"content":{"parts":[{"text":"Café: it is sunny."}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"r"}`,
			`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP",` + citedGrounds + `,"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5,"totalTokenCount":14},"modelVersion":"m","responseId":"r"}`,
		},
		own:   citedGrounds,
		cites: citedGrounds,
	},
}

const (
	citedNote    = `{"type":"url_citation","start_index":6,"end_index":18,"url":"` + citedPage + `","title":"Weather"}`
	citedItem    = `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[` + citedNote + `],"logprobs":[],"text":"Café: it is sunny."}]}`
	citedGrounds = `"groundingMetadata":{"groundingChunks":[{"web":{"uri":"` + citedPage + `","title":"Weather"}}],"groundingSupports":[{"segment":{"startIndex":7,"endIndex":19,"text":"it is sunny."},"groundingChunkIndices":[0]}]}`
)

// claudeCites is a citation of Anthropic's format.
func claudeCites(index, quote string) string {
	return fmt.Sprintf(`{"type":"web_search_result_location","cited_text":%q,"url":%q,"title":"Weather","encrypted_index":%q}`, quote, citedPage, index)
}

// reads is what a client reads of another format's citation.
func (c *citing) reads(from shaper, stream bool) string {
	want := c.cites
	if stream && c.shown != "" {
		want = c.shown
	}
	if from == "anthropic" && c.more != "" { // its blocks are parts there, which count each for itself
		want = strings.Replace(want, `"start_index":6,"end_index":18`, `"start_index":0,"end_index":12`, 1)
	}
	return want
}

// TestCitationsCross: the page that an answer cites reaches a client of every format in the client's own way, with the same words of the
// answer: counted in characters, in bytes or by blocks. A client of the provider's format gets its bytes.
func TestCitationsCross(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: quick}
	fakes := map[shaper]*fake.Server{}
	for name, c := range citings {
		p := gateway.Provider{ID: "at-" + string(name), Fake: fake.Start(t, fake.Config{Dialect: c.format}), Format: string(c.format)}
		p.Models = []gateway.Model{{ID: "m-" + string(name), More: c.more}}
		if c.more != "" {
			p.More = "responses: true"
		}
		fakes[name] = p.Fake
		o.Providers = append(o.Providers, p)
	}
	g := gateway.Run(t, o)
	for from, c := range citings {
		for client, reader := range citings {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s, stream=%v", from, client, stream), func(t *testing.T) {
					raw := fake.Raw{Status: http.StatusOK, Header: []string{"content-type: application/json"}, Body: c.whole}
					if stream {
						raw.Header, raw.Body = []string{"content-type: text/event-stream"}, strings.Join(c.streamed, "\n\n")+"\n\n"
					}
					fakes[from].Queue(fake.Behaviour{Raw: &raw})
					got := g.Do(t, client.call("m-"+string(from), stream, t.Name(), ""))
					if said := client.text(t, got, stream); said != "Café: it is sunny." {
						t.Errorf("the client reads %q", said)
					}
					if from == client {
						if !strings.Contains(got.Body, c.own) {
							t.Errorf("the provider's bytes are not in %s", got.Body)
						}
						return
					}
					if want := reader.reads(from, stream); !strings.Contains(got.Body, want) {
						t.Errorf("%s is not in %s", want, got.Body)
					}
					if lost := got.Header.Get("X-Bardo-Degraded"); strings.Contains(lost, "citations") || strings.Contains(lost, "annotations") || strings.Contains(lost, "grounding") {
						t.Errorf("degraded: %s", lost)
					}
				})
			}
		}
	}
}
