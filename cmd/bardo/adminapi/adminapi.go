// Package adminapi is the HTTP admin API, by which operators manage a running gateway remotely. openapi.yaml describes it. It handles HTTP, tokens and JSON;
// policy/admin operates on the ledger.
package adminapi

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/internal/attempts"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay/book"
)

// Prefix is the prefix of all paths of the API.
const Prefix = "/admin/v1"

// Options are what a process provides. What is nil it does not provide.
type Options struct {
	Version string
	Started time.Time

	Token     func() string                                             // nil: no token is required, and internal errors include their cause
	Books     *admin.Service                                            // keys, money, past requests
	Cache     *Cache                                                    // stored answers
	Providers func() []control.Provider                                 // in the order of the configuration
	Switch    func(ctx context.Context, name, verb string) error        // enables or disables a provider
	Payments  func(context.Context, book.Filter) ([]book.Listed, error) // for single requests, by wallets; nil with Books: there are none
	BodyTime  time.Duration                                             // bounds the arrival of a request's body; zero means 10 s
	Audit     func(context.Context) (ledger.Report, error)              // checks the ledger and the payments; nil: not possible here
	Events    *event.Sink                                               // of all requests
	Changes   *event.Sink                                               // receives an event for each change; may be nil
	Data      http.Handler                                              // serves Books and Cache from another process
	Refused   func()                                                    // called for each request without the token; may be nil
	Log       *slog.Logger                                              // gets a line for each change; may be nil
}

// How a change was requested.
const (
	viaHTTP   = "http"   // with the admin token
	viaSocket = "socket" // by a command on the gateway's machine
)

// viaHeader passes on how a change was requested to the process that has the ledger. It is removed from clients' requests.
const viaHeader = "Bardo-Admin-Via"

// api is the API's handler in one process.
type api struct {
	Options
	mux    *http.ServeMux
	failed attempts.Limiter // requests without the token
}

// part is what an operation needs from a process.
type part uint8

const (
	ofProcess part = iota
	ofBooks
	ofCache
	ofProviders
	ofEvents
)

// operation is one method of one path.
type operation struct {
	method, path string // below Prefix
	name         string // operationId
	part         part
	do           func(*api, *http.Request) (reply, error)             // nil: the answer is a stream of lines, or of events if lines is nil too
	lines        func(*api, *http.Request, func(row any) error) error // yields the lines of the answer
}

// reply is the result of an operation.
type reply struct {
	status int // 0 means 200
	body   any
	target string // of a change
	amount string
	reason string
}

// Handler serves the API.
func Handler(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{Options: o, mux: http.NewServeMux()}
	byPath := map[string][]operation{}
	for _, op := range operations() {
		byPath[op.path] = append(byPath[op.path], op)
	}
	for p, ops := range byPath {
		a.mux.HandleFunc(Prefix+p, func(w http.ResponseWriter, r *http.Request) { a.dispatch(w, r, ops) })
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		a.fail(w, fault.New(fault.NotFound, "there is no such path: "+Prefix+"/openapi.json lists those that there are", nil))
	})
	return a
}

// ServeHTTP authenticates the request and dispatches it.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.Token != nil {
		r.Header.Del(viaHeader)
		if err := a.authenticate(r); err != nil {
			h.Set("WWW-Authenticate", `Bearer realm="bardo admin"`)
			a.fail(w, err)
			return
		}
		r.Header.Del("Authorization") // not needed further on
		r.Header.Set(viaHeader, viaHTTP)
	}
	if p := r.URL.Path; path.Clean(p) != p { // no redirect, which would turn a POST into a GET
		a.fail(w, fault.New(fault.NotFound, "there is no such path", nil))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// authenticate checks the token. An address with too many failed attempts has to wait. Commands on the gateway's machine, which need no token, are not
// affected.
func (a *api) authenticate(r *http.Request) error {
	now, from := time.Now(), attempts.Address(r)
	wait := a.failed.Wait(now, from)
	err := error(nil)
	if wait == 0 {
		err = authorize(r, a.Token())
	}
	switch {
	case wait > 0:
		f := fault.New(fault.RateLimited, "too many requests of this address came without the admin token: wait a little", nil)
		f.RetryAfter, err = wait, f
	case err != nil:
		a.failed.Take(now, from)
		a.Log.Warn("a request to the admin API without the token was refused", "address", from.String())
	default:
		return nil
	}
	if a.Refused != nil {
		a.Refused()
	}
	return err
}

// dispatch serves the path's operation for the request's method.
func (a *api) dispatch(w http.ResponseWriter, r *http.Request, ops []operation) {
	i := slices.IndexFunc(ops, func(op operation) bool { return op.method == r.Method })
	if i < 0 {
		var allowed []string
		for _, op := range ops {
			allowed = append(allowed, op.method)
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		a.fail(w, fault.Newf(fault.MethodNotAllowed, "the path takes %s", strings.Join(allowed, " and ")))
		return
	}
	a.serve(w, r, &ops[i])
}

// serve runs one operation.
func (a *api) serve(w http.ResponseWriter, r *http.Request, op *operation) {
	if a.Token != nil && op.do == nil {
		w = untilTokenChanges(w, a.Token)
	}
	if !a.has(op.part) {
		if a.Data != nil && op.part != ofProviders {
			a.Data.ServeHTTP(w, r)
			return
		}
		f := fault.New(fault.NotFound, "this process does not have that: ask the admin listener of a gateway or sidecar for keys, money and events, and that of the control plane for providers", nil)
		f.Status = http.StatusNotImplemented
		a.fail(w, f)
		return
	}
	if op.lines != nil {
		a.sendLines(w, r, op)
		return
	}
	if op.do == nil {
		if err := a.stream(w, r); err != nil {
			a.fail(w, err)
		}
		return
	}
	r.Body = http.MaxBytesReader(w, a.withBodyDeadline(w, r.Body), maxBody)
	out, err := op.do(a, r)
	if op.method != http.MethodGet {
		a.reportChange(r, op, &out, err)
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	status := out.status
	if status == 0 {
		status = http.StatusOK
	}
	write(w, status, out.body)
}

// has reports whether this process provides what an operation needs.
func (a *api) has(p part) bool {
	switch p {
	case ofBooks:
		return a.Books != nil
	case ofCache:
		return a.Cache != nil
	case ofProviders:
		return a.Providers != nil
	case ofEvents:
		return a.Events != nil
	case ofProcess:
	}
	return true
}

// changed is the event of a change.
var changed = event.Declare[change]("admin:changed", "An operator made a change by the admin API or a command, or tried to.").Audited()

// change is the body of the event of a change.
type change struct {
	Operation string `json:"operation"` // as in openapi.yaml
	Via       string `json:"via"`       // http, or socket for a command on the gateway's machine
	Target    string `json:"target,omitempty"`
	Amount    string `json:"usd,omitempty"`
	Reason    string `json:"reason,omitempty"` // of a forgiven loss
	Refused   string `json:"error,omitempty"`  // the error code, if nothing was changed
}

// viaOf returns how a change was requested.
func viaOf(r *http.Request) string {
	if r.Header.Get(viaHeader) == viaHTTP {
		return viaHTTP
	}
	return viaSocket
}

// reportChange logs and emits a change, or a refused one: the operation and its target, without content.
func (a *api) reportChange(r *http.Request, op *operation, out *reply, err error) {
	via := viaOf(r)
	line := []any{"operation", op.name, "via", via}
	if err != nil {
		code := fault.From(err).CodeString()
		changed.Emit(a.Changes, "", change{Operation: op.name, Via: via, Refused: code})
		a.Log.Info("admin change refused", append(line, "code", code)...)
		return
	}
	if line = append(line, "target", out.target); out.amount != "" {
		line = append(line, "usd", out.amount)
	}
	changed.Emit(a.Changes, "", change{Operation: op.name, Via: via, Target: out.target, Amount: out.amount, Reason: out.reason})
	a.Log.Info("admin change", line...)
}
