package wire

import (
	"bytes"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// What a request reserves for its input is a bound, not an estimate: no tokenizer in use makes more than a token of two bytes of text. What
// is not text has stated amounts (docs/operations.md). A request that goes beyond a model's window is refused by its provider, so that the
// window bounds it too; that is up to whoever knows the model.
const (
	bytesOfTextPerToken  = 2
	bytesOfAudioPerToken = 24 // of 8 kbit/s, at 40 tokens per second

	mostImageLow   = 3_000   // detail: low
	mostImage      = 8_000   // any other detail
	leastDocument  = 10_000  // with its data: a token for two bytes of these, and at least this
	mostReference  = 50_000  // a document by its address or id
	leastAudio     = 500     // with its data
	mostAudioByRef = 100_000 // by its address or id
	mostVideo      = 300_000 // by its data, address or id
)

// most counts the bytes that are text, and the tokens of what is not.
type most struct {
	text  int64
	media int64
}

// mediaKeys are the members that a part needs to say where its media is, in any of the dialects.
var mediaKeys = jsonx.KeysOf("image_url", "image", "source", "input_audio", "audio", "audio_url", "video_url", "video", "input_video",
	"file", "file_url", "file_data", "file_id", "inlineData", "inline_data", "fileData")

// mayHaveMedia is false for most requests, which are text: their messages are not walked.
func mayHaveMedia(doc *jsonx.Doc) bool {
	return doc.Stats.Keys.Meets(&mediaKeys) || doc.MayHold(`"item_reference"`)
}

// MostInputTokens bounds the input tokens of a request at any provider.
func MostInputTokens(doc *jsonx.Doc) int64 {
	m := most{text: int64(len(doc.Bytes))}
	if mayHaveMedia(doc) {
		m.conversation(doc)
	}
	return (m.text+bytesOfTextPerToken-1)/bytesOfTextPerToken + m.media + tokensPerRequest
}

// MostPredictedTokens bounds what a request expects of its answer: whatever of it the model does not write is billed as output besides.
func MostPredictedTokens(r *chat.Request) int64 {
	n := int64(len(r.Doc.Get("prediction").Raw))
	if r.Profile != nil {
		n = policy.AddTokens(n, int64(len(r.Profile.Default.Predicted)))
	}
	return (n + bytesOfTextPerToken - 1) / bytesOfTextPerToken
}

// Compacts reports whether a request has its conversation summed up by the provider first, by a call of the model beside the answer's.
func Compacts(doc *jsonx.Doc) bool {
	v := doc.Get("context_management")
	if v.Kind() == jsonx.Object { // Anthropic's
		v = v.Get("edits")
	}
	for _, e := range v.Each {
		if kind, _ := e.Get("type").Str(); strings.HasPrefix(kind, "compact") {
			return true
		}
	}
	return false
}

// conversation walks what may hold messages.
func (m *most) conversation(doc *jsonx.Doc) {
	for i := range doc.Members {
		switch at := &doc.Members[i]; at.Key {
		case "messages", "input", "contents", "system", "systemInstruction", "system_instruction":
			m.value(jsonx.Value{Raw: jsonx.Raw(doc.Bytes[at.Start:at.End])}, 0)
		}
	}
}

// deepestPart is how deep the parts of a message may lie: a message's content, a tool's result in it, and what that holds.
const deepestPart = 8

// value looks for media where messages have them, and nowhere else: what stands in the arguments of a tool or in a schema is text, whatever
// it looks like. What is found takes its data off the text, and adds its amount.
func (m *most) value(v jsonx.Value, depth int) {
	if depth > deepestPart {
		return
	}
	switch v.Kind() { //nolint:exhaustive // nothing else holds values
	case jsonx.Array:
		for _, e := range v.Each {
			m.value(e, depth+1)
		}
	case jsonx.Object:
		m.object(v, depth)
	}
}

// object looks at a message or a part of one. Its members are read once: most objects are text.
func (m *most) object(v jsonx.Value, depth int) {
	var below [5]jsonx.Value // as many as there are names
	n, isPart := 0, false
	for key, e := range v.Members {
		switch string(key) {
		case "content", "parts", "output", "functionResponse", "function_response":
			if n < len(below) && e.Kind() != jsonx.String {
				below[n] = e
				n++
			}
		case "type":
			isPart = isPart || !e.Equal("text") && !e.Equal("tool_use") && !e.Equal("tool_result") && !e.Equal("message")
		case "inlineData", "inline_data", "fileData", "file_data", "image_url", "input_audio", "audio_url", "video_url":
			isPart = true
		}
	}
	if isPart && m.part(v, depth) {
		return
	}
	for _, e := range below[:n] {
		m.value(e, depth+1)
	}
}

// part adds a part of a message that is not text, in any of the dialects; ok is false for anything else.
func (m *most) part(v jsonx.Value, depth int) (ok bool) {
	kind, typed := v.Get("type").Str()
	if !typed {
		kind = untyped(v)
	}
	switch kind {
	case "image_url", "input_image", "image", "computer_screenshot":
		m.image(v)
	case "input_audio", "audio", "audio_url":
		m.sized(v, bytesOfAudioPerToken, leastAudio, mostAudioByRef)
	case "video_url", "input_video", "video":
		m.sized(v, 1, mostVideo, mostVideo)
	case "file", "input_file", "document", "container_upload", "item_reference":
		m.sized(v, bytesOfTextPerToken, leastDocument, mostReference)
		m.value(v.Get("source").Get("content"), depth+1) // a document of Anthropic's may be made of parts
	default:
		return m.geminiPart(v)
	}
	return true
}

// untyped is what a part without a type is: some servers of OpenAI's format tell its type by the member that it has.
func untyped(v jsonx.Value) string {
	for _, name := range [...]string{"image_url", "input_audio", "audio_url", "video_url"} {
		if v.Get(name).Exists() {
			return name
		}
	}
	return ""
}

// image adds an image by the detail that is asked for.
func (m *most) image(v jsonx.Value) {
	amount := int64(mostImage)
	for _, at := range [...]jsonx.Value{v, v.Get("image_url")} {
		if at.Kind() == jsonx.Object && at.Get("detail").Equal("low") {
			amount = mostImageLow
		}
	}
	m.media += amount
	m.text -= dataBytes(v)
}

// sized adds what has its data here by the length of that, and at least an amount; what is only named by another one. A document whose
// source is text is text.
func (m *most) sized(v jsonx.Value, perToken, least, byReference int64) {
	n := dataBytes(v)
	if kind, _ := v.Get("source").Get("type").Str(); kind == "text" || kind == "content" {
		return
	}
	if n == 0 {
		m.media += byReference
		return
	}
	m.media += max(n/perToken, least)
	m.text -= n
}

// geminiPart adds inlineData or fileData of a part, by its media type.
func (m *most) geminiPart(v jsonx.Value) bool {
	found := false
	for _, name := range [...]string{"inlineData", "inline_data", "fileData", "file_data"} {
		blob := v.Get(name)
		if blob.Kind() != jsonx.Object {
			continue
		}
		found = true
		media, ok := blob.Get("mimeType").Str()
		if !ok {
			media, _ = blob.Get("mime_type").Str()
		}
		kind, _, _ := bytes.Cut([]byte(media), []byte("/"))
		switch string(kind) {
		case "image":
			m.image(v)
		case "audio":
			m.sized(v, bytesOfAudioPerToken, leastAudio, mostAudioByRef)
		case "application", "text":
			m.sized(v, bytesOfTextPerToken, leastDocument, mostReference)
		default:
			m.sized(v, 1, mostVideo, mostVideo)
		}
	}
	return found
}

// dataBytes is how long the encoded data in a part is: where the dialects have it, and nowhere else, so that no text passes for data.
func dataBytes(v jsonx.Value) (n int64) {
	add := func(at jsonx.Value, isURL bool) {
		raw := at.Raw
		if at.Kind() == jsonx.String && (!isURL || bytes.HasPrefix(raw, []byte(`"data:`))) {
			n += int64(len(raw))
		}
	}
	for _, key := range [...]string{"image_url", "video_url", "file_url", "audio_url"} {
		if at := v.Get(key); at.Kind() == jsonx.Object {
			add(at.Get("url"), true)
		} else {
			add(at, true)
		}
	}
	add(v.Get("file_data"), false)
	add(v.Get("input_audio").Get("data"), false)
	add(v.Get("file").Get("file_data"), false)
	if s := v.Get("source"); s.Get("type").Equal("base64") {
		add(s.Get("data"), false)
	}
	for _, name := range [...]string{"inlineData", "inline_data"} {
		add(v.Get(name).Get("data"), false)
	}
	return n
}
