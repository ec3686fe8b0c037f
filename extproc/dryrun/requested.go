package dryrun

import (
	"strings"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Header requests an explanation instead of an answer.
const Header = "x-bardo-route"

// IsRequested reports whether a request is only to be explained. The error is a fault.
func IsRequested(h header.List) (bool, error) {
	switch value := h.Get(Header); {
	case value == "":
		return false, nil
	case strings.EqualFold(value, "explain"):
		return true, nil
	default:
		return false, fault.Newf(fault.InvalidRequest, "X-Bardo-Route: expected explain, not %q", fault.Clip(value))
	}
}
