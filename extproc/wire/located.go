package wire

import (
	"encoding/base64"
	"net/url"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// Located makes a part of a URL. A data: URL is taken apart into media type and base64, and the media type says what
// kind of part it is, for clients send documents as images and images as files.
func Located(kind chat.PartKind, u string) chat.Part {
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

// KindOf is the kind of a part with bytes of a type.
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

// File makes a part of a file's content, as OpenAI's formats write it: a data: URL, or base64 without the words around it.
func File(data string) chat.Part {
	if strings.Contains(data, ":") {
		return Located(chat.PartDocument, data)
	}
	media := "text/plain"
	if strings.HasPrefix(data, "JVBER") { // %PDF
		media = "application/pdf"
	}
	return chat.Part{Kind: chat.PartDocument, Media: media, Data: data}
}
