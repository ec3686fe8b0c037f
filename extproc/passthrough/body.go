package passthrough

import (
	"context"
	"mime"
	"net/url"
	"strings"

	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// readBody reads the body, and checks it.
func (c *call) readBody(ctx context.Context) (err error) {
	if c.Body != nil {
		if c.body, err = c.Body(); err != nil {
			return err
		}
	}
	return c.checkBody(ctx)
}

// checkBody refuses a body that cannot be parsed, or that names resources of others. The resources determine the key, unless the path does.
func (c *call) checkBody(ctx context.Context) error {
	if len(c.body) == 0 {
		return nil
	}
	refs, err := c.parseBody()
	if err != nil {
		return err
	}
	known, err := c.s.Ledger.StoredResources(ctx, stored.Names(refs))
	if err != nil {
		return err
	}
	at := c.id
	for i := range refs {
		r := &refs[i]
		k, made := known[r.ID]
		switch mine := made && k.Account == c.Account; {
		case r.Kind == stored.URL, r.Kind == stored.Copy && !made:
			continue
		case !mine, k.Provider != at && (i > 0 || c.path.id != ""):
			return NotOwned(r)
		}
		at = k.Provider
	}
	if at == c.id {
		return nil
	}
	return c.use(at, c.path.vendor(c.Head))
}

// parseBody parses a body, a form for an upload and JSON otherwise, and returns its references.
func (c *call) parseBody() (refs []stored.Ref, err error) {
	h := c.Head.Header
	if enc := h.Get("content-encoding"); enc != "" && enc != "identity" {
		return nil, fault.Newf(fault.UnsupportedMedia, "content-encoding %q is not supported: send the body uncompressed", fault.Clip(enc))
	}
	if c.path.collection == "/v1/files" && c.path.id == "" {
		u, err := stored.ReadUpload(h.Get("content-type"), c.body)
		if err != nil {
			return nil, fault.Newf(fault.InvalidRequest, "%s", err)
		}
		c.contentType = u.ContentType
		return u.Refs, nil
	}
	if kind := h.Get("content-type"); kind != "" && !isPlainJSON(kind) {
		return nil, fault.Newf(fault.InvalidRequest, "content-type %q: %s takes application/json in UTF-8", fault.Clip(kind), c.path.collection)
	}
	c.contentType = header.JSON
	doc, err := jsonx.Unique.Scan(c.body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	return ReadRefs(&doc)
}

// isPlainJSON reports whether a content type is JSON in UTF-8.
func isPlainJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	return err == nil && kind == header.JSON && (charset == "" || charset == "utf-8" || charset == "us-ascii")
}

// plainQuery reports whether a query has no parameters by which Google's API overrides the request's method, headers or body.
func plainQuery(query string) bool {
	for field := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(field, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || strings.HasPrefix(name, "$") && name != "$alt" && name != "$prettyPrint" {
			return false
		}
	}
	return true
}
