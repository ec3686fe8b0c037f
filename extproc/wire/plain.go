package wire

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// What OpenAI's formats say in words, because they have no member for it.

// AsError has the text of a failed call begin with the word, if it does not. It may change the parts.
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

// DocumentText is a document as text, under what is said about it.
func DocumentText(p *chat.Part) string {
	said := slices.DeleteFunc([]string{p.Name, p.Context, p.Text}, func(s string) bool { return s == "" })
	return strings.Join(said, "\n\n")
}

// FileName is what a document with its bytes is called.
func FileName(p *chat.Part) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Media == "application/pdf":
		return "document.pdf"
	}
	return "document"
}
