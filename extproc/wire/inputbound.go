package wire

import (
	"bytes"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// The reservation for a request's input is an upper bound, not an estimate: no tokenizer in use produces more than one token per two bytes
// of text. Media have fixed amounts (docs/operations.md). The provider refuses a request beyond the model's context window, so the window
// is a bound as well, which the caller applies.
const (
	bytesOfTextPerToken  = 2
	bytesOfAudioPerToken = 24 // at 8 kbit/s and 40 tokens per second

	maxImageLow   = 3_000   // detail: low
	maxImage      = 8_000   // any other detail
	minDocument   = 10_000  // minimum with data; more by its length, at two bytes a token
	maxReference  = 50_000  // a document by URL or id
	minAudio      = 500     // minimum with data
	maxAudioByRef = 100_000 // audio by URL or id
	maxVideo      = 300_000 // by data, URL or id
)

// inputBound counts the bytes that are text, and the tokens of media.
type inputBound struct {
	text  int64
	media int64
}

// mediaKeys are the members that hold or locate media in any dialect.
var mediaKeys = jsonx.WordsOf("image_url", "image", "source", "input_audio", "audio", "audio_url", "video_url", "video", "input_video",
	"file", "file_url", "file_data", "file_id", "inlineData", "inline_data", "fileData")

// mediaTypes are the types of parts that refer to media without such a member.
var mediaTypes = jsonx.WordsOf("item_reference")

// mayHaveMedia is a quick check: it is false for most requests, which are text, and whose messages are then not walked.
func mayHaveMedia(doc *jsonx.Doc) bool {
	return doc.Stats.Keys.Meets(&mediaKeys) || doc.MayHoldValue(&mediaTypes)
}

// MaxInputTokens returns an upper bound of a request's input tokens at any provider.
func MaxInputTokens(doc *jsonx.Doc) int64 {
	m := inputBound{text: int64(len(doc.Bytes))}
	if mayHaveMedia(doc) {
		m.conversation(doc)
	}
	return (m.text+bytesOfTextPerToken-1)/bytesOfTextPerToken + m.media + tokensPerRequest
}

// MaxPredictedTokens returns an upper bound of the tokens of a request's predicted output: those that the model does not use are billed as
// output.
func MaxPredictedTokens(r *chat.Request) int64 {
	n := int64(len(r.Doc.Get("prediction").Raw))
	if r.Profile != nil {
		n = policy.AddTokens(n, int64(len(r.Profile.Default.Predicted)))
	}
	return (n + bytesOfTextPerToken - 1) / bytesOfTextPerToken
}

// Compacts reports whether a request requires the provider to summarise the conversation first, which is a separate call of the model.
func Compacts(doc *jsonx.Doc) bool {
	v := doc.Get("context_management")
	if v.Kind() == jsonx.Object { // Anthropic
		v = v.Get("edits")
	}
	for _, e := range v.Each {
		if kind, _ := e.Get("type").Str(); strings.HasPrefix(kind, "compact") {
			return true
		}
	}
	return false
}

// conversation walks the members that may hold messages.
func (m *inputBound) conversation(doc *jsonx.Doc) {
	for i := range doc.Members {
		switch at := &doc.Members[i]; at.Key {
		case "messages", "input", "contents", "system", "systemInstruction", "system_instruction":
			m.value(doc.Value(i), 0)
		}
	}
}

// maxPartDepth is the maximum nesting of parts: a message's content, a tool's result in it, and its content.
const maxPartDepth = 8

// value counts media only where messages have them: tool arguments and schemas count as text whatever they contain. The data of media is
// subtracted from the text, and its amount added.
func (m *inputBound) value(v jsonx.Value, depth int) {
	if depth > maxPartDepth {
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

// object reads a message or a part. Its members are read once, because most objects are text.
func (m *inputBound) object(v jsonx.Value, depth int) {
	var below [5]jsonx.Value // one for each name below
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

// part counts a part that is not text, in any dialect; ok is false for anything else.
func (m *inputBound) part(v jsonx.Value, depth int) (ok bool) {
	kind, typed := v.Get("type").Str()
	if !typed {
		kind = untyped(v)
	}
	switch kind {
	case "image_url", "input_image", "image", "computer_screenshot":
		m.image(v)
	case "input_audio", "audio", "audio_url":
		m.sized(v, bytesOfAudioPerToken, minAudio, maxAudioByRef)
	case "video_url", "input_video", "video":
		m.sized(v, 1, maxVideo, maxVideo)
	case "file", "input_file", "document", "container_upload", "item_reference":
		m.sized(v, bytesOfTextPerToken, minDocument, maxReference)
		m.value(v.Get("source").Get("content"), depth+1) // a document of Anthropic's may consist of parts
	default:
		return m.geminiPart(v)
	}
	return true
}

// untyped returns the type of a part without that member: some servers of OpenAI's format infer it from the other members.
func untyped(v jsonx.Value) string {
	for _, name := range [...]string{"image_url", "input_audio", "audio_url", "video_url"} {
		if v.Get(name).Exists() {
			return name
		}
	}
	return ""
}

// image counts an image by the requested detail.
func (m *inputBound) image(v jsonx.Value) {
	amount := int64(maxImage)
	for _, at := range [...]jsonx.Value{v, v.Get("image_url")} {
		if at.Kind() == jsonx.Object && at.Get("detail").Equal("low") {
			amount = maxImageLow
		}
	}
	m.media += amount
	m.text -= dataBytes(v)
}

// sized counts media with data by the data's length, with a minimum, and media by reference with a fixed amount. A document whose source is
// text counts as text.
func (m *inputBound) sized(v jsonx.Value, perToken, least, byReference int64) {
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

// geminiPart counts inlineData or fileData by its media type.
func (m *inputBound) geminiPart(v jsonx.Value) bool {
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
			m.sized(v, bytesOfAudioPerToken, minAudio, maxAudioByRef)
		case "application", "text":
			m.sized(v, bytesOfTextPerToken, minDocument, maxReference)
		default:
			m.sized(v, 1, maxVideo, maxVideo)
		}
	}
	return found
}

// dataBytes returns the length of the encoded data of a part, in the members that hold data in each dialect, and no others, so that text
// does not count as data.
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
