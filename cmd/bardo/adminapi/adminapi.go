// Package adminapi is the HTTP admin API: what an operator does with a running gateway from elsewhere than its command line. openapi.yaml describes it.
// It knows HTTP, tokens and JSON; what is done with the books is in policy/admin.
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

// Prefix is what every path of the API begins with.
const Prefix = "/admin/v1"

// Options say what a process has. What is nil it has not.
type Options struct {
	Version string
	Started time.Time

	Token     func() string                                             // nil: whoever can connect may do everything, and sees what went wrong in full
	Books     *admin.Service                                            // keys, money, past requests
	Cache     *Cache                                                    // stored answers
	Providers func() []control.Provider                                 // in the order of the configuration
	Switch    func(ctx context.Context, name, verb string) error        // enables or disables a provider
	Payments  func(context.Context, book.Filter) ([]book.Listed, error) // of wallets for single requests; nil with books: there are none
	BodyTime  time.Duration                                             // in which the body of a request arrives; zero means 10 s
	Audit     func(context.Context) (ledger.Report, error)              // checks the books and the payments; nil: they cannot be
	Events    *event.Sink                                               // of all requests
	Changes   *event.Sink                                               // is told of each change; may be nil
	Data      http.Handler                                              // serves books and cache where they are in another process
	Refused   func()                                                    // is called for each request without the token; may be nil
	Log       *slog.Logger                                              // has a line of each change; nil: nobody reads one
}

// How a change came.
const (
	viaHTTP   = "http"   // with the token
	viaSocket = "socket" // of a command, on the gateway's machine
)

// viaHeader tells the process that has the books how a change came. What a client says is removed.
const viaHeader = "Bardo-Admin-Via"

// api is the handler of a process.
type api struct {
	Options
	mux    *http.ServeMux
	failed attempts.Limiter // requests without the token
}

// part is what of a process an operation needs.
type part uint8

const (
	ofItself part = iota
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
	do           func(*api, *http.Request) (reply, error)             // nil: the answer is a stream, of events without lines
	lines        func(*api, *http.Request, func(row any) error) error // yields the lines of the answer
}

// reply is what an operation answers.
type reply struct {
	status int // 0: 200
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

// ServeHTTP lets in who has the token.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.Token != nil {
		r.Header.Del(viaHeader)
		if err := a.admit(r); err != nil {
			h.Set("WWW-Authenticate", `Bearer realm="bardo admin"`)
			a.fail(w, err)
			return
		}
		r.Header.Del("Authorization") // nobody behind needs it
		r.Header.Set(viaHeader, viaHTTP)
	}
	if p := r.URL.Path; path.Clean(p) != p { // no redirect: it would turn a POST into a GET
		a.fail(w, fault.New(fault.NotFound, "there is no such path", nil))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// admit lets in who has the token. An address that had it wrong too often has to wait before it is asked again; commands of the gateway's own machine, which
// need no token, do not.
func (a *api) admit(r *http.Request) error {
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

// dispatch serves the operation of a path that has the request's method.
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
		w = whileHeld(w, a.Token)
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
	r.Body = http.MaxBytesReader(w, a.soon(w, r.Body), maxBody)
	out, err := op.do(a, r)
	if op.method != http.MethodGet {
		a.tell(r, op, &out, err)
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

// has reports whether this process has what an operation needs.
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
	case ofItself:
	}
	return true
}

// changed is the event of a change.
var changed = event.Declare[change]("admin:changed", "An operator made a change by the admin API or a command, or tried to.").Audited()

// change is what of a change is told.
type change struct {
	Operation string `json:"operation"` // as in openapi.yaml
	Via       string `json:"via"`       // http, or socket for a command on the gateway's machine
	Target    string `json:"target,omitempty"`
	Amount    string `json:"usd,omitempty"`
	Reason    string `json:"reason,omitempty"` // of what is forgiven
	Refused   string `json:"error,omitempty"`  // why nothing was changed
}

// viaOf is how a request came.
func viaOf(r *http.Request) string {
	if r.Header.Get(viaHeader) == viaHTTP {
		return viaHTTP
	}
	return viaSocket
}

// tell writes the lines of a change, or of an attempt at one: who and what, without content.
func (a *api) tell(r *http.Request, op *operation, out *reply, err error) {
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
