package extproc

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// What a provider keeps for its callers, such as responses, files and batches, the gateway does not: it belongs to the key under
// which it was made.

// kept are the parts of the providers' APIs that serve such things.
var kept = []string{"/v1/responses", "/v1/conversations", "/v1/messages/batches", "/v1/batches", "/v1/files"}

var keptMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}

// isKept reports whether a path is of what a provider keeps.
func isKept(path string) bool {
	return slices.ContainsFunc(kept, func(k string) bool {
		return path == k || strings.HasPrefix(path, k+"/")
	})
}

// findKept is the endpoint of a path of what a provider keeps.
func findKept(method, path string) (endpoint, bool) {
	if !isKept(path) || !slices.Contains(keptMethods, method) || path == "/v1/responses" {
		return endpoint{}, false
	}
	return endpoint{method: method, path: path, class: classLookup, local: elsewhere}, true
}

// elsewhere refuses a request for what only a provider has.
func elsewhere(_ context.Context, x *exchange) (reply, error) {
	return reply{}, fault.Newf(fault.RequiresDirectKey,
		"%s %s is about what a provider keeps, which takes a key of your own there (providers.direct)", x.head.method, clipped(x.head.path))
}

// meetNeeds leaves out the candidates that lack what the request cannot do without.
func (x *exchange) meetNeeds() error {
	for _, n := range x.Request.Needs {
		x.Found = slices.DeleteFunc(x.Found, func(r policy.Resolution) bool { return !x.meets(&r, n.Feature) })
		if len(x.Found) == 0 {
			return responses.KeptElsewhere(n.Member)
		}
	}
	return nil
}

func (x *exchange) meets(r *policy.Resolution, f policy.Feature) bool {
	if f == policy.ResponsesAPI && x.rt.Providers[r.Provider].Endpoint.Responses {
		return true
	}
	return slices.Contains(r.Features, f)
}
