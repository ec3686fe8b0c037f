package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/session"
)

// Endpoints of agents' sessions. A session's own key can access that session and its descendants; the account's key, all of its sessions.

// sessionsPath is the path prefix of sessions.
const sessionsPath = "/v1/sessions/"

// SessionFault returns the client's fault for an error about sessions.
func SessionFault(err error) error {
	var spent *session.SpentError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrUnknown):
		return fault.New(fault.NotFound, "this key has no such session, or nothing of this name in it", err)
	case errors.Is(err, session.ErrEnded):
		return fault.New(fault.KeyRestricted, "the session was closed or has expired", err)
	case errors.Is(err, session.ErrFull), errors.Is(err, session.ErrShare):
		return fault.New(fault.InvalidRequest, err.Error(), err)
	case errors.Is(err, session.ErrKey):
		return fault.New(fault.NotFound, "it cannot be read: the gateway stored it encrypted with another key than it has now (store.cache_key)", err)
	case errors.Is(err, session.ErrConflict):
		return fault.New(fault.Conflict, "the entry has another version than the request expects", err)
	case errors.As(err, &spent):
		return fault.New(fault.BudgetExceeded, "the session's budget does not hold what this request may cost: $"+spent.Left.String()+" are left", err)
	}
	return err
}

// CreateSession is POST /v1/sessions.
func (s *Server) CreateSession(ctx context.Context, c *Caller) (stream.Reply, error) {
	if s.Sessions == nil {
		return stream.Reply{}, noSessions()
	}
	if err := auth.MayGenerate(c.Principal); err != nil {
		return stream.Reply{}, err
	}
	if c.Principal.Account == "" {
		return stream.Reply{}, fault.Newf(fault.InvalidAPIKey, "a session belongs to an API key: send one")
	}
	n, above, err := readSession(c.Body)
	if err != nil {
		return stream.Reply{}, err
	}
	n.Account = c.Principal.Account
	if above == "" {
		above = c.Principal.Session // a sub-agent stays below its session
	}
	var parent *session.Session
	if above != "" {
		p, err := s.Sessions.Use(ctx, c.Principal.Account, c.Principal.Session, above)
		if err != nil {
			return stream.Reply{}, SessionFault(err)
		}
		parent = &p
	}
	key, err := s.Sessions.Create(ctx, n, parent)
	if err != nil {
		return stream.Reply{}, SessionFault(err)
	}
	r, err := s.showSession(ctx, c, n, key)
	r.Status = http.StatusCreated
	return r, err
}

func noSessions() error {
	return fault.Newf(fault.NotFound, "this gateway keeps no sessions (sessions.mode)")
}

// MaxSessionBody is the maximum size of the body of POST /v1/sessions, in bytes.
const MaxSessionBody = 64 << 10

// defaultLife is the default lifetime of a session.
const defaultLife = 24 * time.Hour

// readSession parses a session's parameters. above is the id of its parent.
func readSession(body []byte) (n *session.Session, above string, err error) {
	doc, err := jsonx.Unique.Scan(body)
	if err != nil {
		return nil, "", wire.NotJSON(err)
	}
	for _, m := range doc.Members {
		if _, ok := sessionMembers[m.Key]; !ok { // a misspelt member would leave the session without its limit
			return nil, "", wire.Invalid(fault.Clip(m.Key), "a session has no such member")
		}
	}
	n = &session.Session{Expires: time.Now().Add(defaultLife)}
	for _, f := range []struct {
		name string
		read func(v jsonx.Value) (ok bool)
	}{
		{"golem_id", func(v jsonx.Value) (ok bool) { n.Golem, ok = v.Str(); return ok && len(n.Golem) <= session.MaxKey }},
		{"parent", func(v jsonx.Value) (ok bool) { above, ok = v.Str(); return ok }},
		{"expires_in", func(v jsonx.Value) bool { return readLife(v, &n.Expires) }},
		{"budget_usd", func(v jsonx.Value) bool {
			amount, err := policy.ParseUSD(string(v.Raw))
			n.Budget = &amount
			return err == nil && amount >= 0
		}},
		{"models", func(v jsonx.Value) bool { return readNames(v, &n.Models) }},
		{"subsystems", func(v jsonx.Value) bool {
			return readNames(v, &n.Subsystems) && !slices.ContainsFunc(n.Subsystems, notSubsystem)
		}},
		{"tools", func(v jsonx.Value) bool {
			n.Tools = []string{}
			return readNames(v, &n.Tools) && !slices.ContainsFunc(n.Tools, func(s string) bool { return strings.Contains(s, "*") })
		}},
	} {
		if v := doc.Get(f.name); !v.IsNull() && !f.read(v) {
			return nil, "", wire.Invalid(f.name, "%s", sessionMembers[f.name])
		}
	}
	return n, above, nil
}

// sessionMembers describes the valid members of a session, for errors.
var sessionMembers = map[string]string{
	"golem_id": "a text of at most 128 characters", "parent": "the id of a session", "expires_in": "a number of seconds, or a duration such as 24h, up to 30 days",
	"budget_usd": "an amount of dollars with at most six decimals", "models": "a list of up to 100 ids of models",
	"subsystems": "a list of subsystems, as in X-Bardo-Subsystem", "tools": "a list of up to 100 names of tools, without stars",
}

func readLife(v jsonx.Value, into *time.Time) bool {
	n, ok := v.Int()
	d := time.Duration(n) * time.Second
	if text, isText := v.Str(); isText {
		var err error
		d, err = time.ParseDuration(text)
		ok = err == nil
	}
	*into = time.Now().Add(d)
	return ok && n >= 0 && n < int64(session.MaxLife/time.Second)+1 && d > 0 && d <= session.MaxLife // large negative numbers overflow to a short time
}

func notSubsystem(name string) bool { return !intent.Known(name) }

func readNames(v jsonx.Value, into *[]string) bool {
	const most = 100
	if v.Kind() != jsonx.Array {
		return false
	}
	fits := true
	for _, e := range v.Each {
		m, ok := e.Str()
		fits = fits && ok && m != "" && len(m) <= session.MaxKey && len(*into) < most
		if !fits {
			return false
		}
		*into = append(*into, m)
	}
	return fits
}

// showSession describes a session; key is its key, which is shown once.
func (s *Server) showSession(ctx context.Context, c *Caller, n *session.Session, key string) (stream.Reply, error) {
	st, err := s.Sessions.BudgetState(ctx, n)
	if err != nil {
		return stream.Reply{}, err
	}
	below, err := s.Sessions.Children(ctx, n.ID)
	if err != nil {
		return stream.Reply{}, err
	}
	b := jsonx.AppendString([]byte(`{"object":"session","id":`), n.ID)
	if key != "" {
		b = jsonx.AppendString(append(b, `,"key":`...), key)
	}
	b = appendText(b, "parent", n.Parent)
	b = appendText(b, "golem_id", n.Golem)
	b = appendNames(append(b, `,"models":`...), n.Models)
	b = appendNames(append(b, `,"subsystems":`...), n.Subsystems)
	b = append(b, `,"tools":`...)
	if n.Tools == nil {
		b = append(b, "null"...)
	} else {
		b = appendNames(b, n.Tools)
	}
	b = append(b, `,"budget_usd":`...)
	if n.Budget == nil {
		b = append(b, `null,"left_usd":null`...)
	} else {
		b = append(n.Budget.AppendTo(b), `,"left_usd":`...)
		b = st.Left.AppendTo(b)
	}
	b = st.Used.AppendTo(append(b, `,"used_usd":`...))
	b = st.Held.AppendTo(append(b, `,"held_usd":`...))
	b = append(b, `,"sub_sessions":[`...)
	for i := range below {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, below[i].ID)
	}
	b = jsonx.AppendString(append(b, `],"created_at":`...), n.At.UTC().Format(time.RFC3339))
	b = jsonx.AppendString(append(b, `,"expires_at":`...), n.Expires.UTC().Format(time.RFC3339))
	b = strconv.AppendBool(append(b, `,"over":`...), n.Ended(time.Now()))
	r := c.Head.JSON(append(b, '}'))
	r.Header = append(r.Header, header.Field{Name: "cache-control", Value: "no-store"})
	return r, nil
}

func appendNames(b []byte, names []string) []byte {
	b = append(b, '[')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, name)
	}
	return append(b, ']')
}

// appendText appends a member that may be null.
func appendText(b []byte, name, text string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	if text == "" {
		return append(b, "null"...)
	}
	return jsonx.AppendString(b, text)
}

// sessionCall is a request below /v1/sessions/.
type sessionCall struct {
	*Server
	*Caller

	session  session.Session
	resource string // checkpoints, scratchpad, memory; "" for the session itself
	name     string // the rest of the path
}

// Session serves the endpoints below /v1/sessions/{id}.
func (s *Server) Session(ctx context.Context, c *Caller) (stream.Reply, error) {
	if s.Sessions == nil {
		return stream.Reply{}, noSessions()
	}
	id, rest, _ := strings.Cut(c.Head.Arg(sessionsPath), "/")
	k := sessionCall{Server: s, Caller: c}
	k.resource, k.name, _ = strings.Cut(rest, "/")
	var err error
	if c.Principal.Account == "" {
		return stream.Reply{}, SessionFault(session.ErrUnknown)
	}
	if k.session, err = s.Sessions.Use(ctx, c.Principal.Account, c.Principal.Session, id); err != nil {
		return stream.Reply{}, SessionFault(err)
	}
	if c.Head.Method != http.MethodGet && c.Head.Method != http.MethodHead {
		if err := auth.MayGenerate(c.Principal); err != nil {
			return stream.Reply{}, err
		}
		if k.resource != "" && k.session.Ended(time.Now()) {
			return stream.Reply{}, SessionFault(session.ErrEnded)
		}
	}
	r, err := k.serve(ctx)
	return r, SessionFault(err)
}

func (k *sessionCall) serve(ctx context.Context) (stream.Reply, error) {
	read := k.Head.Method == http.MethodGet || k.Head.Method == http.MethodHead
	switch {
	case k.resource == "" && read:
		return k.showSession(ctx, k.Caller, &k.session, "")
	case k.resource == "" && k.Head.Method == http.MethodDelete:
		if err := k.Sessions.Close(ctx, k.session.ID); err != nil {
			return stream.Reply{}, err
		}
		return k.Head.JSON(append(jsonx.AppendString([]byte(`{"id":`), k.session.ID), `,"over":true}`...)), nil
	case k.resource == "checkpoints" && k.name == "" && k.Head.Method == http.MethodPost:
		return k.addCheckpoint(ctx)
	case k.resource == "checkpoints" && read:
		return k.checkpoints(ctx)
	case k.resource == "scratchpad" && k.name == "" && read:
		return k.entries(ctx)
	case k.resource == "scratchpad" && k.name != "":
		return k.entry(ctx, read)
	case k.resource == "memory":
		return k.memory(ctx, read)
	}
	return stream.Reply{}, fault.Newf(fault.NotFound, "there is no endpoint %s %s", fault.Clip(k.Head.Method), fault.Clip(k.Head.Path))
}

// bodyOf returns the body, which must be JSON of a limited size.
func (k *sessionCall) bodyOf(maxBytes int) ([]byte, error) {
	b := k.Body
	if len(b) > maxBytes {
		return nil, fault.Newf(fault.TooLarge, "at most %d bytes can be stored", maxBytes)
	}
	if err := jsonx.Valid(b); err != nil {
		return nil, wire.NotJSON(err)
	}
	return b, nil
}

func (k *sessionCall) addCheckpoint(ctx context.Context) (stream.Reply, error) {
	state, err := k.bodyOf(session.MaxState)
	if err != nil {
		return stream.Reply{}, err
	}
	c := k.Sessions.NewCheckpoint(state)
	if err := k.Sessions.AddCheckpoint(ctx, k.session.ID, &c); err != nil {
		return stream.Reply{}, err
	}
	r := k.Head.JSON(appendCheckpoint(nil, &c))
	r.Status = http.StatusCreated
	return r, nil
}

func appendCheckpoint(b []byte, c *session.Checkpoint) []byte {
	b = jsonx.AppendString(append(b, `{"id":`...), c.ID)
	b = jsonx.AppendString(append(b, `,"created_at":`...), c.At.UTC().Format(time.RFC3339Nano))
	return append(strconv.AppendInt(append(b, `,"bytes":`...), int64(c.Bytes), 10), '}')
}

func (k *sessionCall) checkpoints(ctx context.Context) (stream.Reply, error) {
	if k.name != "" {
		c, err := k.Sessions.Checkpoint(ctx, k.session.ID, k.name)
		return k.Head.JSON(c.State), err
	}
	all, err := k.Sessions.Checkpoints(ctx, k.session.ID)
	b := []byte(`{"object":"list","data":[`)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCheckpoint(b, &all[i])
	}
	return k.Head.JSON(append(b, "]}"...)), err
}

func (k *sessionCall) entries(ctx context.Context) (stream.Reply, error) {
	all, err := k.Sessions.Entries(ctx, k.session.ID)
	b := []byte(`{"object":"list","data":[`)
	for i := range all {
		e := &all[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(append(b, `{"key":`...), e.Key)
		b = strconv.AppendInt(append(b, `,"version":`...), e.Version, 10)
		b = append(strconv.AppendInt(append(b, `,"bytes":`...), int64(e.Bytes), 10), '}')
	}
	return k.Head.JSON(append(b, "]}"...)), err
}

// entry reads, sets or removes an entry. If-Match requires a version; If-None-Match: * requires that the entry does not exist.
func (k *sessionCall) entry(ctx context.Context, read bool) (stream.Reply, error) {
	if len(k.name) > session.MaxKey {
		return stream.Reply{}, fault.Newf(fault.InvalidRequest, "a key of a scratchpad has at most %d characters", session.MaxKey)
	}
	if read {
		e, err := k.Sessions.Entry(ctx, k.session.ID, k.name)
		r := k.Head.JSON(e.Value)
		r.Header = append(r.Header, header.Field{Name: "etag", Value: etag(e.Version)})
		return r, err
	}
	expected, err := k.expected()
	if err != nil {
		return stream.Reply{}, err
	}
	switch k.Head.Method {
	case http.MethodDelete:
		if err := k.Sessions.Remove(ctx, k.session.ID, k.name, expected); err != nil {
			return stream.Reply{}, err
		}
		return k.Head.JSON(append(jsonx.AppendString([]byte(`{"key":`), k.name), `,"deleted":true}`...)), nil
	case http.MethodPut:
		value, err := k.bodyOf(session.MaxValue)
		if err != nil {
			return stream.Reply{}, err
		}
		version, err := k.Sessions.Put(ctx, k.session.ID, k.name, expected, value)
		b := append(jsonx.AppendString([]byte(`{"key":`), k.name), `,"version":`...)
		r := k.Head.JSON(append(strconv.AppendInt(b, version, 10), '}'))
		r.Header = append(r.Header, header.Field{Name: "etag", Value: etag(version)})
		return r, err
	}
	return stream.Reply{}, fault.Newf(fault.NotFound, "entries of a scratchpad take GET, PUT and DELETE")
}

// etag formats a version as an ETag.
func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// expected returns the version that the request requires; negative for any.
func (k *sessionCall) expected() (int64, error) {
	match, none := k.Head.Header.Get("if-match"), k.Head.Header.Get("if-none-match")
	switch {
	case match == "" && none == "":
		return -1, nil
	case none == "*" && match == "":
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.Trim(match, `"`), 10, 64)
	if err != nil || n < 1 || none != "" {
		return 0, fault.Newf(fault.InvalidRequest, "If-Match takes the version of an entry as its ETag has it, If-None-Match takes *")
	}
	return n, nil
}
