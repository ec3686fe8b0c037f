// Package gemini is the wire format of Google's generateContent API, on both sides: a client's requests and answers (Dialect), and a
// provider's (EncodeRequest, Decoder). Bytes that need no change pass unchanged when both sides speak it. It knows nothing of credentials,
// and no particular provider. What is lost is named as package wire describes.
//
// The model, and whether the answer is streamed, are in the path, so Dialect.ForPath makes the dialect of one request. Members are read in
// both spellings that the API accepts, functionCall and function_call.
//
// # Thought signatures
//
// A signature belongs to the part that contains it: a thought, a call, or text. In the canonical form it is the signature of a thinking
// block, or a redacted block before the call or after the text. It is stored with the name of its format (chat.Signed). A signature of
// another vendor's model is the base64 of that form here, where the API's clients expect bytes.
package gemini

import (
	"net/url"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// Dialect is the client's side of the format. The zero value has no model; ForPath makes one for a path.
type Dialect struct {
	model  string
	stream bool
	array  bool // the stream is requested as one JSON array
}

var (
	_ wire.Dialect     = Dialect{}
	_ wire.Addressed   = Dialect{}
	_ wire.CommentFree = Dialect{}
)

// Name is chat.Gemini.
func (Dialect) Name() chat.Dialect { return chat.Gemini }

// Root is the path of the models: requests go to Root + "/" + model + ":" + method.
const Root = "/v1beta/models"

// The methods.
const (
	generate = "generateContent"
	streamed = "streamGenerateContent"
)

// ForPath returns the dialect of a request with this path. A stream that is not requested as events (alt=sse) is written as one array, when
// it is complete.
func (Dialect) ForPath(path, query string) wire.Dialect {
	name, method := splitPath(path)
	if decoded, err := url.PathUnescape(name); err == nil {
		name = decoded
	}
	d := Dialect{model: name}
	if method == streamed {
		d.stream = wantsEvents(query)
		d.array = !d.stream
	}
	return d
}

// splitPath splits a path.
func splitPath(path string) (model, method string) {
	rest := strings.TrimPrefix(path, Root+"/")
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return rest, ""
	}
	return rest[:i], rest[i+1:]
}

func wantsEvents(query string) bool {
	q, err := url.ParseQuery(query)
	return err == nil && (q.Get("alt") == "sse" || q.Get("$alt") == "sse")
}

// Heartbeat is an empty line: Google's clients try to parse comments.
func (Dialect) Heartbeat() string { return "\n" }
