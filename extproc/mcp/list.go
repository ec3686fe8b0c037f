package mcp

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/jsonx"
)

// Limits of the lists of one server.
const (
	listTime  = 10 * time.Second // for all pages
	maxPages  = 64
	maxItems  = 4096
	maxList   = 8 << 20 // bytes of all pages
	maxCursor = 4096
	maxName   = 256
)

// pause is how long a server that did not answer a list in time is left out of the lists of all servers, without being asked.
const pause = 15 * time.Second

// listing is a kind of list.
type listing struct {
	member     string // of the result, and of the request's method
	capability string // without which a server has an empty one
	named      bool   // its items have names, which get the server's prefix
}

// listings are the lists, by method.
var listings = map[string]listing{
	"tools/list":               {"tools", "tools", true},
	"prompts/list":             {"prompts", "prompts", true},
	"resources/list":           {"resources", "resources", false},
	"resources/templates/list": {"resourceTemplates", "resources", false},
}

// item is an item of a list.
type item struct {
	name string
	doc  jsonx.Doc
}

// listed is one server's list.
type listed struct {
	items []item
	err   error
}

// listAll gets the lists of servers, at the same time. One that does not answer in time delays the others by listTime at most, once in a while.
func (x *exchange) listAll(ctx context.Context, servers []*Server, method string) []listed {
	out := make([]listed, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		if x.caller.Single == "" && x.isPaused(s) {
			out[i].err = failure{why: timedOut}
			continue
		}
		all.Add(1)
		guard.Go(func() {
			defer all.Done()
			out[i].err = failure{why: badAnswer} // of a panic
			k := call{x.Gateway, x.caller, s, x.session}
			if out[i].items, out[i].err = k.list(ctx, method); out[i].err == nil && method == "tools/list" {
				k.keepNames(out[i].items)
			}
		})
	}
	all.Wait()
	return out
}

// isPaused reports whether a server is not asked for lists.
func (g *Gateway) isPaused(s *Server) bool {
	at, ok := g.failed.Load(s.Key)
	if !ok {
		return false
	}
	if time.Since(at.(time.Time)) < pause { //nolint:forcetypeassert // the only type there
		return true
	}
	g.failed.Delete(s.Key)
	return false
}

// list gets the server's list, all pages of it.
func (k *call) list(ctx context.Context, method string) (items []item, err error) {
	began := time.Now()
	own, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	defer func() {
		k.measure(method, began, err)
		if f, ok := err.(failure); ok && f.why == timedOut { //nolint:errorlint // it is never wrapped
			k.failed.Store(k.server.Key, time.Now())
		}
	}()
	_, items, err = k.fetch(own, method)
	return items, err
}

// fetch gets all pages of a list, in a new session if the server has lost the old one.
func (k *call) fetch(ctx context.Context, method string) (l *link, items []item, err error) {
	for again := true; ; again = false {
		if l, err = k.link(ctx); err != nil {
			return nil, nil, err
		}
		items, err = k.pages(ctx, l, method)
		if f, ok := err.(failure); ok && f.lost && again { //nolint:errorlint // it is never wrapped
			k.forget(l)
			continue
		}
		return l, items, err
	}
}

// keepNames keeps the names of the server's tools, for records.
func (k *call) keepNames(items []item) {
	names := make(map[string]bool, len(items))
	for i := range items {
		names[items[i].name] = true
	}
	k.tools.Store(k.server.Key, names)
}

// knows reports whether the server has listed a tool.
func (k *call) knows(tool string) bool {
	names, ok := k.tools.Load(k.server.Key)
	return ok && names.(map[string]bool)[tool] //nolint:forcetypeassert // the only type there
}

// pages gets all pages of a list.
func (k *call) pages(ctx context.Context, l *link, method string) (items []item, err error) {
	of := listings[method]
	if !l.can(of.capability) {
		return nil, nil
	}
	size, cursor := 0, ""
	for range maxPages {
		var params jsonx.Raw
		if cursor != "" {
			params = append(jsonx.AppendString([]byte(`{"cursor":`), cursor), '}')
		}
		page, err := k.page(ctx, l, request{method: method, params: params})
		if err != nil {
			return nil, err
		}
		if size += len(page.Raw); size > maxList { // all of it stays in memory with its items
			return nil, failure{why: tooLarge}
		}
		for v := range elements(page.Get(of.member)) {
			if len(items) == maxItems {
				return nil, failure{why: tooLarge}
			}
			if i, ok := itemOf(v, of.named); ok && k.exists(&i) {
				items = append(items, i)
			}
		}
		if cursor, _ = page.Get("nextCursor").Str(); cursor == "" {
			return items, nil
		}
		if len(cursor) > maxCursor {
			break
		}
	}
	return nil, failure{why: tooLarge}
}

// page gets one page of a list.
func (k *call) page(ctx context.Context, l *link, r request) (jsonx.Value, error) {
	a, err := k.send(ctx, l, r)
	if err != nil {
		return jsonx.Value{}, err
	}
	defer a.close()
	reply, err := a.response(ctx)
	if err != nil {
		return jsonx.Value{}, err
	}
	if reply.error.Exists() {
		return jsonx.Value{}, errServer
	}
	return jsonx.Value{Raw: append(jsonx.Raw(nil), reply.result.Raw...)}, nil
}

// itemOf reads an item; ok is false for one that is malformed: it is left out.
func itemOf(v jsonx.Value, named bool) (i item, ok bool) {
	if i.doc, ok = scan(v); !ok || !named {
		return i, ok
	}
	i.name, ok = i.doc.Get("name").Str()
	return i, ok && isName(i.name)
}

// exists reports whether an item exists for clients: a tool whose schema the protocol does not allow does not.
func (k *call) exists(i *item) bool {
	_, ok := paramsOf(i.doc.Get("inputSchema").Raw)
	if !ok {
		k.Log.Warn("an MCP server's tool is left out: its schema does not have "+paramMember+" as the protocol allows", "server", k.server.Name, "tool", i.name)
	}
	return ok
}

func scan(v jsonx.Value) (jsonx.Doc, bool) {
	if v.Kind() != jsonx.Object {
		return jsonx.Doc{}, false
	}
	doc, err := jsonx.Scan(v.Raw)
	return doc, err == nil
}

// isName reports whether a text can be the name of a tool or a prompt.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || r == unicode.ReplacementChar }) < 0
}

// separator stands between the names of a server and of its tool or prompt. No name of a server contains it.
const separator = "__"

// result is the result of a list: the items of all servers, and which servers are missing.
func (x *exchange) listResult(method string, servers []*Server, lists []listed) jsonx.Raw {
	of := listings[method]
	b := append(jsonx.AppendString([]byte{'{'}, of.member), ":["...)
	var missing []byte
	for i, s := range servers {
		if err := lists[i].err; err != nil {
			missing = appendMissing(missing, s.Name, err)
			continue
		}
		for j := range lists[i].items {
			it := &lists[i].items[j]
			if method == "tools/list" && !x.caller.Rules.Offers(s, it.name) {
				continue
			}
			if b[len(b)-1] != '[' {
				b = append(b, ',')
			}
			b = x.appendItem(b, s, it, of.named)
		}
	}
	b = append(b, ']')
	if missing != nil {
		b = append(append(b, `,"_meta":{"money.bardo/unavailable":[`...), missing...)
		b = append(b, "]}"...)
	}
	return append(b, '}')
}

// appendItem appends an item, under its name for this client.
func (x *exchange) appendItem(b []byte, s *Server, it *item, named bool) []byte {
	if !named || x.caller.Single != "" {
		return append(b, it.doc.Bytes...)
	}
	var e jsonx.Edits
	e.Set(&it.doc, "name", jsonx.AppendString(nil, s.Name+separator+it.name))
	return e.AppendTo(b, &it.doc)
}

// appendMissing appends a server that is left out of a list, and why.
func appendMissing(b []byte, server string, err error) []byte {
	why := badAnswer
	if f, ok := err.(failure); ok { //nolint:errorlint // it is never wrapped
		why = f.why
	}
	if b != nil {
		b = append(b, ',')
	}
	b = jsonx.AppendString(append(b, `{"server":`...), server)
	return append(jsonx.AppendString(append(b, `,"reason":`...), why), '}')
}

// schemas are the schemas of the arguments of a server's tools, by name.
type schemas struct {
	at time.Time
	of map[string]jsonx.Raw
}

// schemaAge is how long the schemas of tools are used before they are read again.
const schemaAge = time.Minute

// schema returns the schema of a tool's arguments, nil without one; ok is false if the server does not have the tool. The error is a failure.
func (k *call) schema(ctx context.Context, tool string) (raw []byte, ok bool, err error) {
	own, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	l, err := k.link(own)
	if err != nil {
		return nil, false, err
	}
	all := l.tools.Load()
	if all == nil || time.Since(all.at) > schemaAge {
		l, items, err := k.fetch(own, "tools/list")
		if err != nil {
			return nil, false, err
		}
		all = &schemas{at: time.Now(), of: make(map[string]jsonx.Raw, len(items))}
		for i := range items {
			all.of[items[i].name] = items[i].doc.Get("inputSchema").Raw
		}
		l.tools.Store(all)
	}
	schema, ok := all.of[tool]
	return schema, ok, nil
}
