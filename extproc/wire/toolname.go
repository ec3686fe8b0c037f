package wire

import (
	"crypto/sha256"
	"encoding/hex"

	"bardo.money/gateway/extproc/chat"
)

// ToolName returns the name of another dialect's tool in the format of target: its own, or, if that format does not accept it, a prefix of
// it with other characters replaced and a digest of the whole. OpenAI accepts 64 letters, digits, _ and -; Anthropic 128 of them, which
// clients use that name tools after their servers (mcp__server__tool); Gemini 128 with dots and colons as well, but no digit or - at the
// beginning. It is a pure function, so that histories and answers agree with the list of tools.
func ToolName(name string, target chat.Dialect) string {
	const digest = 8
	longest, others := 64, ""
	switch target {
	case chat.Anthropic:
		longest = 128
	case chat.Gemini:
		longest, others = 128, ".:"
	case chat.OpenAI, chat.Responses, chat.Completions, chat.Embeddings:
	}
	changed := len(name) > longest
	b := []byte(name)
	for i, c := range b {
		if !isNameByte(c) && (len(others) == 0 || c != others[0] && c != others[1]) {
			b[i], changed = '_', true
		}
	}
	if target == chat.Gemini && name != "" && !isNameStart(b[0]) {
		b, changed = append([]byte("_"), b...), true
	}
	if !changed || name == "" {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return string(b[:min(len(b), longest-1-digest)]) + "_" + hex.EncodeToString(sum[:digest/2])
}

// isNameByte reports whether every format accepts a character in the name of a tool.
func isNameByte(c byte) bool { return isNameStart(c) || '0' <= c && c <= '9' || c == '-' }

// isNameStart reports whether every format accepts a character at the beginning of a tool's name.
func isNameStart(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

// OwnNames maps the changed names of a request's tools to the client's own. target is the format in which the request is written. The
// conversation must have been parsed.
func OwnNames(req *chat.Request, target chat.Dialect) map[string]string {
	if req.Dialect == target || req.Conv == nil {
		return nil
	}
	var names map[string]string
	for i := range req.Conv.Tools {
		name := req.Conv.Tools[i].Name
		written := ToolName(name, target)
		if written == name {
			continue
		}
		if names == nil {
			names = map[string]string{}
		}
		names[written] = name
	}
	return names
}
