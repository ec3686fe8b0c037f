package wire

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// What OpenAI's formats express as text, because they have no member for it.

// AsError prefixes the text of a failed call with "Error", unless it already starts with it. It may change the parts.
func AsError(texts []chat.Part) []chat.Part {
	const word = "Error"
	switch {
	case len(texts) == 0:
		return []chat.Part{{Kind: chat.PartText, Text: word}}
	case len(texts[0].Text) < len(word) || !strings.EqualFold(texts[0].Text[:len(word)], word):
		texts[0].Text = word + ": " + texts[0].Text
	}
	return texts
}

// DocumentText returns a document as text, after its title and context.
func DocumentText(p *chat.Part) string {
	texts := slices.DeleteFunc([]string{p.Name, p.Context, p.Text}, func(s string) bool { return s == "" })
	return strings.Join(texts, "\n\n")
}

// FileName returns the name of a document that is sent with its bytes.
func FileName(p *chat.Part) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Media == "application/pdf":
		return "document.pdf"
	}
	return "document"
}
