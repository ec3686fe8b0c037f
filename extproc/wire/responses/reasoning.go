package responses

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// reasoning reads a reasoning item. Without the gateway's own encrypted_content it is unsigned thinking.
func (rd *reader) reasoning(v jsonx.Value, at string) error {
	wire.UnmapUnknown(rd.c, v, "type", "id", "summary", "content", "encrypted_content", "status")
	sealed, err := wire.ReadOptional(at+".encrypted_content", v.Get("encrypted_content"))
	if err != nil {
		return err
	}
	if sealed != "" {
		p, ours, err := wire.Unseal(sealed, at+".encrypted_content")
		if err != nil {
			return err
		}
		if ours {
			rd.add(chat.RoleAssistant, at, p)
			return nil
		}
		wire.Unmap(rd.c, "encrypted_content")
	}
	for _, key := range [...]string{"content", "summary"} {
		parts, err := readContent(rd.c, v.Get(key), at+"."+key)
		if err != nil {
			return err
		}
		if t := joined(parts); t != "" {
			rd.add(chat.RoleAssistant, at, chat.Part{Kind: chat.PartThinking, Text: t})
			break
		}
	}
	return nil
}

func joined(parts []chat.Part) string {
	texts := make([]string, 0, len(parts))
	for i := range parts {
		if parts[i].Text != "" {
			texts = append(texts, parts[i].Text)
		}
	}
	return strings.Join(texts, "\n\n")
}
