package wire

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Shaper is implemented by dialects that can have an answer's form asked for in another way than their client did, in a request of
// their own format. Every client's dialect does.
type Shaper interface {
	// Shape is req with the changes of s; all else stays as it came, byte for byte. req is not changed. Its conversation has to be
	// read anew (Conv is nil). The error is a fault.
	Shape(req *chat.Request, s *Shape) (again *chat.Request, err error)
}

// Shape is how an attempt asks for the form of its answer, and what else it is told that the client did not say. The zero value takes
// away the form that the client asked for, and changes nothing else.
type Shape struct {
	Schema jsonx.Raw // that the provider enforces in place of the client's; nil: none
	Name   string    // of the schema
	Note   string    // what the schema is for
	Loose  bool      // the schema is not said to be strict, where formats say that

	KeepForm bool // what the client says of a form stays

	Tool   *chat.Tool // one more tool, behind the client's own
	Choice ToolChoice // how tools are to be used from here on
	Guide  string     // behind the system prompt

	Say []chat.Message // behind the messages: text of the assistant and of the user, in turns
}

// ToolChoice is what a shape makes of the client's choice of tools.
type ToolChoice uint8

// The choices.
const (
	KeepChoice  ToolChoice = iota // as the client said
	ChooseAuto                    // the model may call tools
	ChooseAny                     // it must call one
	ChooseShape                   // it must call the shape's own, and nothing else
)

// SchemaOf is the JSON Schema that a request asks its answer to follow, under the name that the client gave it; nil for none, or for JSON
// of any form. It is one look at the request's members, without reading its conversation.
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
		c, err := r.Conversation() // Google's own schemas are no JSON Schema until they are read
		if err != nil {
			return nil, ""
		}
		return c.Params.Schema, c.Params.SchemaName
	case chat.Embeddings:
	}
	return nil, ""
}

// JSONObject is the type of a form that OpenAI's formats have for JSON mode.
const JSONObject = "json_object"

// Form is what a request says of the form of its answer. The zero value is nothing, or plain text.
type Form struct {
	Schema jsonx.Raw // nil: none
	Name   string    // of the schema
	JSON   bool      // a JSON object of any form
	Word   bool      // one word of the schema's enum, without quotes
	Loose  bool      // the schema is not said to be strict, in a format that says so
	Member string    // the client's own name of what says it: response_format
	Value  string    // and what it says: json_schema
}

// FormOf is what a request says of the form of its answer.
func FormOf(r *chat.Request) (f Form) {
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

func (f *Form) openAI(kind, strict jsonx.Value) {
	switch {
	case f.Schema != nil:
		f.Loose = !IsTrue(strict)
	case kind.Equal(JSONObject):
		f.JSON, f.Value = true, JSONObject
	}
}

func (f *Form) gemini(r *chat.Request) {
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
