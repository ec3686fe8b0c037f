package ledger

import (
	"context"
	"errors"
	"fmt"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/usage"
)

// Rate stores a caller's feedback on an answer, and returns the feedback that it replaces; ok is false if there was none. It returns once the feedback
// is on disk. The caller of Rate must check that the request is the account's own. The reason is stored encrypted (Options.Sealer).
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
	texts, err := l.sealer()
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

// FeedbackOn reads the feedback on an answer; ok is false if there is none. A reason that was encrypted with another key is left out.
func (l *Ledger) FeedbackOn(ctx context.Context, request string) (f Feedback, ok bool, err error) {
	defer asUnavailable(&err)
	if f, ok, err = usage.FeedbackOn(ctx, l.reads, request); err != nil || f.Reason == "" {
		return f, ok, err
	}
	texts, err := l.sealer()
	if err != nil {
		return Feedback{}, false, fmt.Errorf("feedback on request %s: %w", request, err)
	}
	f.Reason = usage.OpenReason(texts, request, f.Reason)
	return f, ok, nil
}

// FeedbackByTask sums feedback by task and regime, of one account or, if it is "", of all.
func (l *Ledger) FeedbackByTask(ctx context.Context, account policy.Account) (rows []FeedbackRow, err error) {
	defer asUnavailable(&err)
	return usage.FeedbackByTask(ctx, l.reads, account)
}

func (l *Ledger) sealer() (seal.Sealer, error) {
	if l.o.Sealer == nil {
		return seal.Sealer{}, nil
	}
	return l.o.Sealer()
}

// sealReasons encrypts the reasons that earlier versions stored in clear, once there is a key.
func (l *Ledger) sealReasons() {
	texts, err := l.sealer()
	if err != nil || !texts.Encrypts() {
		return
	}
	l.inSteps("encryption of reasons", func(b *book) (int64, error) {
		return usage.SealReasons(b.Book, texts)
	})
}
