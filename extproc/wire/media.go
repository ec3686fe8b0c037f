package wire

import (
	"encoding/base64"
	"net/url"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// PartOfURL returns a part for a URL. A data: URL is split into media type and base64; its media type determines the kind, because clients
// send documents as images and images as files.
func PartOfURL(kind chat.PartKind, u string) chat.Part {
	rest, isData := strings.CutPrefix(u, "data:")
	meta, data, hasComma := strings.Cut(rest, ",")
	if !isData || !hasComma {
		return chat.Part{Kind: kind, URL: u}
	}
	meta, isBase64 := strings.CutSuffix(meta, ";base64")
	if !isBase64 {
		plain, err := url.PathUnescape(data)
		if err != nil {
			return chat.Part{Kind: kind, URL: u}
		}
		data = base64.StdEncoding.EncodeToString([]byte(plain))
	}
	media, _, _ := strings.Cut(meta, ";")
	if media != "" {
		kind = KindOf(media)
	}
	return chat.Part{Kind: kind, Media: media, Data: data}
}

// KindOf returns the kind of a part with a media type.
func KindOf(media string) chat.PartKind {
	switch {
	case IsImage(media):
		return chat.PartImage
	case strings.HasPrefix(media, "audio/"):
		return chat.PartAudio
	case strings.HasPrefix(media, "video/"):
		return chat.PartVideo
	}
	return chat.PartDocument
}

// PartOfFile returns a part for a file's content in OpenAI's formats: a data: URL, or plain base64.
func PartOfFile(data string) chat.Part {
	if strings.Contains(data, ":") {
		return PartOfURL(chat.PartDocument, data)
	}
	media := "text/plain"
	if strings.HasPrefix(data, "JVBER") { // %PDF
		media = "application/pdf"
	}
	return chat.Part{Kind: chat.PartDocument, Media: media, Data: data}
}

// MediaType returns the type of a part's bytes: as stated by the client, else from the first characters of the base64 data; "" if neither
// is known.
func MediaType(p *chat.Part) string {
	switch {
	case p.Media == "image/jpg":
		return "image/jpeg"
	case p.Media != "":
		return p.Media
	}
	for _, known := range [...]struct{ prefix, media string }{
		{"iVBOR", "image/png"}, {"/9j/", "image/jpeg"}, {"R0lG", "image/gif"}, {"UklG", "image/webp"}, {"JVBE", "application/pdf"},
	} {
		if strings.HasPrefix(p.Data, known.prefix) {
			return known.media
		}
	}
	return ""
}
