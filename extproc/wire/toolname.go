package wire

import (
	"crypto/sha256"
	"encoding/hex"

	"bardo.money/gateway/extproc/chat"
)

// maxToolName is how long OpenAI lets a function's name be, in bytes. Anthropic takes 128, and clients that name tools
// after their servers (mcp__server__tool) use them.
const maxToolName = 64

// ToolName is what a tool of another dialect is called in OpenAI's formats: its own name, or the beginning of a long one with a digest
// of the whole. The same name always comes out the same, so that histories and answers agree with the list of tools.
func ToolName(name string) string {
	const digest = 8
	if len(name) <= maxToolName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:maxToolName-1-digest] + "_" + hex.EncodeToString(sum[:digest/2])
}

// LongNames are the tools that a request of another dialect offers under names that were cut, by what they are called in OpenAI's formats.
// spoken is the format that it is written in. The conversation must have been parsed.
func LongNames(req *chat.Request, spoken chat.Dialect) map[string]string {
	if req.Dialect == spoken || req.Conv == nil {
		return nil
	}
	var names map[string]string
	for i := range req.Conv.Tools {
		name := req.Conv.Tools[i].Name
		if len(name) <= maxToolName {
			continue
		}
		if names == nil {
			names = map[string]string{}
		}
		names[ToolName(name)] = name
	}
	return names
}
