package request

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/secret"
)

// Error messages of providers may contain the credential of the call, or another of the operator's. It is removed first, before the message
// reaches the client, the request record, the log, an event or the health state.

// Redactor removes the configured credentials and the request's own key.
func (v *View) Redactor() *secret.Redactor { return v.Config.Secrets.With(v.OwnKey) }

// Redact removes credentials from an event of a provider that is no part of its answer: an error, or a frame that its decoder could
// not read.
func (v *View) Redact(ev *chat.Event) {
	switch {
	case ev.Kind == chat.Error && ev.Err != nil:
		e := *ev.Err
		v.Redactor().Strings(&e.Type, &e.Code, &e.Message, &e.Param)
		ev.Err = &e
	case ev.Raw != nil && (ev.Kind == chat.Other || ev.Kind == chat.Extra && ev.Text == nil):
		ev.Raw = v.Redactor().Bytes(ev.Raw)
	}
}
