package wire

import (
	"iter"
	"maps"
	"math"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// TopMembers iterates over the top-level members of a document, in document order.
func TopMembers(d *jsonx.Doc) iter.Seq2[string, jsonx.Value] {
	return func(yield func(string, jsonx.Value) bool) {
		for i := range d.Members {
			if !yield(d.Members[i].Key, d.Value(i)) {
				return
			}
		}
	}
}

// Present returns a value's text; nil if it is absent or null.
func Present(v jsonx.Value) jsonx.Raw {
	if v.IsNull() {
		return nil
	}
	return v.Raw
}

// ReadText reads a required string, which may be empty. Errors of this function and of those below are faults.
func ReadText(field string, v jsonx.Value) (string, error) {
	t, ok := v.Str()
	if !ok {
		return "", WrongKind(field, "a string", v)
	}
	return t, nil
}

// ReadOptional reads an optional string.
func ReadOptional(field string, v jsonx.Value) (string, error) {
	if v.IsNull() {
		return "", nil
	}
	return ReadText(field, v)
}

// ReadFlag reads an optional boolean.
func ReadFlag(field string, v jsonx.Value) (bool, error) {
	on, ok := v.Bool()
	if !ok && !v.IsNull() {
		return false, WrongKind(field, "a boolean", v)
	}
	return on, nil
}

// IsTrue reports whether a value is true.
func IsTrue(v jsonx.Value) bool {
	on, _ := v.Bool()
	return on
}

// ReadNumber reads a number and keeps its text.
func ReadNumber(dst *string, field string, v jsonx.Value) error {
	if v.Kind() != jsonx.Number {
		return WrongKind(field, "a number", v)
	}
	*dst = string(v.Raw)
	return nil
}

// ReadLimit reads the limit of an answer in tokens: an integer from 1 to math.MaxInt32.
func ReadLimit(field string, v jsonx.Value) (int, error) {
	n, ok := v.Int()
	if !ok || n < 1 || n > math.MaxInt32 {
		return 0, Invalid(field, "%s must be a positive integer", field)
	}
	return int(n), nil
}

// ReadEffort records whether a request's effort enables thinking, and whether it is a high effort, which is slower and costs more.
func ReadEffort(r *chat.Request, field string, v jsonx.Value) error {
	effort, err := ReadText(field, v)
	if err != nil {
		return err
	}
	r.Thinking = r.Thinking || effort != EffortNone
	r.HighEffort = r.HighEffort || effort == "high" || effort == "xhigh" || effort == EffortMax
	return nil
}

// ReadModel reads the name of the requested model, which must not be empty.
func ReadModel(v jsonx.Value) (string, error) {
	name, err := ModelName(v)
	if err == nil && name == "" {
		return "", Invalid("model", "model must not be empty")
	}
	return name, err
}

// CheckMessages returns a fault unless the member "messages" of a request is a non-empty array.
func CheckMessages(v jsonx.Value) error {
	switch {
	case v.Kind() != jsonx.Array:
		return WrongKind("messages", "an array", v)
	case IsEmpty(v):
		return Invalid("messages", "messages must not be empty")
	}
	return nil
}

// ReadJSONSchema reads the JSON Schema of the answer in OpenAI's formats: schema, name, description and strict are members of def, which is
// the request's member at.
func ReadJSONSchema(c *chat.Conversation, def jsonx.Value, at string) (err error) {
	schema := def.Get("schema")
	if schema.Kind() != jsonx.Object {
		return WrongKind(at+".schema", "an object", schema)
	}
	p := &c.Params
	p.Schema, p.SchemaLoose = schema.Raw, !IsTrue(def.Get("strict"))
	if p.SchemaName, err = ReadOptional(at+".name", def.Get("name")); err != nil {
		return err
	}
	p.SchemaNote, err = ReadOptional(at+".description", def.Get("description"))
	return err
}

// NumberParam returns the field of a parameter that is one number, by its name in OpenAI's and Anthropic's formats; nil for any other name.
func NumberParam(p *chat.Params, key string) *string {
	switch key {
	case "temperature":
		return &p.Temperature
	case "top_p":
		return &p.TopP
	case "top_k":
		return &p.TopK
	case "min_p":
		return &p.MinP
	case "presence_penalty":
		return &p.PresencePenalty
	case "frequency_penalty":
		return &p.FrequencyPenalty
	case "seed":
		return &p.Seed
	}
	return nil
}

// Float returns the value of a number that ReadNumber read; 0 if it is absent.
func Float(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return f
}

// ReadBudget reads an optional budget of thinking tokens (0 if absent). It refuses numbers that are not plain integers: providers differ in
// whether they accept them.
func ReadBudget(field string, v jsonx.Value) (int64, error) {
	n, ok := v.Int()
	if !ok && !v.IsNull() {
		return 0, Invalid(field, "%s must be a whole number of tokens", field)
	}
	return n, nil
}

// ReadUser reads the end user, for which OpenAI's formats have an old and a new name.
func ReadUser(c *chat.Conversation, key string, v jsonx.Value) error {
	name, err := ReadText(key, v)
	switch {
	case err != nil:
		return err
	case c.Params.User == "":
		Rename(c, "user_id", key)
		c.Params.User = name
	case c.Params.User != name:
		Unmap(c, key)
	}
	return nil
}

// Rename sets the client's name of something for which its format has several names. The format's own table is not changed.
func Rename(c *chat.Conversation, name, word string) {
	if c.Words[name] != word {
		c.Words = maps.Clone(c.Words)
		c.Words[name] = word
	}
}

// AppendUser appends the parts of a user turn as messages: tool results become messages of their own role. The order of parts stays.
func AppendUser(ms []chat.Message, at string, parts []chat.Part) []chat.Message {
	for start := 0; ; {
		isResult := start < len(parts) && parts[start].Kind == chat.PartToolResult
		end := start
		for end < len(parts) && (parts[end].Kind == chat.PartToolResult) == isResult {
			end++
		}
		role := chat.RoleUser
		if isResult {
			role = chat.RoleTool
		}
		ms = append(ms, chat.Message{Role: role, At: at, Parts: parts[start:end:end]})
		if start = end; start == len(parts) {
			return ms
		}
	}
}
