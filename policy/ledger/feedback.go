package ledger

import (
	"context"
	"errors"
	"fmt"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/usage"
)

// Rate stores what a caller said of an answer, in place of what it said before, which it returns; ok is false if it said nothing before. It returns once
// that is on disk. The request has to be the account's own, which the caller of Rate has checked. The reason is stored encrypted (Options.Texts).
func (l *Ledger) Rate(ctx context.Context, f Feedback) (before Feedback, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return before, false, err
	}
	if f.Score < 0 || f.Score > PerfectScore {
		return before, false, fmt.Errorf("feedback on request %s: a score of %d millionths", f.RequestID, f.Score)
	}
	if f.At.IsZero() {
		f.At = l.o.Now()
	}
	texts, err := l.texts()
	if err != nil {
		return before, false, fmt.Errorf("feedback on request %s: %w", f.RequestID, err)
	}
	f.Reason = usage.SealReason(texts, f.RequestID, f.Reason)
	err = l.do(func(b *book) (err error) { before, ok, err = usage.Rate(b.Book, &f); return err }, nil)
	if errors.Is(err, usage.ErrNotOwner) {
		err = ErrReused
	}
	if err != nil {
		return before, false, fmt.Errorf("feedback on request %s: %w", f.RequestID, err)
	}
	before.Reason = usage.OpenReason(texts, before.RequestID, before.Reason)
	return before, ok, nil
}

// FeedbackOn is what the caller said of an answer; ok is false if it said nothing. A reason that was encrypted with another key is left out.
func (l *Ledger) FeedbackOn(ctx context.Context, request string) (f Feedback, ok bool, err error) {
	defer tellAway(&err)
	if f, ok, err = usage.FeedbackOn(ctx, l.reads, request); err != nil || f.Reason == "" {
		return f, ok, err
	}
	texts, err := l.texts()
	if err != nil {
		return Feedback{}, false, fmt.Errorf("feedback on request %s: %w", request, err)
	}
	f.Reason = usage.OpenReason(texts, request, f.Reason)
	return f, ok, nil
}

// FeedbackByTask sums feedback by task and regime, of one account or, for "", of all.
func (l *Ledger) FeedbackByTask(ctx context.Context, account policy.Account) (rows []FeedbackRow, err error) {
	defer tellAway(&err)
	return usage.FeedbackByTask(ctx, l.reads, account)
}

func (l *Ledger) texts() (seal.Sealer, error) {
	if l.o.Texts == nil {
		return seal.Sealer{}, nil
	}
	return l.o.Texts()
}

// sealReasons encrypts the reasons that earlier versions stored in clear, once there is a key.
func (l *Ledger) sealReasons() {
	texts, err := l.texts()
	if err != nil || !texts.Encrypts() {
		return
	}
	l.inSteps("encryption of reasons", func(b *book) (int64, error) {
		return usage.SealReasons(b.Book, texts)
	})
}
