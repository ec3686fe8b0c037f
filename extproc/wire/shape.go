package wire

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Shaper is implemented by dialects that can change the answer format of a request in their own dialect. Every client's dialect does.
type Shaper interface {
	// Shape returns req with the changes of s; all other bytes stay. req is not changed. The result's conversation is not parsed (Conv is
	// nil). The error is a fault.
	Shape(req *chat.Request, s *Shape) (again *chat.Request, err error)
}

// Shape is how an attempt asks for the answer's format, and what it adds to the client's request. The zero value removes the client's format,
// and changes nothing else.
type Shape struct {
	Schema jsonx.Raw // to be enforced by the provider instead of the client's; nil: none
	Name   string    // of the schema
	Note   string    // what the schema is for
	Loose  bool      // the schema is not marked as strict, in formats that have the mark

	KeepFormat bool // the client's format stays

	Tool   *chat.Tool // one more tool, after the client's own
	Choice ToolChoice // how tools are to be used
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

// SchemaOf is the JSON Schema that a request asks its answer to follow, and the name that the client gave it; nil for none, or for JSON of
// any schema. It reads members only, except for Gemini's, whose conversation is parsed.
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

// Format is what a request asks of the answer's format. The zero value is nothing, or plain text.
type Format struct {
	Schema jsonx.Raw // nil: none
	Name   string    // of the schema
	JSON   bool      // any JSON object
	Word   bool      // one value of the schema's enum, without quotes
	Loose  bool      // the schema is not marked as strict, in a format that has the mark
	Member string    // the client's member that asks for it: response_format
	Value  string    // and its value: json_schema
}

// FormatOf reads what a request asks of the answer's format.
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
