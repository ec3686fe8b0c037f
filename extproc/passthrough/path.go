package passthrough

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/policy"
)

// collections are the parts of the providers' APIs that serve stored resources.
var collections = []string{"/v1/responses/compact", "/v1/responses", "/v1/conversations", "/v1/messages/batches", "/v1/batches", "/v1/files", cachedContents}

// cachedContents are prompts that clients of Google's API store, with an expiry of their choice.
const cachedContents = "/v1beta/cachedContents"

// Methods returns the methods of a stored resource's path; nil for any other path.
func Methods(path string) []string {
	k, ok := ParsePath(path)
	if !ok {
		return nil
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}
	if k.collection == cachedContents {
		methods = append(methods, http.MethodPatch)
	}
	return methods
}

// Path is the parsed path of a stored resource, or a collection: /v1/files/file-1/content.
type Path struct {
	collection string // "/v1/files"
	id         string // "file-1"; "" for the collection itself
	rest       string // "content"
}

// ParsePath parses a path; ok is false for any other path.
func ParsePath(path string) (k Path, ok bool) {
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

// String returns the path.
func (k *Path) String() string {
	switch {
	case k.id == "":
		return k.collection
	case k.rest == "":
		return k.collection + "/" + k.id
	}
	return k.collection + "/" + k.id + "/" + k.rest
}

// name returns the resource's name at its vendor; "" for the collection itself.
func (k *Path) name() string {
	if k.collection == cachedContents && k.id != "" {
		return "cachedContents/" + k.id
	}
	return k.id
}

// members returns the JSON members that hold a resource's name in an answer, and the resources in a list.
func (k *Path) members() (name, list string) {
	if k.collection == cachedContents {
		return "name", "cachedContents"
	}
	return "id", "data"
}

// below returns the path below the version.
func (k *Path) below() string {
	path := k.String()
	return path[1+strings.IndexByte(path[1:], '/'):]
}

// maxDepth is the maximum number of path segments below a collection: an id, a subresource, and a part of that.
const maxDepth = 3

// WellFormed reports whether a path below a collection may be sent on: it must not lead anywhere else at the provider.
func (k *Path) WellFormed() bool {
	if k.id == "" {
		return k.rest == ""
	}
	parts := strings.Split(k.id+"/"+k.rest, "/")
	if k.rest == "" {
		parts = parts[:1]
	}
	return len(parts) <= maxDepth && !slices.ContainsFunc(parts, func(p string) bool {
		const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"
		return p == "" || len(p) > maxIDLength || strings.Trim(p, ".") == "" || strings.Trim(p, plain) != ""
	})
}

// maxIDLength is the maximum length of an id.
const maxIDLength = 256

// vendor returns the vendor whose API a request about a stored resource uses.
func (k *Path) vendor(hd *stream.Head) policy.ProviderID {
	switch {
	case k.collection == cachedContents:
		return "google"
	case k.collection == "/v1/messages/batches", k.collection == "/v1/files" && hd.Header.Has("anthropic-version"):
		return "anthropic"
	}
	return "openai"
}
