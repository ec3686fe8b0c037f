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

// errMany says that values could not be looked for in bounded time.
var errMany = errors.New("the texts have too many long values that begin alike")

// Redact masks texts that belong together and are kept instead of sent, in place: whatever the layer's mode, with its placeholders for the account, names included
// where a model finds them. An error means that nothing may be kept of them.
func (l Layer) Redact(ctx context.Context, account policy.Account, texts []string) error {
	r := redaction{Layer: l, ctx: ctx, vault: pii.NewVault(pii.TenantKey(l.Secret(), string(account))), digits: transcript.LongNumber}
	for _, text := range texts {
		transcript.EditInner(text, transcript.LongNumber, func(s string) (string, bool) {
			r.learn(s, r.find(s))
			return "", false
		})
		r.learnBehindNames(text)
	}
	for i, text := range texts {
		texts[i], _ = transcript.EditInner(text, r.digits, func(s string) (string, bool) {
			masked := r.vault.Mask(s, r.find(s))
			return masked, masked != s
		})
	}
	if r.vault.Exhausted() {
		return errMany
	}
	return r.err
}

// redaction is one run of Redact.
type redaction struct {
	Layer

	ctx   context.Context
	vault *pii.Vault
	err   error // the first one

	digits int // of the shortest number of JSON that may be a value
}

// find is what stands in a text, by patterns and by a model for names.
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

// learnBehindNames learns what JSON as a whole has, where a member's name tells what its value is.
func (r *redaction) learnBehindNames(text string) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") && !strings.HasPrefix(strings.TrimSpace(text), "[") {
		return
	}
	spans, err := r.Finder.FindOnce(r.ctx, text)
	if err != nil {
		return // find has said so
	}
	for _, at := range spans {
		if isShortNumber(text, at) {
			r.digits = min(r.digits, at.End-at.Start)
		}
	}
	r.learn(text, slices.DeleteFunc(spans, func(s pii.Span) bool { return strings.ContainsAny(text[s.Start:s.End], `"\`) }))
}

// learn learns the values of a text, and names that it has in parts.
func (r *redaction) learn(text string, spans []pii.Span) {
	r.vault.Learn(text, spans)
	for _, name := range pii.FullNames(text, spans) {
		r.vault.Holder(pii.Name, name)
	}
}
