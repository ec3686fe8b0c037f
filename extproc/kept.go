package extproc

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/policy"
)

// What a provider keeps for its callers, such as responses, files and batches, the gateway does not: it belongs to the key under which it
// was made. Requests about it go to users' own keys, as they are.

// collections are the parts of the providers' APIs that serve such things.
var collections = []string{"/v1/responses/compact", "/v1/responses", "/v1/conversations", "/v1/messages/batches", "/v1/batches", "/v1/files", cachedContents}

// cachedContents are prompts that Google's callers keep there, for a time of their own choice.
const cachedContents = "/v1beta/cachedContents"

// keptMethods are those of the paths of a collection; nil for any other path.
func keptMethods(path string) []string {
	k, ok := readKept(path)
	if !ok {
		return nil
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}
	if k.collection == cachedContents {
		methods = append(methods, http.MethodPatch)
	}
	return methods
}

// keptPath is a path of what a provider keeps, in its parts: /v1/files/file-1/content.
type keptPath struct {
	collection string // "/v1/files"
	id         string // "file-1"; "" for the collection itself
	rest       string // "content"
}

// readKept takes a path apart; ok is false for any other path.
func readKept(path string) (k keptPath, ok bool) {
	for _, c := range collections {
		rest, below := strings.CutPrefix(path, c)
		if !below || rest != "" && rest[0] != '/' {
			continue
		}
		k.collection = c
		k.id, k.rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		return k, true
	}
	return k, false
}

// String is the path.
func (k *keptPath) String() string {
	switch {
	case k.id == "":
		return k.collection
	case k.rest == "":
		return k.collection + "/" + k.id
	}
	return k.collection + "/" + k.id + "/" + k.rest
}

// name is the thing's, as its vendor calls it; "" for the collection itself.
func (k *keptPath) name() string {
	if k.collection == cachedContents && k.id != "" {
		return "cachedContents/" + k.id
	}
	return k.id
}

// members are where an answer has the thing's name, and where a list has its things.
func (k *keptPath) members() (name, list string) {
	if k.collection == cachedContents {
		return "name", "cachedContents"
	}
	return "id", "data"
}

// below is the path below the version.
func (k *keptPath) below() string {
	path := k.String()
	return path[1+strings.IndexByte(path[1:], '/'):]
}

// findKept is the endpoint of a path of what a provider keeps.
func findKept(method, path string) (endpoint, bool) {
	if !slices.Contains(keptMethods(path), method) || path == "/v1/responses" {
		return endpoint{}, false
	}
	e := endpoint{method: method, path: path, class: classLookup, kept: true}
	if method != http.MethodGet && method != http.MethodHead {
		e.class = classGenerate
	}
	return e, true
}

// deepest is how many parts a path may have below a collection: an id, what is asked of it, and a part of that.
const deepest = 3

// wellFormed reports whether a path below a collection may be sent on: it must not lead anywhere else at the provider.
func (k *keptPath) wellFormed() bool {
	if k.id == "" {
		return k.rest == ""
	}
	parts := strings.Split(k.id+"/"+k.rest, "/")
	if k.rest == "" {
		parts = parts[:1]
	}
	return len(parts) <= deepest && !slices.ContainsFunc(parts, func(p string) bool {
		const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"
		return p == "" || len(p) > longestKept || strings.Trim(p, ".") == "" || strings.Trim(p, plain) != ""
	})
}

// longestKept bounds an id.
const longestKept = 256

// vendor is whose API a request about kept things speaks.
func (k *keptPath) vendor(hd *stream.Head) policy.ProviderID {
	switch {
	case k.collection == cachedContents:
		return "google"
	case k.collection == "/v1/messages/batches", k.collection == "/v1/files" && hd.Header.Has("anthropic-version"):
		return "anthropic"
	}
	return "openai"
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
