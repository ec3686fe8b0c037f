package chat

import "strings"

// IsTextMedia reports whether documents of a media type can be sent as text.
func IsTextMedia(media string) bool {
	switch media {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/javascript":
		return true
	}
	return strings.HasPrefix(media, "text/")
}

// IsTextDocument reports whether a part is a document that can be sent as text.
func (p *Part) IsTextDocument() bool {
	return p.Kind == PartDocument && (p.Text != "" || p.Data != "" && IsTextMedia(p.Media))
}
