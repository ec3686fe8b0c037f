package chatcompletion

import (
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// A message of this format has one text and a list of calls, and does not state their order relative to its thinking. Claude thinks between
// them, and accepts each block only at its original position (K-14). Therefore the id of a reasoning detail that is not first encodes its
// Spot. Clients send details back unchanged, and OpenAI's SDKs join the ids of a block's pieces, so only the first piece has one.

// spotPrefix is the prefix of the id of a reasoning detail that encodes a Spot: bardo-behind-<bytes>-<calls>.
const spotPrefix = "bardo-behind-"

// Spot is a position in an assistant's message: how much of it comes before.
type Spot struct {
	Text  int // bytes of text
	Calls int // tool calls
}

// appendID appends the member "id" that encodes the position, with a comma before it; nothing for the start of the message.
func (p Spot) appendID(dst []byte) []byte {
	if p == (Spot{}) {
		return dst
	}
	dst = strconv.AppendInt(append(dst, `,"id":"`+spotPrefix...), int64(p.Text), 10)
	return append(strconv.AppendInt(append(dst, '-'), int64(p.Calls), 10), '"')
}

// ReadSpot parses the id of a reasoning detail. An id that the gateway did not write is the start of the message.
func ReadSpot(v jsonx.Value) (p Spot) {
	id, _ := v.Str()
	rest, ours := strings.CutPrefix(id, spotPrefix)
	text, calls, ok := strings.Cut(rest, "-")
	if !ours || !ok {
		return Spot{}
	}
	n, err := strconv.Atoi(text)
	m, err2 := strconv.Atoi(calls)
	if err != nil || err2 != nil || n < 0 || m < 0 {
		return Spot{}
	}
	return Spot{n, m}
}

// spots hold, for each choice, how much of its answer was written. The zero value is an answer that has not started.
type spots []Spot

// of returns the position of a choice, to read or to change.
func (ps *spots) of(choice int) *Spot {
	choice = max(0, min(choice, MaxChoices-1))
	for len(*ps) <= choice {
		*ps = append(*ps, Spot{})
	}
	return &(*ps)[choice]
}

// note adds what an event writes.
func (ps *spots) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // other events do not move the position
	case chat.Text:
		ps.of(ev.Choice).Text += len(ev.Text)
	case chat.ToolStart:
		ps.of(ev.Choice).Calls++
	}
}
