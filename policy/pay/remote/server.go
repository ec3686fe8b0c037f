package remote

import (
	"context"
	"encoding/gob"
	"errors"
	"net/http"

	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/stake"
)

// Handler serves a chain, its settler, registries of agents and positions, each unless it is nil. Whoever can connect can have transfers signed, so the socket must
// be accessible to this user only.
func Handler(c pay.Chain, s pay.Settler, a identity.Chain, p stake.Opener) http.Handler {
	mux := http.NewServeMux()
	if c != nil {
		serveChain(mux, chain{c})
	}
	if s != nil {
		by := settler{s}
		serve(mux, methodSettlerCheck, by.check)
		serve(mux, methodSettlerVerify, by.verify)
		serve(mux, methodSettlerSettle, by.settle)
	}
	if a != nil {
		of := registries{a}
		serve(mux, methodAgentsCheck, of.check)
		serve(mux, methodAgent, of.agent)
		serve(mux, methodScore, of.score)
		serve(mux, methodConfirms, of.confirms)
	}
	if p != nil {
		of := &positions{open: p}
		serve(mux, methodStakeCheck, of.check)
		serve(mux, methodStaked, of.staked)
	}
	return mux
}

func serveChain(mux *http.ServeMux, at chain) {
	serve(mux, methodCheck, at.check)
	serve(mux, methodVerify, at.verify)
	serve(mux, methodHead, at.head)
	serve(mux, methodSlot, at.slot)
	serve(mux, methodPrepare, at.prepare)
	serve(mux, methodSend, at.send)
	serve(mux, methodReceipt, at.receipt)
	serve(mux, methodUsed, at.used)
	serve(mux, methodFind, at.find)
	serve(mux, methodMark, at.mark)
	serve(mux, methodAffords, at.affords)
}

// serve registers one method. A call is cancelled when its caller's connection ends.
func serve[In, Out any](mux *http.ServeMux, method string, do func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST /"+method, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := gob.NewDecoder(http.MaxBytesReader(w, r.Body, maxMessage)).Decode(&in); err != nil {
			http.Error(w, "the question cannot be read", http.StatusBadRequest)
			return
		}
		var a response[Out]
		value, err := do(r.Context(), in)
		if a.Value = value; err != nil {
			a.setError(err)
		}
		_ = gob.NewEncoder(w).Encode(&a) // the client has disconnected if this fails
	})
}

// setError stores an error in a response, with the types that callers distinguish.
func (a *response[T]) setError(err error) {
	a.Error = err.Error()
	a.Refusal, _ = errors.AsType[*pay.Refusal](err)
	a.Revert, _ = errors.AsType[*pay.Revert](err)
	a.Mismatch, _ = errors.AsType[*pay.Mismatch](err)
	a.NoAgent = errors.Is(err, identity.ErrNoAgent)
}
