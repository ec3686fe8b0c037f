// Package gemini is the generateContent format of Google's Gemini API, on both sides: a client's requests and the answers it reads
// (Dialect), and a provider's requests and the answers it gives (EncodeRequest, Decoder). Bytes that need no change pass unchanged
// when both sides speak it. It knows nothing of credentials or of any one provider. What is lost on the way to it or from
// it is named as package wire says.
//
// The model, and whether the answer is streamed, stand in the path, so that a client's dialect is made of one with Dialect.At. Members are
// read in both spellings that the API takes, functionCall and function_call.
//
// # Thought signatures
//
// A signature belongs to the part that it stands on: a thought, a call, or text. In the canonical form it is that of a thinking
// block, or a redacted block before the call or behind the text. It is kept under the name of its format (chat.Signed), and a
// signature of another maker's model is base64 of the same here, where the API's clients expect bytes.
package gemini

import (
	"net/url"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// Dialect is the client's side of the format. The zero value has no model; At makes one for a path.
type Dialect struct {
	model  string
	stream bool
	array  bool // a stream is wanted as one JSON array
}

var (
	_ wire.Dialect   = Dialect{}
	_ wire.Addressed = Dialect{}
	_ wire.Plain     = Dialect{}
)

// Name is chat.Gemini.
func (Dialect) Name() chat.Dialect { return chat.Gemini }

// Root is where the models are: requests go to Root + "/" + model + ":" + method.
const Root = "/v1beta/models"

// The methods.
const (
	generate = "generateContent"
	streamed = "streamGenerateContent"
)

// At is the dialect of a request to this path. A stream that is not asked for as events (alt=sse) is answered as one array, once
// it is whole.
func (Dialect) At(path, query string) wire.Dialect {
	name, method := cutMethod(path)
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

// cutMethod takes a path apart.
func cutMethod(path string) (model, method string) {
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

// Heartbeat is an empty line: Google's clients take a comment for an answer that they cannot read.
func (Dialect) Heartbeat() string { return "\n" }
