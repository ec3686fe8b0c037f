package gemini

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// camel converts a member's name to the API's own spelling: function_call to functionCall.
func camel(key []byte) string {
	if name, ok := usualKeys[string(key)]; ok {
		return name
	}
	if bytes.IndexByte(key, '_') < 0 {
		return string(key)
	}
	b := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		if key[i] == '_' && i > 0 && i+1 < len(key) && key[i+1] >= 'a' && key[i+1] <= 'z' {
			i++
			b = append(b, key[i]-'a'+'A')
			continue
		}
		b = append(b, key[i])
	}
	return string(b)
}

// usualKeys are the members of an answer's parts. They are in every chunk, so their names are not allocated.
var usualKeys = map[string]string{
	"text": "text", "thought": "thought", "thoughtSignature": "thoughtSignature", "functionCall": "functionCall", "inlineData": "inlineData",
}

// get returns a member of an object, in either spelling.
func get(v jsonx.Value, name string) jsonx.Value {
	for key, m := range v.Members {
		if string(key) == name || camel(key) == name {
			return m
		}
	}
	return jsonx.Value{}
}

// nameUnknown is wire.UnmapUnknown for both spellings.
func nameUnknown(c *chat.Conversation, object jsonx.Value, known ...string) {
	for key, v := range object.Members {
		on, isBool := v.Bool()
		if wire.IsEmpty(v) || isBool && !on || string(key) == wire.HintKey || slices.Contains(known, camel(key)) {
			continue
		}
		wire.Unmap(c, string(key))
	}
}
