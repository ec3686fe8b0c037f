package request

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/secret"
)

// Providers' error messages may contain the call's credential, or another one of the operator's. It is removed before the message reaches the client,
// the request record, the log, an event or the health state.

// Redactor returns a redactor of the configured credentials and the request's own key.
func (v *View) Redactor() *secret.Redactor { return v.Config.Secrets.With(v.OwnKey.Key) }

// Redact removes credentials from a provider's event that is not part of the answer: an error, or an undecodable frame.
func (v *View) Redact(ev *chat.Event) {
	switch {
	case ev.Kind == chat.Error && ev.Err != nil:
		e := *ev.Err
		v.Redactor().Strings(&e.Type, &e.Code, &e.Message, &e.Param, &e.Generated)
		ev.Err = &e
	case ev.Raw != nil && (ev.Kind == chat.Other || ev.Kind == chat.Extra && ev.Text == nil):
		ev.Raw = v.Redactor().Bytes(ev.Raw)
	}
}
