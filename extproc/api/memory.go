package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/session"
)

// Endpoints of a session's memory: documents that are found by meaning.

// memory serves the endpoints below /v1/sessions/{id}/memory.
func (k *sessionCall) memory(ctx context.Context, read bool) (stream.Reply, error) {
	switch {
	case k.name == "" && read:
		return k.documents(ctx)
	case k.name == "" || len(k.name) > session.MaxKey:
		return stream.Reply{}, fault.Newf(fault.InvalidRequest, "a document has a key of at most %d characters", session.MaxKey)
	case read:
		d, err := k.Sessions.Document(ctx, k.session.ID, k.name)
		if err != nil {
			return stream.Reply{}, err
		}
		return k.showDocument(&d, true), nil
	case k.Head.Method == http.MethodPut:
		return k.remember(ctx)
	case k.Head.Method == http.MethodDelete:
		if err := k.Sessions.Forget(ctx, k.session.ID, k.name); err != nil {
			return stream.Reply{}, err
		}
		return k.Head.JSON(append(jsonx.AppendString([]byte(`{"key":`), k.name), `,"deleted":true}`...)), nil
	}
	return stream.Reply{}, fault.Newf(fault.NotFound, "documents of a memory take GET, PUT and DELETE")
}

// remember stores a document.
func (k *sessionCall) remember(ctx context.Context) (stream.Reply, error) {
	if k.Memory == nil {
		return stream.Reply{}, noSessions()
	}
	var life time.Duration
	d := session.Document{}
	if err := readDocument(k.Body, &d, &life); err != nil {
		return stream.Reply{}, err
	}
	n := k.Sessions.NewDocument(&k.session, k.name, life)
	n.Title, n.Source, n.Text, n.Bytes = d.Title, d.Source, d.Text, len(d.Text)
	if err := k.Memory.Put(ctx, k.session.ID, &n); err != nil {
		return stream.Reply{}, err
	}
	return k.showDocument(&n, false), nil
}

// documentMembers describes the valid members of a document, for errors.
var documentMembers = map[string]string{
	"text": "a text of 1 to 32,768 bytes", "title": "one line of at most 256 bytes", "source": "one line of at most 512 bytes",
	"expires_in": "a number of seconds, or a duration such as 12h, up to 30 days",
}

// readDocument parses the body of a PUT.
func readDocument(body []byte, d *session.Document, life *time.Duration) error {
	doc, err := jsonx.Unique.Scan(body)
	if err != nil {
		return wire.NotJSON(err)
	}
	if err := onlyMembers(&doc, "text", "title", "source", "expires_in"); err != nil { // "expires" instead of "expires_in" would otherwise be ignored
		return err
	}
	read := map[string]func(v jsonx.Value) bool{
		"text": func(v jsonx.Value) (ok bool) {
			d.Text, ok = v.Str()
			return ok && len(d.Text) <= session.MaxDocument && strings.TrimSpace(d.Text) != ""
		},
		"title":  func(v jsonx.Value) bool { return readLine(v, session.MaxTitle, &d.Title) },
		"source": func(v jsonx.Value) bool { return readLine(v, session.MaxSource, &d.Source) },
		"expires_in": func(v jsonx.Value) bool {
			var until time.Time
			ok := readLife(v, &until)
			*life = time.Until(until).Round(time.Millisecond)
			return ok
		},
	}
	for _, name := range [...]string{"text", "title", "source", "expires_in"} {
		if v := doc.Get(name); (name == "text" || !v.IsNull()) && !read[name](v) {
			return wire.Invalid(name, "%s", documentMembers[name])
		}
	}
	return nil
}

// readLine parses a text without control characters.
func readLine(v jsonx.Value, maxBytes int, into *string) (ok bool) {
	*into, ok = v.Str()
	return ok && len(*into) <= maxBytes && utf8.ValidString(*into) && !strings.ContainsFunc(*into, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func (k *sessionCall) showDocument(d *session.Document, text bool) stream.Reply {
	b := appendDocument(nil, d)
	if text {
		b = append(jsonx.AppendString(append(b[:len(b)-1], `,"text":`...), d.Text), '}')
	}
	r := k.Head.JSON(b)
	r.Header = append(r.Header, header.Field{Name: "cache-control", Value: "no-store"})
	return r
}

func appendDocument(b []byte, d *session.Document) []byte {
	b = jsonx.AppendString(append(b, `{"key":`...), d.Key)
	b = jsonx.AppendString(append(b, `,"id":`...), d.ID)
	b = appendText(b, "title", d.Title)
	b = appendText(b, "source", d.Source)
	b = strconv.AppendInt(append(b, `,"bytes":`...), int64(d.Bytes), 10)
	b = jsonx.AppendString(append(b, `,"created_at":`...), d.At.UTC().Format(time.RFC3339))
	return append(jsonx.AppendString(append(b, `,"expires_at":`...), d.Expires.UTC().Format(time.RFC3339)), '}')
}

func (k *sessionCall) documents(ctx context.Context) (stream.Reply, error) {
	all, err := k.Sessions.Documents(ctx, k.session.ID)
	b := []byte(`{"object":"list","data":[`)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDocument(b, &all[i])
	}
	return k.Head.JSON(append(b, "]}"...)), err
}
