// Package anthropic is the Messages format of Anthropic, on both sides: as the dialect of a client (Decode, NewEncoder,
// Error) and as the language of a provider (EncodeRequest, NewDecoder). Bytes that need no change pass unchanged when both
// sides speak it; only StripThinking and NoContextEdits take something out. What is lost on the way to it or from it is named as package
// wire says. It knows nothing of paths, credentials or any one provider.
package anthropic

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
)

// Dialect is the client's side of the format. The zero value is ready.
type Dialect struct{}

var _ wire.Dialect = Dialect{}

// Name is chat.Anthropic.
func (Dialect) Name() chat.Dialect { return chat.Anthropic }
