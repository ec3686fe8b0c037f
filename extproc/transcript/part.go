package transcript

import (
	"cmp"
	"strings"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// reader reads the texts of one turn.
type reader struct {
	t               *Transcript
	at              *Turn
	turn            int
	call            string // id of the call whose arguments or result are read
	providerDefined bool   // that call is of a tool that the provider defines
}

// text adds a text.
func (r *reader) text(kind Kind, v jsonx.Value) {
	r.t.Texts = append(r.t.Texts, Text{Kind: kind, Turn: r.turn, Value: v, Call: r.call, ProviderDefined: r.providerDefined})
}

// value reads content: a string, an array of parts, or a part.
func (r *reader) value(kind Kind, v jsonx.Value) {
	switch v.Kind() { //nolint:exhaustive // nothing else holds text
	case jsonx.String:
		r.text(kind, v)
	case jsonx.Array:
		for _, e := range v.Each {
			r.value(kind, e)
		}
	case jsonx.Object:
		r.part(kind, v)
	}
}

// plainTypes are the types of messages and parts that hold only texts, calls and results.
var plainTypes = map[string]bool{
	"": true, "message": true, "text": true, "input_text": true, "output_text": true, "summary_text": true, "reasoning_text": true, "refusal": true,
	"thinking": true, "reasoning": true, "tool_use": true, "tool_result": true, "function": true, "custom": true, "function_call": true,
	"function_call_output": true, "custom_tool_call": true, "custom_tool_call_output": true, "search_result": true, "document": true,
}

// object is the members of an object that is being read, a range of Transcript.members.
type object struct {
	t        *Transcript
	from, to int
}

// member is one member of an object.
type member struct {
	key   []byte
	value jsonx.Value
}

// open reads the members of an object once, because each Value.Get scans the text. The caller closes objects in reverse order.
func (t *Transcript) open(v jsonx.Value) object {
	o := object{t: t, from: len(t.members)}
	for key, m := range v.Members {
		t.members = append(t.members, member{key, m})
	}
	o.to = len(t.members)
	return o
}

func (o object) close() { o.t.members = o.t.members[:o.from] }

// get returns the first member with a key.
func (o object) get(key string) jsonx.Value {
	for i := o.from; i < o.to; i++ {
		if m := &o.t.members[i]; string(m.key) == key {
			return m.value
		}
	}
	return jsonx.Value{}
}

// part reads a part of a message. The document's nesting limit bounds the recursion.
func (r *reader) part(kind Kind, v jsonx.Value) {
	o := r.t.open(v)
	r.object(kind, v, o)
	o.close()
}

// object reads a message or a part of a message.
func (r *reader) object(kind Kind, v jsonx.Value, o object) {
	typed, _ := o.get("type").Str()
	outer := r.call
	switch typed {
	case "tool_use", "function_call", "custom_tool_call":
		r.calls(v, v)
	case "tool_result", "function_call_output", "custom_tool_call_output":
		kind = Result
		r.answers(o)
	case "document", "search_result":
		kind = Document
	case "text", "input_text", "":
		if kind == User && r.t.req.Retrieved && isResult(v) {
			kind = Document
		}
	case "thinking", "reasoning":
		kind = Thinking
	default:
		switch {
		case plainTypes[typed] || kind == Thinking:
		case kind == Result && strings.HasSuffix(typed, "_call_output"): // of a tool that the provider defines and the client runs, such as a shell
			r.providerDefined, r.at.Opaque = true, true
			r.call, _ = o.get("call_id").Str()
		default:
			kind, r.at.Opaque = Other, true
		}
	}
	if thought, _ := o.get("thought").Bool(); thought { // Gemini
		kind = Thinking
	}
	for i := o.from; i < o.to; i++ {
		m := r.t.members[i]
		r.member(kind, string(m.key), m.value)
	}
	r.call = outer
}

// isResult reports whether a part is a text that the gateway added as a search result.
func isResult(v jsonx.Value) bool {
	text, ok := v.Get("text").Str()
	return ok && wire.IsSearchResult(text)
}

// member reads a member of a part.
func (r *reader) member(kind Kind, key string, m jsonx.Value) {
	switch key {
	case "content", "parts", "text", "output", "refusal", "title", "context":
		r.value(kind, m)
	case "thinking", "reasoning", "reasoning_content", "reasoning_details", "thinking_blocks", "summary":
		r.value(Thinking, m)
	case "encrypted_content":
		if text, ok := m.Str(); ok && unsealed(text).Text != "" { // sealed by the gateway
			r.text(Thinking, m)
			r.t.Texts[len(r.t.Texts)-1].Seal = true
		}
	case "arguments", "args", "input":
		r.arguments(m)
	case "tool_calls":
		r.toolCalls(m)
	case "function_call", "functionCall":
		r.calls(m, m)
		r.value(Other, m)
		r.call = ""
	case "functionResponse", "function_response":
		o := r.t.open(m)
		r.answers(o)
		o.close()
		r.value(Result, m)
		r.call = ""
	case "response":
		r.text(Result, m)
	case "function", "custom":
		r.value(kind, m)
	case "source":
		r.source(m)
	case "cache_control":
		r.at.Marked = true
	default:
		r.rest(kind, key, m)
	}
}

// structure are members of parts that are not text: ids, names, types, and what providers sign or encrypt.
var structure = map[string]bool{
	"type": true, "role": true, "id": true, "name": true, "call_id": true, "tool_use_id": true, "tool_call_id": true, "tool_name": true, "status": true,
	"signature": true, "thoughtSignature": true, "thought_signature": true, "format": true, "thought": true, "is_error": true,
	"index": true, "caller": true, "phase": true,
}

// media are members that hold or locate media.
var media = map[string]bool{
	"image_url": true, "input_audio": true, "audio_url": true, "video_url": true, "audio": true, "images": true, "inlineData": true, "inline_data": true,
	"fileData": true, "file_data": true, "file": true, "file_id": true, "file_url": true, "data": true, "detail": true,
}

// rest reads any other member of a part.
func (r *reader) rest(kind Kind, key string, m jsonx.Value) {
	if kind != Result || !r.providerDefined || m.Kind() != jsonx.String { // the output of a shell is in members of other names
		kind = Other
	}
	switch {
	case structure[key]:
	case media[key]:
		r.at.Opaque = true
		if key != "detail" && !m.IsNull() {
			r.t.Media++
		}
	default:
		for s, isName := range m.Strings {
			switch {
			case isName:
			case isData(s):
				r.t.Media++
			default:
				r.text(kind, s)
			}
		}
	}
}

// arguments adds a call's arguments: an object, or JSON or any other text in a string.
func (r *reader) arguments(m jsonx.Value) {
	switch m.Kind() { //nolint:exhaustive // nothing else holds text
	case jsonx.String:
		r.text(Arguments, m)
		r.t.Texts[len(r.t.Texts)-1].JSON = true
	case jsonx.Object, jsonx.Array:
		r.text(Arguments, m)
	}
}

// toolCalls reads the calls of an assistant's message in OpenAI's format.
func (r *reader) toolCalls(m jsonx.Value) {
	for _, call := range m.Each {
		f := call.Get("function")
		if custom := call.Get("custom"); custom.Exists() {
			f = custom
		}
		r.calls(call, f)
		r.value(Other, call)
	}
	r.call = ""
}

// calls records a call; id and name are members of the call or of its function.
func (r *reader) calls(call, function jsonx.Value) {
	id, ok := call.Get("call_id").Str() // the Responses API
	if !ok {
		id, _ = call.Get("id").Str()
	}
	name, _ := function.Get("name").Str()
	c := Call{ID: id, Name: name, name: function.Get("name")}
	for _, key := range [...]string{"arguments", "input", "args"} {
		if v := function.Get(key); v.Exists() {
			c.args = v
			break
		}
	}
	r.at.Calls = append(r.at.Calls, c)
	r.call = cmp.Or(id, name)
}

// answers records the call that a part answers. Legacy functions, and Gemini's without ids, are identified by name.
func (r *reader) answers(o object) {
	if name := o.get("name"); name.Kind() == jsonx.String {
		r.t.names = append(r.t.names, name)
	}
	for _, key := range [...]string{"tool_use_id", "tool_call_id", "call_id", "id", "name"} {
		if id, ok := o.get(key).Str(); ok && id != "" {
			r.at.Answers = append(r.at.Answers, id)
			r.call = id
			return
		}
	}
	r.at.Answers = append(r.at.Answers, "")
}

// source reads the source of a document: text, blocks, a label, or bytes, which are skipped.
func (r *reader) source(m jsonx.Value) {
	switch kind, _ := m.Get("type").Str(); {
	case m.Kind() == jsonx.String:
		r.text(Document, m)
	case kind == "text":
		r.value(Document, m.Get("data"))
	case kind == "content":
		r.value(Document, m.Get("content"))
	default:
		r.at.Opaque = true
		r.t.Media++
	}
}
