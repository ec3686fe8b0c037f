package request

import (
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
)

// headerWarning lists hints that this version does not know or cannot parse.
const headerWarning = "x-bardo-warning"

// ParseBodyHints parses the hints in the body. The decoder has marked that member for removal: no provider gets it.
func (v *View) ParseBodyHints() error {
	return hint.FromBody(v.Request.Doc.Get(wire.HintKey), v.HeaderHints, &v.Hints)
}

// WarningHeader appends X-Bardo-Warning if there are such hints.
func (v *View) WarningHeader(h header.List) header.List {
	text := hint.Warning(&v.Hints)
	if text == "" {
		return h
	}
	return append(h, header.Field{Name: headerWarning, Value: text})
}
