// Package anthropic is the wire format of Anthropic's Messages API, on both sides: the requests of clients (Dialect) and to providers
// (EncodeRequest). Answers are package message's. Bytes that need no change pass unchanged if both sides speak it, except for what
// StripThinking and NoContextEdits remove. What requests lose is named as package wire describes. It knows nothing of credentials, and no
// particular provider.
package anthropic

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic/message"
)

// Dialect is the client's side of the format. The zero value is ready.
type Dialect struct{}

var _ wire.Dialect = Dialect{}

// Name is chat.Anthropic.
func (Dialect) Name() chat.Dialect { return chat.Anthropic }

// NewEncoder returns the encoder of one answer.
func (Dialect) NewEncoder(o wire.Options) wire.Encoder { return message.NewEncoder(o) }
