package api

import (
	"net/url"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// Endpoints refuse parameters and members that are unknown, misspelt or repeated: they would otherwise change the answer silently.

// query parses the query of an endpoint with only these parameters, each at most once and with a value. The error is a fault that names the
// parameter.
func (c *Caller) query(names ...string) (url.Values, error) {
	v, err := url.ParseQuery(c.Head.Query)
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "the query string cannot be read", err)
	}
	for name, values := range v {
		switch shown := fault.Clip(name); {
		case !slices.Contains(names, name):
			return nil, wire.Invalid(shown, "%s: there is no such parameter, expected %s", shown, listed(names))
		case len(values) > 1:
			return nil, wire.Invalid(shown, "%s: it is there %d times", shown, len(values))
		case values[0] == "":
			return nil, wire.Invalid(shown, "%s: it is empty: leave it out, or give it a value", shown)
		}
	}
	return v, nil
}

// listed joins names for a sentence.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return "only " + strings.Join(names, ", ")
}

// onlyMembers refuses a document with any other member. The error is a fault that names it.
func onlyMembers(doc *jsonx.Doc, names ...string) error {
	for _, m := range doc.Members {
		if !slices.Contains(names, m.Key) {
			shown := fault.Clip(m.Key)
			return wire.Invalid(shown, "%s: there is no such member, expected %s", shown, listed(names))
		}
	}
	return nil
}
