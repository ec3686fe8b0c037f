package pii

import (
	"context"
	"errors"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/policy"
)

// errTooMany is the error of texts that cannot be searched in bounded time.
var errTooMany = errors.New("the texts have too many long values that begin alike")

// Redact masks related texts that are stored instead of sent, in place: whatever the layer's mode, with the account's placeholders, and including names if
// there is a model for them. After an error, none of the texts may be stored.
func (l Layer) Redact(ctx context.Context, account policy.Account, texts []string) error {
	r := redaction{Layer: l, ctx: ctx, vault: pii.NewVault(pii.TenantKey(l.Secret(), string(account))), minDigits: transcript.LongNumber}
	for _, text := range texts {
		transcript.EditInner(text, transcript.LongNumber, func(s string) (string, bool) {
			r.learn(s, r.find(s))
			return "", false
		})
		r.learnMembers(text)
	}
	for i, text := range texts {
		texts[i], _ = transcript.EditInner(text, r.minDigits, func(s string) (string, bool) {
			masked := r.vault.Mask(s, r.find(s))
			return masked, masked != s
		})
	}
	if r.vault.Exhausted() {
		return errTooMany
	}
	return r.err
}

// redaction is one run of Redact.
type redaction struct {
	Layer

	ctx   context.Context
	vault *pii.Vault
	err   error // the first one

	minDigits int // of the shortest JSON number that may be a value
}

// find returns the values in a text, by patterns and by the model for names.
func (r *redaction) find(text string) []pii.Span {
	spans, err := r.Finder.Find(r.ctx, text)
	if r.Names.Finder != nil && err == nil {
		var named []pii.Span
		named, err = r.Names.Finder.Find(r.ctx, text)
		spans = pii.Resolve(slices.Concat(spans, named), len(text))
	}
	if err != nil && r.err == nil {
		r.err = err
	}
	return spans
}

// learnMembers adds to the vault the values of JSON as a whole, in which the name of a member may identify its value.
func (r *redaction) learnMembers(text string) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") && !strings.HasPrefix(strings.TrimSpace(text), "[") {
		return
	}
	spans, err := r.Finder.FindOnce(r.ctx, text)
	if err != nil {
		return // find has recorded the error
	}
	for _, at := range spans {
		if isShortNumber(text, at) {
			r.minDigits = min(r.minDigits, at.End-at.Start)
		}
	}
	r.learn(text, slices.DeleteFunc(spans, func(s pii.Span) bool { return strings.ContainsAny(text[s.Start:s.End], `"\`) }))
}

// learn adds to the vault the values of a text, and the names that it has in parts.
func (r *redaction) learn(text string, spans []pii.Span) {
	r.vault.Learn(text, spans)
	for _, name := range pii.FullNames(text, spans) {
		r.vault.Holder(pii.Name, name)
	}
}
