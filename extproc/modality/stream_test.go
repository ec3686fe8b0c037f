package modality

import (
	"testing"

	"bardo.money/gateway/policy"
)

// streamed returns the usage of a stream in pieces of the given size.
func streamed(r *Request, contentType, body string, cut int) (Used, bool) {
	to := &policy.Resolution{Prices: policy.Prices{Input: 1, Output: 2, Known: true, Units: &policy.UnitPrices{PerHour: 3_600_000_000}}}
	w := r.watch(to, contentType)
	w.take([]byte(body[:cut]))
	w.take([]byte(body[cut:]))
	return w.end(), w.failed
}

// TestWhereAStreamIsCutChangesNothing of what it used.
func TestWhereAStreamIsCutChangesNothing(t *testing.T) {
	images, speech := &Request{Op: Find("/v1/images/generations"), images: 2, text: 40}, &Request{Op: Find("/v1/audio/speech"), characters: 100}
	const image = `data: {"type":"image_generation.completed","b64_json":"x","usage":{"input_tokens":50,"input_tokens_details":{"text_tokens":20,"image_tokens":30},"output_tokens":272}}` + "\n\n"
	for _, row := range []struct {
		name, contentType, body string
		r                       *Request
		want                    Used
		failed                  bool
	}{
		{"two images", "text/event-stream", "event: x\ndata: {\"type\":\"image_generation.partial_image\"}\n\n" + image + image, images, Used{Text: 40, Image: 60, Output: 544, Images: 2, Reported: true}, false},
		{"no image", "text/event-stream", "data: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n", images, Used{Reported: true, Timed: true}, true},
		{"a stream that says nothing", "text/event-stream", "", images, Used{Reported: true, Timed: true}, false},
		{"speech as events", "text/event-stream; charset=utf-8", "data: {\"type\":\"speech.audio.delta\",\"audio\":\"x\"}\n\ndata: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":14,\"output_tokens\":101}}", speech, Used{Text: 14, Output: 101, Characters: 100, Milliseconds: 20_000, Reported: true}, false},
		{"PCM", "audio/pcm", string(make([]byte, 4800)), speech, Used{Characters: 100, Milliseconds: 100, Timed: true}, false},
		{"MP3 of 128 kbit/s behind a tag", "audio/mpeg", "ID3\x04\x00\x00\x00\x00\x00\x02ab\xff\xfb\x90\x00" + string(make([]byte, 15_984)), speech, Used{Characters: 100, Milliseconds: 1000, Timed: true}, false},
		{"another format", "audio/opus", "OggS" + string(make([]byte, 100)), speech, Used{Characters: 100, Milliseconds: 20_000, Estimated: true}, false},
	} {
		for cut := range min(len(row.body), 400) + 1 {
			if got, failed := streamed(row.r, row.contentType, row.body, cut); got != row.want || failed != row.failed {
				t.Fatalf("%s, cut at %d: %v\n%+v\nwant\n%+v", row.name, cut, failed, got, row.want)
			}
		}
	}
}
