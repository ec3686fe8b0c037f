package realtime

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// clientForm is the form of clients' events: no member that the gateway or a provider reads occurs twice, in any case. Names in parameters of tools,
// their arguments, and metadata are chosen by users.
var clientForm = jsonx.NewForm(
	"type", "event_id", "session", "response", "item", "audio", "model", "prompt", "tools", "tracing", "include", "input", "output", "transcription",
	"input_audio_transcription", "turn_detection", "max_output_tokens", "max_response_output_tokens", "conversation", "content", "role", "id", "text",
	"instructions", "modalities", "output_modalities", "truncation", "tool_choice", "image_url", "call_id", "name", "server_url", "connector_id",
).Add(nil, "parameters", "metadata", "variables")

// clientEvents are the events that clients may send, those of OpenAI's reference. Others are refused: what they would cost is unknown.
var clientEvents = []string{
	appendAudio, updateSession, createResponse, createItem, "input_audio_buffer.commit", "input_audio_buffer.clear",
	"conversation.item.retrieve", "conversation.item.truncate", "conversation.item.delete", "response.cancel", "output_audio_buffer.clear",
}

const (
	appendAudio    = "input_audio_buffer.append"
	updateSession  = "session.update"
	createResponse = "response.create"
	createItem     = "conversation.item.create"
)

// activeResponse is the code of the error of a provider that begins no response, because another one is in progress.
const activeResponse = "conversation_already_has_active_response"

// clientEvent is an event from a client.
type clientEvent struct {
	kind   string
	id     string // as set by the client; "" for none
	added  tokens // what it adds to the conversation at most
	audio  int64  // bytes of speech that it adds
	copies int64  // items of the conversation that the response reads besides
	output int64  // the limit of a response's output that it sets; 0 for none
	texts  []byte // its texts, see textsOf; nil for none
}

// tokens are an upper bound and an estimate of tokens. The bound counts each byte of text as a token.
type tokens struct{ most, text, audio int64 }

func (t *tokens) add(n tokens) {
	t.most, t.text, t.audio = t.most+n.most, t.text+n.text, t.audio+n.audio
}

func (t *tokens) sub(n tokens) {
	t.most, t.text, t.audio = t.most-n.most, t.text-n.text, t.audio-n.audio
}

// Audio is at most one token for 100 ms of input, and for 50 ms of output.
const (
	inputTokenTime  = 100  // ms
	outputTokenTime = 50   // ms
	leastAudioBytes = 800  // of an input token, in the format with the fewest
	bytesPerToken   = 4    // of text
	slackPerEvent   = 16   // tokens around the content of an event
	mostImage       = 2000 // tokens of an image, whose bytes say little of its size
	usualImage      = 800
)

// speech is a format of speech, by its bytes in a millisecond; the zero value is the default.
type speech int64

// The formats.
const (
	pcm16 speech = 48 // 24 kHz
	g711  speech = 8
)

// bytes returns the bytes of a number of milliseconds.
func (f speech) bytes(ms int64) int64 { return int64(cmp.Or(f, pcm16)) * ms }

// speechOf returns the first of these names of formats that is known: "audio/pcmu", or, formerly, "g711_ulaw".
func speechOf(names ...jsonx.Value) speech {
	for _, n := range names {
		switch name, _ := n.Str(); {
		case name == "audio/pcmu" || name == "audio/pcma" || strings.HasPrefix(name, "g711_"):
			return g711
		case name == "audio/pcm" || name == "pcm16":
			return pcm16
		}
	}
	return 0
}

// decoded returns the bytes of a number of base64 characters.
func decoded(n int64) int64 { return n / 4 * 3 }

// parseClient parses a client's event for a session with a model, by its provider's name. The error is a fault, for an event that may not be sent; the
// event has what is known of it then.
func parseClient(b []byte, model string) (e clientEvent, err error) {
	doc, err := clientForm.Scan(b)
	if err != nil {
		return e, fault.Newf(fault.InvalidRequest, "the event cannot be read: %s", err)
	}
	e.kind, _ = doc.Get("type").Str()
	e.id, _ = doc.Get("event_id").Str()
	if !slices.Contains(clientEvents, e.kind) {
		return e, refuse("type", "events of type %q are not supported", fault.Clip(e.kind))
	}
	n := int64(len(b))
	if audio := int64(len(doc.Get("audio").Raw)); e.kind == appendAudio {
		size := decoded(audio)
		e.added, e.audio = tokens{most: size/leastAudioBytes + slackPerEvent}, size
		return e, nil
	}
	e.added = tokens{most: n, text: n / bytesPerToken}
	e.texts = textsOf(&doc)
	switch e.kind {
	case createItem:
		e.addItem(doc.Get("item"))
	case updateSession:
		e.output = outputOf(doc.Get("session"))
		return e, checkSession(doc.Get("session"), "session", model)
	case createResponse:
		r := doc.Get("response")
		for _, item := range r.Get("input").Each {
			e.addItem(item)
		}
		e.output = outputOf(r)
		return e, checkSession(r, "response", model)
	}
	return e, nil
}

// textsOf returns the strings of an event as a request for embeddings has them, {"input":["…"]}, without speech and pictures; nil if there are none.
func textsOf(doc *jsonx.Doc) []byte {
	const begin = `{"input":[`
	texts := []byte(begin)
	for i := range doc.Members {
		if m := &doc.Members[i]; m.Key != "type" && m.Key != "event_id" {
			texts = doc.Get(m.Key).AppendStrings(texts, isSpeech)
		}
	}
	if len(texts) == len(begin) {
		return nil
	}
	texts[len(texts)-1] = ']'
	return append(texts, '}')
}

// isSpeech reports whether a member of a part of an item is base64: speech, or a picture.
func isSpeech(key []byte, v jsonx.Value) bool {
	return string(key) == "audio" && v.Kind() == jsonx.String || string(key) == "image_url" && isPicture(v)
}

// isPicture reports whether an image is in the event itself, and not at an address.
func isPicture(v jsonx.Value) bool { return bytes.HasPrefix(v.Raw, []byte(`"data:`)) }

// addItem adds what an item of a conversation has besides its texts. Bytes of speech and pictures are no text.
func (e *clientEvent) addItem(item jsonx.Value) {
	if item.Get("type").Equal("item_reference") {
		e.copies++
	}
	for _, part := range item.Get("content").Each {
		if audio := part.Get("audio"); audio.Kind() == jsonx.String {
			n := int64(len(audio.Raw))
			e.added.text -= n / bytesPerToken
			e.audio += decoded(n)
		}
		if part.Get("type").Equal("input_image") {
			e.added.most += mostImage
			e.added.text += usualImage
		}
		if image := part.Get("image_url"); isPicture(image) {
			e.added.text -= int64(len(image.Raw)) / bytesPerToken
		}
	}
}

// outputOf returns the limit of a response's output in settings of a session or a response: Unlimited for "inf", and for anything that is no positive number; 0
// for none. The member has an older name, too.
func outputOf(v jsonx.Value) (most int64) {
	for _, name := range [...]string{"max_output_tokens", "max_response_output_tokens"} {
		limit := v.Get(name)
		if limit.IsNull() {
			continue
		}
		n, ok := limit.Int()
		if !ok || n <= 0 {
			n = Unlimited
		}
		most = max(most, n)
	}
	return most
}

// refuse returns the fault of a member of an event that the gateway does not send on.
func refuse(param, format string, args ...any) error {
	f := fault.Newf(fault.InvalidRequest, format, args...)
	f.Param = param
	return f
}

// checkSession refuses the settings of a session or a response that would cause calls that are not charged, or reach what the caller may not reach.
func checkSession(v jsonx.Value, at, model string) error {
	if v.IsNull() {
		return nil
	}
	if v.Kind() != jsonx.Object {
		return refuse(at, "%s must be an object", at)
	}
	if kind := v.Get("type"); !kind.IsNull() && !kind.Equal("realtime") {
		return refuse(at+".type", "sessions of this type are not supported: the type is realtime")
	}
	if m := v.Get("model"); !m.IsNull() && !m.Equal(model) {
		return refuse(at+".model", "the model of a session cannot be changed: open another with the model in its address")
	}
	for _, path := range [...][]string{{"prompt"}, {"tracing"}, {"input_audio_transcription"}, {"audio", "input", "transcription"}} {
		member := v
		for _, name := range path {
			member = member.Get(name)
		}
		if !member.IsNull() {
			name := strings.Join(append([]string{at}, path...), ".")
			return refuse(name, "%s is not supported by this gateway", name)
		}
	}
	for _, tool := range v.Get("tools").Each {
		if kind := tool.Get("type"); !kind.Equal("function") {
			return refuse(at+".tools", "tools of realtime sessions are functions: the provider would call others by itself")
		}
	}
	return nil
}

// Usage is the usage of a response, in tokens. The cached ones are part of the others, and AudioOutput is part of Output.
type Usage struct {
	Text, Audio, Image, Output           int64
	CachedText, CachedAudio, CachedImage int64
	AudioOutput                          int64
	Estimated                            bool // by the gateway: the provider reported none
}

// serverEvent is an event from a provider, as far as the gateway reads it.
type serverEvent struct {
	kind     string
	response string // id of the response
	failed   bool   // status of a response that is done
	outside  bool   // the response is not part of the session's conversation
	usage    *Usage // of a response that is done; nil if none is reported
	text     int64  // bytes of text in a delta
	speech   int64  // bytes of audio in a delta
	output   int64  // the limit of the output of a response that began; 0 if it is not reported
	code     string // of an error
	settings settings
}

// parseServer parses a provider's event. What cannot be parsed is an event without a type.
func parseServer(b []byte) (e serverEvent) {
	v, err := jsonx.Parse(b)
	if err != nil || v.Kind() != jsonx.Object {
		return e
	}
	e.kind, _ = v.Get("type").Str()
	switch {
	case e.kind == "session.created" || e.kind == sessionUpdated:
		e.settings = settingsOf(v.Get("session"))
	case e.kind == "error":
		e.code, _ = v.Get("error").Get("code").Str()
	case e.kind == "response.created" || e.kind == "response.done":
		r := v.Get("response")
		e.output = outputOf(r)
		e.response, _ = r.Get("id").Str()
		e.failed = r.Get("status").Equal("failed")
		conversation := r.Get("conversation_id")
		e.outside = conversation.Exists() && conversation.IsNull()
		if u := r.Get("usage"); e.kind == "response.done" && u.Kind() == jsonx.Object {
			e.usage = usageOf(u)
		}
	case strings.HasPrefix(e.kind, "response.") && strings.HasSuffix(e.kind, ".delta"):
		e.response, _ = v.Get("response_id").Str()
		if n := int64(len(v.Get("delta").Raw)); strings.HasSuffix(e.kind, "audio.delta") {
			e.speech = decoded(n)
		} else {
			e.text = n
		}
	}
	return e
}

const sessionUpdated = "session.updated"

// settingsOf reads the settings of a session, which providers report in two forms. What is not reported counts as what costs most.
func settingsOf(v jsonx.Value) settings {
	s := settings{output: orSession(outputOf(v), Unlimited)}
	in, out := v.Get("audio").Get("input"), v.Get("audio").Get("output")
	s.hears = speechOf(in.Get("format").Get("type"), v.Get("input_audio_format"))
	s.speaks = speechOf(out.Get("format").Get("type"), v.Get("output_audio_format"))
	older, detection := v.Get("turn_detection"), in.Get("turn_detection")
	s.listens = !older.Exists() && !detection.Exists() || begins(older) || begins(detection)
	return s
}

// begins reports whether the detection of turns may begin responses.
func begins(detection jsonx.Value) bool {
	if detection.IsNull() {
		return false
	}
	creates, ok := detection.Get("create_response").Bool()
	return creates || !ok || !detection.Get("idle_timeout_ms").IsNull()
}

// usageOf reads the usage of a response. Tokens without details are text.
func usageOf(u jsonx.Value) *Usage {
	in, out := u.Get("input_token_details"), u.Get("output_token_details")
	cached := in.Get("cached_tokens_details")
	n := &Usage{
		Audio: count(in.Get("audio_tokens")), Image: count(in.Get("image_tokens")), Output: count(u.Get("output_tokens")), AudioOutput: count(out.Get("audio_tokens")),
		CachedAudio: count(cached.Get("audio_tokens")), CachedImage: count(cached.Get("image_tokens")),
	}
	n.Text = max(count(u.Get("input_tokens"))-n.Audio-n.Image, count(in.Get("text_tokens")))
	n.Output = max(n.Output, n.AudioOutput+count(out.Get("text_tokens")))
	n.CachedAudio, n.CachedImage = min(n.CachedAudio, n.Audio), min(n.CachedImage, n.Image)
	n.CachedText = min(max(count(in.Get("cached_tokens"))-n.CachedAudio-n.CachedImage, 0), n.Text)
	return n
}

// maxCount bounds a reported number of tokens, so that sums do not overflow.
const maxCount = 1 << 40

func count(v jsonx.Value) int64 {
	n, _ := v.Int()
	return min(max(n, 0), maxCount)
}
