package wire

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Shaper is implemented by dialects that can change the answer format of a request in their own dialect. Every client's dialect does.
type Shaper interface {
	// Shape returns req with the changes of s; all other bytes stay. req is not changed. The conversation of the result is not parsed (Conv
	// is nil). The error is a fault.
	Shape(req *chat.Request, s *Shape) (shaped *chat.Request, err error)
}

// Shape sets how an attempt requests the format of the answer, and what it adds to the client's request. The zero value removes the
// client's format and changes nothing else.
type Shape struct {
	Schema jsonx.Raw // a schema that replaces the client's, for the provider to enforce; nil: none
	Name   string    // of the schema
	Note   string    // description of the schema
	Loose  bool      // the schema is not marked as strict, in formats with such a mark

	KeepFormat bool // the client's format stays

	Tool   *chat.Tool // an additional tool, after the client's
	Choice ToolChoice // the tool choice
	Guide  string     // text after the system prompt

	Messages []chat.Message // text messages of assistant and user, after the client's messages
}

// ToolChoice is how a shape changes the client's tool choice.
type ToolChoice uint8

// The choices.
const (
	KeepChoice  ToolChoice = iota // the client's
	ChooseAuto                    // the model may call tools
	ChooseAny                     // the model must call one
	ChooseShape                   // the model must call the shape's tool
)

// SchemaOf returns the JSON Schema that a request requires of its answer, and the client's name for it; nil for none, or for JSON of any
// schema. It reads members only, except for Gemini's, whose conversation is parsed.
func SchemaOf(r *chat.Request) (schema jsonx.Raw, name string) {
	switch r.Dialect {
	case chat.OpenAI, chat.Completions:
		def := r.Doc.Get("response_format").Get("json_schema")
		name, _ = def.Get("name").Str()
		return Present(def.Get("schema")), name
	case chat.Responses:
		format := r.Doc.Get("text").Get("format")
		name, _ = format.Get("name").Str()
		return Present(format.Get("schema")), name
	case chat.Anthropic:
		schema := r.Doc.Get("output_config").Get("format").Get("schema")
		if schema.IsNull() {
			schema = r.Doc.Get("output_format").Get("schema")
		}
		return Present(schema), ""
	case chat.Gemini:
		c, err := r.Conversation() // Google's own schemas are not JSON Schema until they are parsed
		if err != nil {
			return nil, ""
		}
		return c.Params.Schema, c.Params.SchemaName
	case chat.Embeddings:
	}
	return nil, ""
}

// JSONObject is the type of JSON mode in OpenAI's formats.
const JSONObject = "json_object"

// Format is the format that a request requires of its answer. The zero value is none, or plain text.
type Format struct {
	Schema jsonx.Raw // nil: none
	Name   string    // of the schema
	JSON   bool      // any JSON object
	Word   bool      // one value of the schema's enum, without quotes
	Loose  bool      // the schema is not marked as strict, in a format with such a mark
	Member string    // the client's member that sets it: response_format
	Value  string    // the member's value: json_schema
}

// FormatOf reads the format that a request requires of its answer.
func FormatOf(r *chat.Request) (f Format) {
	f.Schema, f.Name = SchemaOf(r)
	f.Value = "json_schema"
	switch r.Dialect {
	case chat.OpenAI, chat.Completions:
		v := r.Doc.Get("response_format")
		f.Member = "response_format"
		f.openAI(v.Get("type"), v.Get("json_schema").Get("strict"))
	case chat.Responses:
		v := r.Doc.Get("text").Get("format")
		f.Member = "text.format"
		f.openAI(v.Get("type"), v.Get("strict"))
	case chat.Anthropic:
		f.Member = "output_config.format"
	case chat.Gemini:
		f.gemini(r)
	case chat.Embeddings:
	}
	return f
}

func (f *Format) openAI(kind, strict jsonx.Value) {
	switch {
	case f.Schema != nil:
		f.Loose = !IsTrue(strict)
	case kind.Equal(JSONObject):
		f.JSON, f.Value = true, JSONObject
	}
}

func (f *Format) gemini(r *chat.Request) {
	c, err := r.Conversation()
	if err != nil {
		return
	}
	f.Member = c.Word("format")
	config := r.Member("generationConfig", "generation_config")
	mime := config.Get("responseMimeType")
	if !mime.Exists() {
		mime = config.Get("response_mime_type")
	}
	switch {
	case f.Schema != nil:
		f.Word = mime.Equal("text/x.enum")
	case c.Params.JSONMode:
		f.JSON = true
		f.Value, _ = mime.Str()
	}
}
