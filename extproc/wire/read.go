package wire

import (
	"maps"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Present is a value's text, or nil when it is absent or null.
func Present(v jsonx.Value) jsonx.Raw {
	if v.IsNull() {
		return nil
	}
	return v.Raw
}

// ReadText reads a string that must be there, and may be empty. The error is a fault, as that of the readers below.
func ReadText(field string, v jsonx.Value) (string, error) {
	t, ok := v.Str()
	if !ok {
		return "", WrongKind(field, "a string", v)
	}
	return t, nil
}

// ReadOptional reads a string that may be left out.
func ReadOptional(field string, v jsonx.Value) (string, error) {
	if v.IsNull() {
		return "", nil
	}
	return ReadText(field, v)
}

// ReadFlag reads a boolean that may be left out.
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

// ReadNumber reads a number, which keeps its text.
func ReadNumber(dst *string, field string, v jsonx.Value) error {
	if v.Kind() != jsonx.Number {
		return WrongKind(field, "a number", v)
	}
	*dst = string(v.Raw)
	return nil
}

// ReadBudget reads how many tokens a model may think for, which may be left out (0). A number in another notation than that of whole
// numbers is one to some providers and none to others.
func ReadBudget(field string, v jsonx.Value) (int64, error) {
	n, ok := v.Int()
	if !ok && !v.IsNull() {
		return 0, Invalid(field, "%s must be a whole number of tokens", field)
	}
	return n, nil
}

// ReadUser reads who the end user is, of which OpenAI's formats have an old name and a new one.
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

// Rename has the client's own word for something that its format has several words for. The words of the format itself stay as they are.
func Rename(c *chat.Conversation, name, word string) {
	if c.Words[name] != word {
		c.Words = maps.Clone(c.Words)
		c.Words[name] = word
	}
}

// AppendUser appends a turn of the user: tool results are turns of their own role, in the order in which they stand.
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
