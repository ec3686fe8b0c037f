package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/secret"
)

// What providers say when they fail may quote the credential that they were called with, or another one of the operator's. It is removed
// before anything else sees it: the client, the record, the log, the events, and what is known of the provider.

// redactor knows the configured credentials, and the one that the request brings.
func (x *exchange) redactor() *secret.Redactor { return x.rt.Secrets.With(x.ownKey) }

// redact removes credentials from an event of a provider that is no part of its answer: an error, or a frame that its decoder could
// not read.
func (x *exchange) redact(ev *chat.Event) {
	switch {
	case ev.Kind == chat.Error && ev.Err != nil:
		e := *ev.Err
		x.redactor().Strings(&e.Type, &e.Code, &e.Message, &e.Param)
		ev.Err = &e
	case ev.Raw != nil && (ev.Kind == chat.Other || ev.Kind == chat.Extra && ev.Text == nil):
		ev.Raw = x.redactor().Bytes(ev.Raw)
	}
}
