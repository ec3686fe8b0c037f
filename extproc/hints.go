package extproc

import (
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
)

// headerWarning names hints that mean nothing to this version.
const headerWarning = "x-bardo-warning"

// hear reads what the caller says about itself in its headers: what is wrong there is refused before the body is read.
func (x *exchange) hear() (err error) {
	if err := x.hearReplay(); err != nil {
		return err
	}
	if err := x.hearReasoning(); err != nil {
		return err
	}
	if err := x.hearKey(); err != nil {
		return err
	}
	x.said, err = hint.FromHeaders(x.head.Header, &x.Hints)
	return err
}

// hearBody reads what the body says besides. No provider will see it: decoding has marked it for removal.
func (x *exchange) hearBody() error {
	return hint.FromBody(x.Request.Doc.Get(wire.HintKey), x.said, &x.Hints)
}

// warning reports hints that were not understood.
func (x *exchange) warning(h header.List) header.List {
	text := hint.Warning(&x.Hints)
	if text == "" {
		return h
	}
	return append(h, header.Field{Name: headerWarning, Value: text})
}
