package wire

import (
	"crypto/sha256"
	"encoding/hex"

	"bardo.money/gateway/extproc/chat"
)

// maxToolName is the maximum length of a function's name at OpenAI, in bytes. Anthropic accepts 128, which clients use that name tools
// after their servers (mcp__server__tool).
const maxToolName = 64

// ToolName returns the name of another dialect's tool in OpenAI's formats: its own, or, if that is too long, its prefix with a digest of
// the whole. It is a pure function, so that histories and answers agree with the list of tools.
func ToolName(name string) string {
	const digest = 8
	if len(name) <= maxToolName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:maxToolName-1-digest] + "_" + hex.EncodeToString(sum[:digest/2])
}

// LongNames maps the shortened names of a request's tools to their own. target is the format in which the request is written. The
// conversation must have been parsed.
func LongNames(req *chat.Request, target chat.Dialect) map[string]string {
	if req.Dialect == target || req.Conv == nil {
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
