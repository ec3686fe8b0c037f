package wire

import (
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

func maxInput(t *testing.T, body string) int64 {
	t.Helper()
	doc, err := jsonx.Scan([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return MaxInputTokens(&doc)
}

// TestTextOfAnyKindReservesATokenForTwoBytes: words, one long word, numbers, tool schemas, arguments that look like media.
func TestTextOfAnyKindReservesATokenForTwoBytes(t *testing.T) {
	long := strings.Repeat("a", 50_000)
	for name, body := range map[string]string{
		"a long word":               `{"messages":[{"role":"user","content":"` + long + `"}]}`,
		"numbers":                   `{"messages":[{"role":"user","content":"x"}],"tools":[{"enum":[` + strings.Repeat("7,", 25_000) + `7]}]}`,
		"a tool's schema":           `{"messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"file","file_data":"` + long + `"}}}]}`,
		"arguments of a tool":       `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"type":"image","source":{"type":"base64","data":"` + long + `"}}}]}]}`,
		"arguments at Gemini":       `{"contents":[{"parts":[{"functionCall":{"name":"f","args":{"inlineData":{"mimeType":"image/png","data":"` + long + `"}}}}]}]}`,
		"a URL that is no data":     `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://` + long + `"}}]}]}`,
		"a document of text":        `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"` + long + `"}}]}]}`,
		"media where nobody looks":  `{"messages":[],"metadata":{"type":"image","source":{"type":"base64","data":"` + long + `"}}}`,
		"data of another kind":      `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","data":"` + long + `"}}]}]}`,
		"media too deep":            `{"messages":` + strings.Repeat(`[`, maxPartDepth+1) + `{"type":"image","source":{"type":"base64","data":"` + long + `"}}` + strings.Repeat(`]`, maxPartDepth+1) + `}`,
		"data with an escaped name": `{"messages":[{"role":"user","content":[{"type":"te\u0078t","text":"data:image/png;base64,` + long + `"}]}]}`,
	} {
		if got := maxInput(t, body); got < int64(len(body))/2 {
			t.Errorf("%s: %d tokens for %d bytes", name, got, len(body))
		}
	}
}

func TestMediaReserveStatedAmounts(t *testing.T) {
	data := strings.Repeat("QUJD", 25_000) // 100,000 bytes
	for _, row := range []struct {
		name, body   string
		lower, upper int64
	}{
		{"an image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}}]}]}`, maxImage, maxImage + 100},
		{"an image, roughly", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"detail":"low","url":"data:image/png;base64,` + data + `"}}]}]}`, maxImageLow, maxImageLow + 100},
		{"an image's address", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a/b"}}]}]}`, maxImage, maxImage + 100},
		{"Claude's image", `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}]}]}`, maxImage, maxImage + 100},
		{"an image in a tool's result", `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"` + data + `"}}]}]}]}`, maxImage, maxImage + 100},
		{"Gemini's image", `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + data + `"}}]}]}`, maxImage, maxImage + 100},
		{"sound", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"wav","data":"` + data + `"}}]}]}`, 4166, 4300},
		{"a document", `{"input":[{"role":"user","content":[{"type":"input_file","file_data":"` + data + `"}]}]}`, 50_000, 50_200},
		{"a text", `{"a":"b"}`, 5 + tokensPerRequest, 5 + tokensPerRequest},
		{"a short document", `{"input":[{"role":"user","content":[{"type":"input_file","file_data":"QUJD"}]}]}`, minDocument, minDocument + 100},
		{"a short sound", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"wav","data":"QUJD"}}]}]}`, minAudio, minAudio + 100},
		{"an item's id", `{"input":[{"type":"item_reference","id":"x"}]}`, maxReference, maxReference + 100},
		{"a document's id", `{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}`, maxReference, maxReference + 100},
		{"an image in a document", `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://a"}}]}}]}]}`, maxImage, maxImage + 100},
		{"a document in a function's response", `{"contents":[{"parts":[{"functionResponse":{"name":"f","response":{},"parts":[{"fileData":{"mimeType":"application/pdf","fileUri":"https://a"}}]}}]}]}`, maxReference, maxReference + 100},
		{"a screenshot", `{"input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"https://a"}}]}`, maxImage, maxImage + 100},
		{"an image without a type", `{"messages":[{"role":"user","content":[{"image_url":"https://a"}]}]}`, maxImage, maxImage + 100},
		{"an image by an escaped name", `{"messages":[{"role":"user","content":[{"type":"image\u005furl","image\u005furl":{"url":"https://a"}}]}]}`, maxImage, maxImage + 100},
		{"a film's address", `{"contents":[{"parts":[{"fileData":{"mimeType":"video/mp4","fileUri":"https://a"}}]}]}`, maxVideo, maxVideo + 100},
	} {
		if got := maxInput(t, row.body); got < row.lower || got > row.upper {
			t.Errorf("%s: %d tokens, want %d to %d", row.name, got, row.lower, row.upper)
		}
	}
}

// FuzzMaxInputTokens: the bound is never negative and never above that of the whole body as text plus its parts, and there are no panics.
func FuzzMaxInputTokens(f *testing.F) {
	f.Add(`{"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"QUJD"}}]}]}`)
	f.Add(`{"contents":[{"parts":[{"inlineData":{"mimeType":"video","data":"x"},"fileData":{}}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		doc, err := jsonx.Scan([]byte(body))
		if err != nil {
			return
		}
		if n := MaxInputTokens(&doc); n < tokensPerRequest || n > int64(len(body)+1)*maxVideo {
			t.Errorf("%d tokens for %q", n, body)
		}
	})
}

// FuzzNoDataIsWithoutItsMember: a request that is not walked has no data that the walk would count as media.
func FuzzNoDataIsWithoutItsMember(f *testing.F) {
	f.Add(`{"messages":[{"content":[{"type":"image_url","im\u0061ge_url":{"url":"data:image/png;base64,QUJD"}}]}]}`)
	f.Add(`{"input":[{"type":"item_reference","id":"x"},{"type":"input_file","file_data":"QUJD"}]}`)
	f.Add(`{"contents":[{"parts":[{"inlineData":{"mimeType":"video","data":"x"},"fileData":{}}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		doc, err := jsonx.Scan([]byte(body))
		if err != nil || mayHaveMedia(&doc) {
			return
		}
		m := inputBound{text: int64(len(body))}
		if m.conversation(&doc); m.text != int64(len(body)) {
			t.Errorf("%q has data", body)
		}
	})
}

func TestCompactionIsDetected(t *testing.T) {
	for body, want := range map[string]bool{
		`{"context_management":{"edits":[{"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"}]}}`: true,
		`{"context_management":[{"type":"compaction","compact_threshold":1000}]}`:                            true,
		`{"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}}`:                             false,
		`{"context_management":{"edits":{"type":"compact_20260112"}}}`:                                       false,
		`{"context_management":null}`:                                   false,
		`{"messages":[{"context_management":[{"type":"compaction"}]}]}`: false,
	} {
		doc, err := jsonx.Scan([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := Compacts(&doc); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}
